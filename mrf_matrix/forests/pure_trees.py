"""Pure random trees: leaves are split at random until there are k, without looking at records."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Bools, Ints
from mrf_matrix.base.checks import check_integer, one_word
from mrf_matrix.base.provenance import FOREST
from mrf_matrix.domain import Domain
from mrf_matrix.forests.forest import Forest, RandomState, check_growth
from mrf_matrix.forests.nodes import LEAF_PATTERN, branch_pool, threshold_pattern
from mrf_matrix.forests.random_trees import attribute_choice, draw_available, splittable_attributes

BLOCK = 1 << 22  # entries (trees x leaves x attributes) of the cells' corners grown together: 32 MB


@dataclass(frozen=True)
class PureTrees:
    """Pure random trees (Breiman 2000) of k leaves over a public domain.

    The following is repeated until the tree has k leaves: a leaf is drawn uniformly among all
    leaves; an attribute is drawn uniformly; the leaf's codes of the attribute are cut in two,

    - ``splits="uniform"``: at a threshold drawn uniformly between the codes that remain;
    - ``splits="midpoint"``: in the middle of the codes that remain (of an odd number of codes,
      the left half gets one less).

    In the papers attributes are intervals and can be cut for ever. Codes run out: a leaf of a
    single cell, and an attribute of which a leaf holds a single code, are not drawn. While every
    leaf keeps two codes of every attribute the trees follow the papers' law exactly; fine codes
    (``edges=np.linspace(0, 1, 1025)``) keep it so.

    Parameters
    ----------
    n_trees : int, default=100
        Number of trees.
    n_leaves : int, default=64
        Leaves k of each tree; fewer where the domain has fewer cells.
    splits : {"uniform", "midpoint"}, default="uniform"
        Where a side is cut.
    attributes : sequence of str or int, optional
        Names or indices of the attributes that may be split; all by default.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or of the wrong type.

    See Also
    --------
    mrf_matrix.forests.pure_forest_bound : Theorems 1 and 2, the error of a forest of such trees.
    mrf_matrix.forests.expected_height : Lemma 2, how deep a record's leaf is.

    References
    ----------
    Breiman, Some infinity theory for predictor ensembles (2000); Gao, Xu and Zhou, Towards
    Convergence Rate Analysis of Random Forests for Classification (2020), section 3.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> domain = Domain.from_sizes([64, 64])
    >>> PureTrees(n_trees=2, n_leaves=8).grow(domain, random_state=0).n_leaves
    16
    """

    n_trees: int = 100
    n_leaves: int = 64
    splits: Literal["uniform", "midpoint"] = "uniform"
    attributes: Sequence[str | int] | None = None

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("n_leaves", self.n_leaves, 1)
        one_word("splits", self.splits, ("uniform", "midpoint"))
        object.__setattr__(self, "attributes", attribute_choice(self.attributes))

    def grow(self, domain: Domain, random_state: RandomState = None) -> Forest:
        """Draw a forest over a public domain.

        Parameters
        ----------
        domain : Domain
            The public domain.
        random_state : int, numpy Generator or None, default=None
            Seed of the structure; an integer gives the same forest in every process.

        Returns
        -------
        Forest
            Grown without data: taken as public.

        Raises
        ------
        ValueError
            If `attributes` does not fit the domain, or the forest would be too large.

        Notes
        -----
        ``k - 1`` steps, each splits a leaf of every tree. Trees are grown in blocks whose corners
        (two arrays of int32, trees x leaves x attributes) take at most 32 MB, or one tree.
        """
        usable = splittable_attributes(domain, self.attributes)
        cells = math.prod(size for size, use in zip(domain.sizes, usable, strict=True) if use)
        leaves = min(int(self.n_leaves), cells)
        check_growth(self.n_trees * (2 * leaves - 1), "lower n_trees or n_leaves")
        generator = np.random.default_rng(random_state)
        together = max(1, BLOCK // (leaves * domain.n_attributes))
        blocks = [
            _Growth(domain.sizes, usable, min(together, self.n_trees - first), leaves).grow(
                self.splits, generator
            )
            for first in range(0, self.n_trees, together)
        ]
        attribute, cut, child = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return _as_forest(domain, attribute, cut, child, f"pure random trees, {self.splits}")


def midpoint(low: NDArray[Any], high: NDArray[Any]) -> Ints:
    """Return the first code of the right half of the codes ``low .. high - 1``.

    >>> midpoint(np.array([0, 0, 4]), np.array([8, 5, 6]))
    array([4, 2, 5], dtype=int32)
    """
    return np.asarray((low.astype(np.int64) + high) // 2, dtype=np.int32)


class _Growth:
    """The cells of the leaves of a block of trees while they are split.

    ``low`` and ``high`` (trees, leaves, attributes) bound the codes of every leaf; ``node`` is
    the leaf's node; the first ``n_open[t]`` entries of ``open[t]`` are the leaves of tree t
    that can be split.
    """

    def __init__(self, sizes: Sequence[int], usable: Bools, trees: int, leaves: int) -> None:
        self.usable, self.leaves = usable, leaves
        self.trees = np.arange(trees)
        self.low = np.zeros((trees, leaves, len(sizes)), dtype=np.int32)
        self.high = np.empty_like(self.low)
        self.high[:, 0] = sizes
        self.node = np.zeros((trees, leaves), dtype=np.int32)
        self.open = np.zeros((trees, leaves), dtype=np.int32)
        self.n_open = np.ones(trees, dtype=np.int64)

    def grow(self, splits: str, generator: np.random.Generator) -> tuple[Ints, Ints, Ints]:
        shape = (len(self.trees), 2 * self.leaves - 1)
        attribute = np.full(shape, -1, dtype=np.int32)
        cut = np.ones(shape, dtype=np.int32)
        child = np.tile(np.arange(shape[1], dtype=np.int32), (shape[0], 1))
        for step in range(self.leaves - 1):
            place = generator.integers(0, self.n_open)
            leaf = self.open[self.trees, place]
            inner = self.node[self.trees, leaf]
            chosen, where = self._split(step, place, leaf, splits, generator)
            attribute[self.trees, inner] = chosen
            cut[self.trees, inner] = where
            child[self.trees, inner] = 2 * step + 1
        return attribute, cut, child

    def _split(
        self,
        step: int,
        place: NDArray[np.int64],
        leaf: Ints,
        splits: str,
        generator: np.random.Generator,
    ) -> tuple[Ints, Ints]:
        """Split a leaf of every tree; its left part keeps its number, its right part is new."""
        trees, new = self.trees, step + 1
        low, high = self.low[trees, leaf], self.high[trees, leaf]
        available = (high - low >= 2) & self.usable
        i = draw_available(available, generator)
        begin, end = low[trees, i], high[trees, i]
        cut = midpoint(begin, end) if splits == "midpoint" else generator.integers(begin + 1, end)
        self.low[:, new], self.high[:, new] = low, high
        self.low[trees, new, i] = cut
        self.high[trees, leaf, i] = cut
        self.node[trees, leaf], self.node[:, new] = 2 * step + 1, 2 * step + 2
        others = np.count_nonzero(available, axis=1) > 1
        self._close(place, ~(others | (cut - begin >= 2)))
        self._append(new, others | (end - cut >= 2))
        return i, np.asarray(cut, dtype=np.int32)

    def _close(self, place: NDArray[np.int64], exhausted: Bools) -> None:
        rows = np.flatnonzero(exhausted)
        self.n_open[rows] -= 1
        self.open[rows, place[rows]] = self.open[rows, self.n_open[rows]]

    def _append(self, leaf: int, can_be_split: Bools) -> None:
        rows = np.flatnonzero(can_be_split)
        self.open[rows, self.n_open[rows]] = leaf
        self.n_open[rows] += 1


def _as_forest(domain: Domain, attribute: Ints, cut: Ints, child: Ints, source: str) -> Forest:
    n_trees, n_nodes = attribute.shape
    root = np.arange(n_trees, dtype=np.int64) * n_nodes
    pattern = np.where(attribute < 0, LEAF_PATTERN, threshold_pattern(domain.sizes, cut))
    return Forest(
        domain=domain,
        roots=root,
        attribute=attribute.ravel(),
        first_child=(child + root[:, np.newaxis]).ravel(),
        pattern=pattern.ravel(),
        branches=branch_pool(domain.sizes),
        provenance=FOREST,
        source=source,
    )
