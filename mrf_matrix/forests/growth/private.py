"""Private growth of trees: public depth, public candidates, exponential mechanisms at all nodes.

Scores of candidates are integer gaps whose sensitivity is exact:

*normalized* (Bai et al., 2021). A node's scores are scaled to [0, 1] by their own minimum and
maximum, and rounded to a grid of 1/4096. So a gap lies between 0 and 4096 whatever the records, and
one record moves it by at most 4096. It can: where all scores were equal, every gap was 0 by
definition. Hence ``exp(-B gap / (2 * 4096))`` is B-DP, for weights and their sum change by a factor
of at most ``exp(B/2)``. The bound needs no property of the floating-point scores behind the grid.

*majority* (the "max operator" of Friedman and Schuster, 2010). The score is the number of records
that their side's majority class labels right: an integer that one more record moves by 0 or 1,
never down. Weights ``exp(B score)`` and their sum then change by a factor in [1, exp(B)], so the
choice is B-DP without the half. The scale is records, not shares: the signal grows with the node.

All nodes at one depth of the trees at hand are handled together. What may be chosen depends on the
domain and on earlier choices only: the codes that remain of each attribute in the node's box. No
record decides whether a node is split, so empty nodes are split too, at random.

The memory that growth needs follows from public numbers alone, before anything is spent: a refusal
that depended on the number of records would reveal it. Work over records is cut into parts, so
that no array has a row for each record and tree.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Ints, Longs
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import FieldError
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import Boxes
from mrf_matrix.forests.forest import check_growth
from mrf_matrix.forests.growth.growth import Impurity
from mrf_matrix.forests.nodes import threshold_pattern
from mrf_matrix.mechanisms.selection import LARGEST_GAP, Bits, Rate, select

Score = Literal["normalized", "majority"]
SCORES: tuple[str, ...] = get_args(Score)

GRID = 4096  # steps of a normalised score


@dataclass(frozen=True)
class PrivateScore:
    """The scores of public candidates, and the rate that spends a budget."""

    kind: Score = "normalized"
    impurity: Impurity = field(default_factory=Impurity)  # only for "normalized"

    def __post_init__(self) -> None:
        one_word("score", self.kind, SCORES)

    def rate(self, epsilon: Fraction | float) -> Rate:
        """Return the rate at which one choice spends ε under add/remove neighbours."""
        if epsilon == float("inf"):
            return Rate(None)
        if self.kind == "normalized":
            return Rate.of(Fraction(epsilon) / (2 * GRID), GRID)
        return Rate.of(Fraction(epsilon), LARGEST_GAP)

    def values(self, left: NDArray[Any], right: NDArray[Any]) -> Array:
        """Return raw scores from class counts (..., k) on both sides of a cut."""
        if self.kind == "normalized":
            return self.impurity.decrease(left, right)
        return np.asarray(left.max(axis=-1) + right.max(axis=-1), dtype=np.float64)

    def gaps(self, scores: Array, options: Bools) -> Longs:
        """Return how far each option is behind, as integers; (options, nodes) as given."""
        high = np.where(options, scores, -np.inf).max(axis=0, initial=-np.inf)
        high = np.where(np.isfinite(high), high, 0.0)
        if self.kind == "majority":
            return (high - np.where(options, scores, high)).astype(np.int64)
        low = np.where(options, scores, np.inf).min(axis=0, initial=np.inf)
        spread = np.where(high > low, high - low, 1.0)
        scored = np.where(options & (high > low), scores, high)
        share = (high - scored) / spread
        return np.asarray(np.clip(np.floor(share * GRID), 0, GRID), dtype=np.int64)


Level = tuple[Ints, Ints]

TABLE = 1 << 21  # class counts (candidates x nodes x classes) held at once: 16 MB


@dataclass(frozen=True)
class PrivateGrowth:
    """The public parameters of private growth."""

    max_depth: int
    score: PrivateScore
    # attribute_rate, cut_rate: what a node spends on its attribute and on its cut
    attribute_rate: Rate
    cut_rate: Rate


@dataclass(frozen=True, eq=False)
class Candidates:
    """All thresholds of the domain, attribute by attribute: "codes below `cut` go left"."""

    attribute: Longs
    cut: Longs
    first: Longs
    splittable: Longs

    @classmethod
    def of(cls, sizes: tuple[int, ...]) -> "Candidates":
        splittable = np.array([i for i, size in enumerate(sizes) if size > 1], dtype=np.int64)
        lengths = np.array([sizes[i] - 1 for i in splittable], dtype=np.int64)
        first = np.cumsum(lengths) - lengths
        cut = np.arange(int(lengths.sum())) - np.repeat(first, lengths) + 1
        return cls(np.repeat(splittable, lengths), cut, first, splittable)

    @property
    def first_of_attribute(self) -> Longs:
        """The number of each attribute's first candidate, where it has one."""
        found = np.zeros(int(self.splittable.max(initial=-1)) + 1, dtype=np.int64)
        found[self.splittable] = self.first
        return found

    def mask_of_cuts(self, boxes: Boxes, nodes: slice) -> Bools:
        """Return which candidates cut which boxes, (candidates, nodes)."""
        low, high = boxes.low[nodes].T, boxes.high[nodes].T
        cut = self.cut[:, None]
        return np.asarray((low[self.attribute] < cut) & (cut < high[self.attribute]))


def choose_splits(
    scores: Array, options: Bools, candidates: Candidates, growth: PrivateGrowth, bits: Bits
) -> Longs:
    """Choose each node's candidate: its attribute first, then one of that attribute's cuts.

    `scores` (candidates, nodes); `options`: public.

    Of shape (nodes,): candidate numbers, -1 where there is none.
    """
    best, has_cut = attribute_scores(scores, options, candidates)
    row = select(growth.score.gaps(best, has_cut), has_cut, growth.attribute_rate, bits)
    of_chosen = options & (candidates.attribute[:, None] == candidates.splittable[row])
    return select(growth.score.gaps(scores, of_chosen), of_chosen, growth.cut_rate, bits)


def attribute_scores(scores: Array, options: Bools, candidates: Candidates) -> tuple[Array, Bools]:
    """Return each attribute's best score, and whether it has an option: (attributes, nodes)."""
    best = np.maximum.reduceat(np.where(options, scores, -np.inf), candidates.first, axis=0)
    return best, np.logical_or.reduceat(options, candidates.first, axis=0)


def candidate_scores(
    domain: Domain,
    codes: NDArray[Any],
    labels: NDArray[Any],
    node: Longs,
    n_nodes: int,
    score: PrivateScore,
) -> Array:
    """Score every candidate in every node from the records that are in it: (candidates, nodes).

    The largest array is the class counts of one attribute, (size, classes, nodes).
    """
    k, rows = domain.n_classes, []
    for i, size in enumerate(domain.sizes):
        if size < 2:
            continue
        key = (codes[:, i].astype(np.int64) * n_nodes + node) * k + labels
        counts = np.bincount(key, minlength=size * n_nodes * k).reshape(size, n_nodes, k)
        left = np.cumsum(counts, axis=0)
        rows.append(score.values(left[:-1], left[-1] - left[:-1]))
    return np.concatenate(rows)


def box_levels(
    sizes: tuple[int, ...], boxes: Boxes, max_depth: int, choose: Callable[[Boxes], Longs]
) -> list[Level]:
    """Return the levels of trees whose nodes are split by the candidates that are chosen.

    `boxes`: of the roots; `choose`: returns the candidate of each node of a level, -1 for leaves.

    They come as `forest_from_levels` takes them: each level's nodes in the order of their parents.
    """
    candidates = Candidates.of(sizes)
    levels: list[Level] = []
    for _ in range(max_depth if len(candidates.cut) else 0):
        if not len(boxes.low):
            break
        chosen = choose(boxes)
        split = np.flatnonzero(chosen >= 0)
        attribute, cut = candidates.attribute[chosen], candidates.cut[chosen]
        kinds = np.where(chosen >= 0, attribute, -1).astype(np.int32)
        levels.append((kinds, threshold_pattern(sizes, cut)))
        boxes = boxes.halves(split, attribute[split], cut[split])
    leaves = np.full(len(boxes.low), -1, dtype=np.int32)
    return [*levels, (leaves, np.zeros_like(leaves))]


def private_levels(
    domain: Domain,
    codes: NDArray[Any],
    labels: NDArray[Any],
    tree: Longs,
    record: Longs,
    n_trees: int,
    growth: PrivateGrowth,
    bits: Bits,
    boxes: Boxes | None = None,
) -> list[Level]:
    """Grow trees from the structure points, given as sorted (tree, record) pairs.

    Their roots are whole domains, or the boxes given.

    Every level of a tree spends ``attribute + cut`` once, for its nodes hold different records.
    Memory: about 40 bytes a point, 16 bytes a node and attribute, and tables of `TABLE` numbers.
    """
    candidates = Candidates.of(domain.sizes)
    node = np.asarray(tree, dtype=np.int64)

    def choose(boxes: Boxes) -> Longs:
        nonlocal node, record
        chosen = _choose_level(domain, codes, labels, node, record, boxes, candidates, growth, bits)
        kept = np.flatnonzero(chosen[node] >= 0)
        node, record = node[kept], record[kept]
        attribute, cut = candidates.attribute[chosen[node]], candidates.cut[chosen[node]]
        node = 2 * (np.cumsum(chosen >= 0) - 1)[node] + (codes[record, attribute] >= cut)
        order = np.argsort(node, kind="stable")
        node, record = node[order], record[order]
        return chosen

    roots = boxes or Boxes.whole(domain.sizes, n_trees)
    return box_levels(domain.sizes, roots, growth.max_depth, choose)


def choices_of(sizes: tuple[int, ...], attribute: Ints, pattern: Ints) -> tuple[int, ...]:
    """Return nodes as whole numbers: the candidate of each that is split, in their order."""
    inner = attribute >= 0
    first = Candidates.of(sizes).first_of_attribute
    return tuple((first[attribute[inner]] + max(sizes) - pattern[inner] - 1).tolist())


def chosen_levels(
    sizes: tuple[int, ...], boxes: Boxes, max_depth: int, choices: Sequence[int]
) -> list[Level]:
    """Return the levels of trees from the numbers of `choices_of`, level by level.

    `boxes`: of the roots.

    Raises FieldError if no growing could have chosen them.
    """
    candidates, left = Candidates.of(sizes), np.asarray(choices, dtype=np.int64)

    def choose(boxes: Boxes) -> Longs:
        nonlocal left
        found = np.full(len(boxes.low), -1, dtype=np.int64)
        split = np.flatnonzero((boxes.high - boxes.low > 1).any(axis=1))
        mine, left = left[: len(split)], left[len(split) :]
        if len(mine) < len(split) or bool((mine >= len(candidates.cut)).any()):
            raise FieldError("choices: expected a candidate for every node that can be split.")
        attribute, cut = candidates.attribute[mine], candidates.cut[mine]
        low, high = boxes.low[split, attribute], boxes.high[split, attribute]
        if not bool(((low < cut) & (cut < high)).all()):
            raise FieldError("choices: a candidate does not cut its node.")
        found[split] = mine
        return found

    levels = box_levels(sizes, boxes, max_depth, choose)
    if len(left):
        raise FieldError("choices: there are more than nodes that can be split.")
    return levels


def joined_levels(parts: Sequence[list[Level]]) -> list[Level]:
    """Return the levels of all trees from those of some trees each.

    The layout is that of growing all trees at once: how many were grown together depends on the
    number of records, which is private, so the forest must not tell.
    """
    deepest = max(map(len, parts))
    nothing = (np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))
    same = [[*part, *[nothing] * (deepest - len(part))] for part in parts]
    return [
        (np.concatenate([one[0] for one in level]), np.concatenate([one[1] for one in level]))
        for level in zip(*same, strict=True)
    ]


def _choose_level(
    domain: Domain,
    codes: NDArray[Any],
    labels: NDArray[Any],
    node: Longs,
    record: Longs,
    boxes: Boxes,
    candidates: Candidates,
    growth: PrivateGrowth,
    bits: Bits,
) -> Longs:
    n = len(boxes.low)
    width = len(candidates.cut) + max(domain.sizes) * domain.n_classes
    step = max(1, TABLE // width)
    chosen = np.empty(n, dtype=np.int64)
    for nodes, points in _slices(node, n, step):
        here = record[points]
        scores = candidate_scores(
            domain,
            codes[here],
            labels[here],
            node[points] - nodes.start,
            nodes.stop - nodes.start,
            growth.score,
        )
        options = candidates.mask_of_cuts(boxes, nodes)
        chosen[nodes] = choose_splits(scores, options, candidates, growth, bits)
    return chosen


def _slices(node: Longs, n_nodes: int, step: int) -> Iterator[tuple[slice, slice]]:
    for first in range(0, n_nodes, step):
        stop = min(first + step, n_nodes)
        ends = np.searchsorted(node, [first, stop])
        yield slice(first, stop), slice(int(ends[0]), int(ends[1]))


POINTS = 1 << 20  # records of all trees that are grown together, unless one tree has more

BOXES = 1 << 23  # codes that bound the nodes of trees grown together: 64 MB, and a few times that

_SMALLER = "lower n_trees or max_depth"


@dataclass(frozen=True)
class GrowthSizes:
    """The most that private trees over a domain can come to.

    >>> GrowthSizes(Domain.from_sizes([2, 2], 2), n_trees=3, max_depth=10).leaves_of_a_tree
    4
    """

    domain: Domain
    n_trees: int
    max_depth: int

    @property
    def leaves_of_a_tree(self) -> int:
        """``min(2**depth, n)``: splits are in two, and every leaf holds a cell."""
        cells = prod(self.domain.sizes)
        return min(1 << min(self.max_depth, cells.bit_length()), cells)

    @property
    def leaves(self) -> int:
        return self.n_trees * self.leaves_of_a_tree

    @property
    def arrays(self) -> tuple[tuple[str, tuple[int, ...], int], ...]:
        """The largest arrays: what each is, its shape, and bytes an entry with its copies."""
        sizes, k = self.domain.sizes, self.domain.n_classes
        return (
            ("bounds of a tree's nodes", (self.leaves_of_a_tree, len(sizes)), 32),
            ("class counts of a node's candidates", (sum(sizes), k), 48),
            ("class counts of all leaves", (self.leaves, k), 48),
        )

    def check(self) -> None:
        """Refuse trees that could outgrow the limit on a forest's nodes.

        Raises ValueError: with the public numbers that are too large; nothing was allocated.
        """
        check_growth(self.n_trees * (2 * self.leaves_of_a_tree - 1), _SMALLER)

    def trees_at_once(self, n_records: int) -> int:
        """Return how many trees to grow together: few when there are many records or nodes."""
        bounds = max(1, self.leaves_of_a_tree * len(self.domain.sizes))
        return max(1, min(self.n_trees, POINTS // max(1, n_records), BOXES // bounds))
