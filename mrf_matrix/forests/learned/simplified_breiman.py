"""The simplified Breiman forest: breadth-first, midpoints of a longest side, pure cells kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Bools, Ints, Longs, plain_array
from mrf_matrix.base.checks import check_integer
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import (
    branch_pool,
    check_growth,
    concatenate,
    forest_from_levels,
    threshold_pattern,
)
from mrf_matrix.forests.forest import Forest, RandomState
from mrf_matrix.forests.nodes import checked_codes
from mrf_matrix.forests.sources.pure import midpoint
from mrf_matrix.forests.sources.random_trees import attribute_choice, draw_available, splittable

BLOCK = 1 << 21
"""States (records x trees) routed together, unless one tree has more: 16 MB an array."""


@dataclass(frozen=True)
class SimplifiedBreimanTrees:
    """Trees that split cells first come, first served, at the middle of a longest side.

    A queue holds the whole domain at first. Until there are k leaves or the queue is empty, its
    first cell is taken: where all its records have one class (or there is none) it stays a leaf;
    otherwise it is cut at the middle of a side drawn uniformly among its longest, and both halves
    join the queue. The length of a side is the share of the attribute's codes that the cell
    holds, so the whole domain is the unit cube; sides of a single code cannot be cut.

    **The structure depends on the records**: which cells are pure is visible in the tree. The
    forest is marked ``data_dependent``, its growth is not private at any budget, and private
    mechanisms refuse it. `PureTrees` and `RandomTrees` are grown without data.

    Parameters
    ----------
    n_trees : int, default=100
        Number of trees; they differ by the draws among equally long sides only.
    n_leaves : int, default=64
        Most leaves k of each tree.
    attributes : sequence of str or int, optional
        Names or indices of the attributes that may be split; all by default.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or of the wrong type.

    See Also
    --------
    mrf_matrix.forests.simplified_forest_bound : Theorem 3, the error of a forest of such trees.

    References
    ----------
    Gao, Xu and Zhou, Towards Convergence Rate Analysis of Random Forests for Classification
    (2020), Algorithm 1.

    Examples
    --------
    Class 1 is the cell (3, 3) alone: only cells that hold it are split.

    >>> import numpy as np
    >>> from mrf_matrix.domain import Domain
    >>> codes = np.array([[0, 0], [0, 3], [3, 0], [3, 3]])
    >>> trees = SimplifiedBreimanTrees(n_trees=1, n_leaves=8)
    >>> trees.grow(Domain.from_sizes([4, 4]), codes, np.array([0, 0, 0, 1]), random_state=0)
    Forest(1 tree, 3 leaves, depth 2, over 2 attributes, simplified Breiman trees, data-dependent)
    """

    n_trees: int = 100
    n_leaves: int = 64
    attributes: Sequence[str | int] | None = None

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("n_leaves", self.n_leaves, 1)
        object.__setattr__(self, "attributes", attribute_choice(self.attributes))

    def grow(
        self,
        domain: Domain,
        codes: NDArray[Any] | None = None,
        labels: NDArray[Any] | None = None,
        random_state: RandomState = None,
    ) -> Forest:
        """Grow a forest from records.

        Parameters
        ----------
        domain : Domain
            The public domain.
        codes : ndarray of int, shape (N, d)
            Encoded records. Required.
        labels : ndarray of int, shape (N,)
            Their class codes. Required.
        random_state : int, numpy Generator or None, default=None
            Seed of the draws among longest sides.

        Returns
        -------
        Forest
            Read off the records, as its `provenance` says.

        Raises
        ------
        ValueError
            If no records are given (a plan without data, or a private mechanism, asks so), they do
            not fit the domain, or the forest would be too large.

        Notes
        -----
        A level of a block of trees at a time; records in cells that are no longer split drop out.
        Memory is four arrays of int32 over the states (records x trees of a block, at most 2
        million or one tree) besides the forest and (nodes of a level) x attributes.
        """
        if codes is None or labels is None:
            raise ValueError(
                "SimplifiedBreimanTrees needs codes and labels: which cells are pure, hence the "
                "structure, is learned from records. Without data, or for private work, use "
                "PureTrees or RandomTrees."
            )
        records = checked_codes(codes, domain.sizes, domain.names)
        classes = _checked_labels(labels, len(records))
        usable = splittable(domain, self.attributes)
        check_growth(self.n_trees * (2 * self.n_leaves - 1), "lower n_trees or n_leaves")
        generator = np.random.default_rng(random_state)
        together = max(1, BLOCK // max(1, len(records)))
        blocks = [
            self._grow_block(
                domain, usable, records, classes, min(together, self.n_trees - first), generator
            )
            for first in range(0, self.n_trees, together)
        ]
        return blocks[0] if len(blocks) == 1 else concatenate(blocks)

    def _grow_block(
        self,
        domain: Domain,
        usable: Bools,
        codes: NDArray[Any],
        labels: Ints,
        n_trees: int,
        generator: np.random.Generator,
    ) -> Forest:
        level = _Level.roots(domain.sizes, n_trees, len(codes))
        remaining = np.full(n_trees, self.n_leaves - 1, dtype=np.int64)
        attributes: list[Ints] = []
        patterns: list[Ints] = []
        while len(level.tree):
            longest = longest_sides(level.low, level.high, domain.sizes, usable)
            wanted = level.impure(labels) & longest.any(axis=1)
            split = first_in_each(wanted, level.tree, remaining)
            remaining -= np.bincount(level.tree[split], minlength=n_trees)
            chosen = draw_available(longest & split[:, np.newaxis], generator)
            attributes.append(chosen)
            cut, level = level.halved(np.flatnonzero(split), chosen, codes)
            pattern = np.zeros(len(chosen), dtype=np.int32)
            pattern[split] = threshold_pattern(domain.sizes, cut)
            patterns.append(pattern)
        return forest_from_levels(
            domain,
            attributes,
            patterns,
            branch_pool(domain.sizes),
            provenance=Provenance.from_records("forest"),
            source="simplified Breiman trees",
        )


@dataclass(frozen=True, eq=False)
class _Level:
    """The cells of a level of a block of trees, tree by tree, and the records within them.

    ``low`` and ``high`` (cells, attributes) bound a cell's codes; state s says that record
    ``record[s]`` lies in cell ``cell[s]``.
    """

    low: Ints
    high: Ints
    tree: Ints
    cell: Ints
    record: Ints

    @classmethod
    def roots(cls, sizes: Sequence[int], n_trees: int, n_records: int) -> "_Level":
        trees = np.arange(n_trees, dtype=np.int32)
        return cls(
            low=np.zeros((n_trees, len(sizes)), dtype=np.int32),
            high=np.tile(np.asarray(sizes, dtype=np.int32), (n_trees, 1)),
            tree=trees,
            cell=np.repeat(trees, n_records),
            record=np.tile(np.arange(n_records, dtype=np.int32), n_trees),
        )

    def impure(self, labels: Ints) -> Bools:
        """Tell which cells hold records of two classes: one differs from a representative."""
        mine = labels[self.record]
        representative = np.zeros(len(self.tree), dtype=labels.dtype)
        representative[self.cell] = mine
        mixed = np.zeros(len(self.tree), dtype=np.bool_)
        mixed[self.cell[mine != representative[self.cell]]] = True
        return mixed

    def halved(self, split: Longs, chosen: Ints, codes: NDArray[Any]) -> tuple[Ints, "_Level"]:
        """Cut the cells `split` along the attributes `chosen`; return the cuts and the halves."""
        i, left = chosen[split], 2 * np.arange(len(split))
        cut = midpoint(self.low[split, i], self.high[split, i])
        low, high = (np.repeat(side[split], 2, axis=0) for side in (self.low, self.high))
        high[left, i] = cut
        low[left + 1, i] = cut
        rank: Ints = np.full(len(self.tree), -1, dtype=np.int32)
        rank[split] = np.arange(len(split))
        at = rank[self.cell]
        stays = at >= 0
        at, record = at[stays], self.record[stays]
        goes_right = codes[record, i[at]] >= cut[at]
        cell = (2 * at + goes_right).astype(np.int32)
        return cut, _Level(low, high, np.repeat(self.tree[split], 2), cell, record)


def longest_sides(low: Ints, high: Ints, sizes: Sequence[int], usable: Bools) -> Bools:
    """Tell which sides of each cell are longest among those that can be cut.

    A side's length is the share of its attribute's codes. Equal shares give equal floats, as
    division is correctly rounded.

    >>> low, high = np.array([[0, 0, 0]]), np.array([[2, 4, 1]])
    >>> longest_sides(low, high, [4, 8, 1], np.array([True, True, True]))
    array([[ True,  True, False]])
    """
    width = high - low
    length = np.where((width >= 2) & usable, width / np.asarray(sizes), 0.0)
    return np.asarray((length > 0) & (length == length.max(axis=1, keepdims=True)))


def first_in_each(wanted: Bools, tree: Ints, most: Longs) -> Bools:
    """Keep of every tree's wanted cells, in order, the first ``most[tree]``.

    >>> wanted = np.array([True, True, False, True, True])
    >>> first_in_each(wanted, np.array([0, 0, 0, 0, 1]), np.array([2, 0]))
    array([ True,  True, False, False, False])
    """
    running = np.cumsum(wanted)
    begin = np.searchsorted(tree, tree)  # first cell of the tree: cells go tree by tree
    rank: Longs = running - (running[begin] - wanted[begin])
    return np.asarray(wanted & (rank <= most[tree]))


def _checked_labels(labels: NDArray[Any], n_records: int) -> Ints:
    given = plain_array("labels", labels)
    if given.shape != (n_records,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"labels has the wrong shape, or type {given.dtype}: expected integers, one class code "
            f"a record (domain.encode_target(y))."
        )
    return given.astype(np.int32)
