"""The consistent forest of Denil, Matheson and de Freitas (2014)."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Bools, Longs
from mrf_matrix.base.checks import check_integer, short_repr
from mrf_matrix.forests.grown_trees import GrownTrees
from mrf_matrix.forests.growth.growth import (
    GREEDY,
    AttributeRule,
    Growth,
    Impurity,
    Partition,
    RandomAttributes,
    Stopping,
    random_subsets,
)
from mrf_matrix.forests.growth.search import IMPOSSIBLE, Search


@dataclass(frozen=True)
class PoissonAttributes:
    """``min(1 + Poisson(mean), d)`` attributes (Denil, Matheson and de Freitas, 2014)."""

    mean: float = 10.0

    def __post_init__(self) -> None:
        number = isinstance(self.mean, int | float | np.number) and not isinstance(self.mean, bool)
        if not number or not 0 <= self.mean < np.inf:
            raise ValueError(
                f"mean_features={short_repr(self.mean)}: expected a number of at least 0."
            )

    def draw(self, n_nodes: int, n_attributes: int, generator: np.random.Generator) -> Longs | None:
        """Return a random subset of random size for each node."""
        count = np.minimum(1 + generator.poisson(self.mean, n_nodes), n_attributes)
        return random_subsets(count, n_attributes, generator)


@dataclass(frozen=True, eq=False, repr=False)
class SpannedSearch(Search):
    """Cuts between the least and the largest code of some structure points of each node."""

    spanning: Longs  # items that span their node's range of cuts, sorted by node

    @staticmethod
    def draw(range_points: int, search: Search, generator: np.random.Generator) -> Search:
        """Draw the points that span the range of each large node."""
        items = search.items
        if not (items.total > range_points).any():
            return search
        structure = np.flatnonzero(items.slot < items.n_classes)
        structure = structure[items.total[items.node[structure]] > range_points]
        shuffled = structure[np.lexsort((generator.random(len(structure)), items.node[structure]))]
        node = items.node[shuffled]
        first = np.flatnonzero(np.diff(node, prepend=-1))
        rank = np.arange(len(node)) - np.repeat(first, np.diff(first, append=len(node)))
        spanning = np.sort(shuffled[rank < range_points])
        return SpannedSearch(search.records, items, search.least, spanning)

    def part(self, mask: Bools) -> tuple[Search, Longs]:
        part, numbers = super().part(mask)
        if part is self:
            return self, numbers
        kept = mask[self.items.node]
        spanning = (np.cumsum(kept) - 1)[self.spanning[kept[self.spanning]]]
        return replace(part, spanning=spanning), numbers

    def cuts_on(self, codes: NDArray[Any], size: int, nominal: bool) -> Any:
        found: Any = super().cuts_on(codes, size, nominal)
        if nominal:  # codes without an order have no range
            return found
        low = np.full(self.items.n_nodes, size, dtype=np.int64)
        high = np.full(self.items.n_nodes, -1, dtype=np.int64)
        node = self.items.node[self.spanning]
        np.minimum.at(low, node, codes[self.spanning])
        np.maximum.at(high, node, codes[self.spanning])
        first, last = np.where(high < 0, 0, low), np.where(high < 0, size, high)
        if hasattr(found, "present"):  # scores by (code, node)
            code = np.arange(len(found.score))[:, None]
            score = np.where((first <= code) & (code < last), found.score, IMPOSSIBLE)
            return replace(found, score=score)
        kept = (first[found.node] <= found.low) & (found.low < last[found.node])
        columns = {name: getattr(found, name)[kept] for name in ("node", "low", "high", "score")}
        return replace(found, **columns)


@dataclass(frozen=True)
class DenilTrees(GrownTrees):
    """Structure and estimation points; the best cut of a few attributes, within a random range.

    A node draws `range_points` of its structure points and looks only at cuts between their
    smallest and largest code; cuts must leave `min_points` estimation points on either side.

    Parameters
    ----------
    n_trees, criterion, min_points, max_depth, nominal
        See `GrownTrees`.
    mean_features : float, optional
        Look at ``min(1 + Poisson(mean_features), d)`` attributes, as in the forest's own paper.
        By default at the square root of d, as in the multinomial forest's comparison.
    partition_rate : float, default=1
        Structure points per estimation point.
    range_points : int, default=1000
        Structure points m that span a node's range of cuts; no limit in nodes of at most m.

    References
    ----------
    Denil, Matheson, de Freitas: Narrowing the gap: random forests in theory and in practice.
    ICML 2014.
    """

    mean_features: float | None = None
    partition_rate: float = 1.0
    range_points: int = 1000

    @property
    def growth(self) -> Growth:
        """How this forest grows."""
        check_integer("range_points", self.range_points, 2)
        attributes: AttributeRule = (
            RandomAttributes()
            if self.mean_features is None
            else PoissonAttributes(self.mean_features)
        )
        return Growth(
            points=Partition(self.partition_rate),
            attributes=attributes,
            cut=GREEDY,
            stopping=Stopping(self.min_points, "sides", self.max_depth),
            impurity=Impurity(self.criterion),
            narrow=partial(SpannedSearch.draw, self.range_points),
            source="Denil trees",
        )
