"""The consistent forest of Denil, Matheson and de Freitas (2014)."""

from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.checks import short_repr
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
            range_points=self.range_points,
            source="Denil trees",
        )
