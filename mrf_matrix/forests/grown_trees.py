"""Forests grown from public records: Breiman's, the multinomial and the simplified Breiman."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Bools, Ints, Longs
from mrf_matrix.base.checks import check_integer
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_codes
from mrf_matrix.forests.assembly import Boxes, concatenate
from mrf_matrix.forests.forest import Forest, RandomState, check_growth, forest_from_levels
from mrf_matrix.forests.growth.grow import Grown, grow_forest
from mrf_matrix.forests.growth.growth import (
    GREEDY,
    AllAttributes,
    Bootstrap,
    Criterion,
    Growth,
    Impurity,
    Partition,
    RandomAttributes,
    Softmax,
    Stopping,
)
from mrf_matrix.forests.growth.records import checked_labels
from mrf_matrix.forests.nodes import threshold_pattern
from mrf_matrix.forests.pure_trees import midpoint
from mrf_matrix.forests.random_trees import attribute_choice, draw_available, splittable_attributes


@dataclass(frozen=True)
class GrownTrees(ABC):
    """A forest whose structure is learned from records, without privacy.

    Parameters
    ----------
    n_trees : int, default=100
    criterion : {"gini", "entropy"}, default="gini"
    min_points : int, default=5
        Minimum leaf size k.
    max_depth : int, optional
        Splits on a path; no limit by default.
    nominal : sequence of str or int, default=()
        Attributes without an order: cut as "this code or not". All others are cut by
        thresholds on their codes.
    """

    n_trees: int = 100
    criterion: Criterion = "gini"
    min_points: int = 5
    max_depth: int | None = None
    nominal: Sequence[str | int] = ()

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("min_points", self.min_points, 1)
        if self.max_depth is not None:
            check_integer("max_depth", self.max_depth, 0)
        Impurity(self.criterion)
        object.__setattr__(self, "nominal", tuple(self.nominal))
        _ = self.growth  # refuses wrong parameters

    @property
    @abstractmethod
    def growth(self) -> Growth:
        """How this forest grows."""

    def grow(
        self,
        domain: Domain,
        codes: NDArray[Any],
        labels: NDArray[Any],
        random_state: RandomState = None,
        *,
        centres: Sequence[NDArray[Any] | None] | None = None,
        n_jobs: int | None = None,
    ) -> Grown:
        """Grow the forest from encoded records.

        Parameters
        ----------
        domain : Domain
            With a target.
        codes : ndarray of int, shape (N, d)
        labels : ndarray of int, shape (N,)
        random_state : int, Generator or None
            Equal seeds give equal forests, whatever `n_jobs`.
        centres : sequence of (ndarray or None), optional
            Raw values of the codes: thresholds then lie halfway between values.
        n_jobs : int, optional
            Threads.

        Returns
        -------
        Grown
            The forest and its leaves' class counts. **Not private.**
        """
        return grow_forest(
            domain,
            codes,
            labels,
            self.growth,
            self.n_trees,
            centres=centres,
            nominal=self.nominal,
            random_state=random_state,
            n_jobs=n_jobs,
        )


@dataclass(frozen=True)
class BreimanTrees(GrownTrees):
    """Random forest: bootstrap samples, the best cut among a few random attributes.

    Parameters
    ----------
    n_trees, criterion, min_points, max_depth, nominal
        See `GrownTrees`. Cuts keep `min_points` points on either side.
    max_features : int or "sqrt", default="sqrt"
        Attributes that a node looks at. Where none of them can be cut, more are drawn until one
        can.

    References
    ----------
    Breiman: Random forests. Machine Learning 45 (2001).
    """

    max_features: int | Literal["sqrt"] = "sqrt"

    @property
    def growth(self) -> Growth:
        """How this forest grows."""
        return Growth(
            points=Bootstrap(),
            attributes=RandomAttributes(self.max_features),
            cut=GREEDY,
            stopping=Stopping(self.min_points, "sides", self.max_depth),
            impurity=Impurity(self.criterion),
            source="Breiman trees",
        )


@dataclass(frozen=True)
class MultinomialTrees(GrownTrees):
    """Multinomial random forest: softmax over attributes, then softmax over cuts.

    Each record is a structure or an estimation point of a tree by an independent coin. A node's
    attribute is drawn from ``softmax(B₁ Î / 2)``, Î the attributes' largest impurity decreases
    scaled to [0, 1] by their minimum and maximum, and its cut from ``softmax(B₂ Î⁽ʲ⁾ / 2)``
    over that attribute's cuts. Nodes of at most k estimation points are leaves.

    ``b1 = b2 = 0`` is completely random, ``float("inf")`` greedy over all attributes.

    Parameters
    ----------
    n_trees, criterion, min_points, max_depth, nominal
        See `GrownTrees`.
    b1, b2 : float, default=10
        Sharpness of the two choices, from 0 to infinity.
    partition_rate : float, default=1
        Structure points per estimation point.
    split_pure : bool, default=False
        Go on splitting nodes whose structure points are of one class, as Algorithm 1 does to
        the letter; costs time, seldom changes accuracy.

    Notes
    -----
    The stopping rule reads the number of estimation points, which is private: this source is for
    public records. `PrivateMultinomialTrees` is the private one.

    References
    ----------
    Bai, Li, Li, Yang, Jiang, Xia: Multinomial random forest. Pattern Recognition 122 (2022).

    Examples
    --------
    >>> import numpy as np
    >>> from mrf_matrix.domain import Domain
    >>> domain = Domain.from_sizes([4, 4], n_classes=2)
    >>> codes = np.random.default_rng(0).integers(0, 4, size=(200, 2))
    >>> labels = (codes[:, 0] > 1).astype(int)
    >>> MultinomialTrees(n_trees=3, b1=50, b2=50).grow(domain, codes, labels, 0).forest
    Forest(3 trees, 6 leaves, depth 1, over 2 attributes, multinomial trees, data-dependent)
    """

    b1: float = 10.0
    b2: float = 10.0
    partition_rate: float = 1.0
    split_pure: bool = False

    @property
    def growth(self) -> Growth:
        """How this forest grows."""
        return Growth(
            points=Partition(self.partition_rate),
            attributes=AllAttributes(),
            cut=Softmax(self.b1, self.b2),
            stopping=Stopping(self.min_points, "node", self.max_depth, self.split_pure),
            impurity=Impurity(self.criterion),
            source="multinomial trees",
        )


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
        classes = checked_labels(labels, len(records)).astype(np.int32)
        usable = splittable_attributes(domain, self.attributes)
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
            longest = longest_sides(level.boxes, domain.sizes, usable)
            wanted = level.is_impure(labels) & longest.any(axis=1)
            split = first_per_tree(wanted, level.tree, remaining)
            remaining -= np.bincount(level.tree[split], minlength=n_trees)
            chosen = draw_available(longest & split[:, np.newaxis], generator)
            attributes.append(chosen)
            cut, level = level.halve(np.flatnonzero(split), chosen, codes)
            pattern = np.zeros(len(chosen), dtype=np.int32)
            pattern[split] = threshold_pattern(domain.sizes, cut)
            patterns.append(pattern)
        return forest_from_levels(
            domain,
            attributes,
            patterns,
            provenance=Provenance.from_records("forest"),
            source="simplified Breiman trees",
        )


@dataclass(frozen=True, eq=False)
class _Level:
    """The cells of a level of a block of trees, tree by tree, and the records within them.

    State s says that record ``record[s]`` lies in cell ``cell[s]``.
    """

    boxes: Boxes
    tree: Ints
    cell: Ints
    record: Ints

    @classmethod
    def roots(cls, sizes: Sequence[int], n_trees: int, n_records: int) -> "_Level":
        trees = np.arange(n_trees, dtype=np.int32)
        return cls(
            boxes=Boxes.whole(sizes, n_trees),
            tree=trees,
            cell=np.repeat(trees, n_records),
            record=np.tile(np.arange(n_records, dtype=np.int32), n_trees),
        )

    def is_impure(self, labels: Ints) -> Bools:
        """Tell which cells hold records of two classes: one differs from a representative."""
        mine = labels[self.record]
        representative = np.zeros(len(self.tree), dtype=labels.dtype)
        representative[self.cell] = mine
        mixed = np.zeros(len(self.tree), dtype=np.bool_)
        mixed[self.cell[mine != representative[self.cell]]] = True
        return mixed

    def halve(self, split: Longs, chosen: Ints, codes: NDArray[Any]) -> tuple[Ints, "_Level"]:
        """Cut the cells `split` along the attributes `chosen`; return the cuts and the halves."""
        i = chosen[split]
        cut = midpoint(self.boxes.low[split, i], self.boxes.high[split, i])
        boxes = self.boxes.halves(split, i, cut)
        rank: Ints = np.full(len(self.tree), -1, dtype=np.int32)
        rank[split] = np.arange(len(split))
        at = rank[self.cell]
        stays = at >= 0
        at, record = at[stays], self.record[stays]
        goes_right = codes[record, i[at]] >= cut[at]
        cell = (2 * at + goes_right).astype(np.int32)
        return cut, _Level(boxes, np.repeat(self.tree[split], 2), cell, record)


def longest_sides(boxes: Boxes, sizes: Sequence[int], usable: Bools) -> Bools:
    """Tell which sides of each cell are longest among those that can be cut.

    A side's length is the share of its attribute's codes. Equal shares give equal floats, as
    division is correctly rounded.

    >>> boxes = Boxes(np.array([[0, 0, 0]]), np.array([[2, 4, 1]]))
    >>> longest_sides(boxes, [4, 8, 1], np.array([True, True, True]))
    array([[ True,  True, False]])
    """
    width = boxes.high - boxes.low
    length = np.where((width >= 2) & usable, width / np.asarray(sizes), 0.0)
    return np.asarray((length > 0) & (length == length.max(axis=1, keepdims=True)))


def first_per_tree(wanted: Bools, tree: Ints, most: Longs) -> Bools:
    """Keep of every tree's wanted cells, in order, the first ``most[tree]``.

    >>> wanted = np.array([True, True, False, True, True])
    >>> first_per_tree(wanted, np.array([0, 0, 0, 0, 1]), np.array([2, 0]))
    array([ True,  True, False, False, False])
    """
    running = np.cumsum(wanted)
    begin = np.searchsorted(tree, tree)  # first cell of the tree: cells go tree by tree
    rank: Longs = running - (running[begin] - wanted[begin])
    return np.asarray(wanted & (rank <= most[tree]))
