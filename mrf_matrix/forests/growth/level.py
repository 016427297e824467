"""One level of all trees, from points to splits and points of children; labels of leaves.

Options are drawn by the softmax of min-max normalised scores. With Î the scores of a node scaled to
[0, 1], option i has probability proportional to ``exp(B Î_i / 2)``. ``B = 0`` is uniform, ``B =
inf`` uniform among the best. Where all scores are equal, so are all probabilities.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Ints, Longs
from mrf_matrix.base.checks import one_word
from mrf_matrix.forests.growth.growth import Growth
from mrf_matrix.forests.growth.private import GRID
from mrf_matrix.forests.growth.records import Items, Records
from mrf_matrix.forests.growth.search import Search
from mrf_matrix.mechanisms.selection import LARGEST_GAP, Bits, Rate, select


def softmax_weights(scores: Array, low: Array, high: Array, b: Array) -> Array:
    """Return weights proportional to the probabilities, 1 for the best option of a node.

    `scores`: scores; minus infinity for what is no option; `low`, `high`: least and largest score
    of the node, of a shape that broadcasts; `b`: the node's B, from 0 to infinity.
    """
    span = np.where(high > low, high - low, 1.0)
    behind = np.where(np.isfinite(scores), (high - scores) / span, np.inf)
    with np.errstate(invalid="ignore"):  # inf * 0, both ways round, is decided below
        weights = np.exp(-b / 2 * behind)
    weights = np.where(behind == 0, 1.0, weights)
    return np.asarray(np.where(np.isinf(behind), 0.0, weights))


def choose_rows(scores: Array, b: Array, uniform: Array) -> Longs:
    """Choose a row for every column of a score table (options x nodes); -1 where there is none.

    `scores` (options, nodes): minus infinity marks what is no option; `b`, `uniform` (nodes,): the
    node's B, and one uniform number in [0, 1) a node.
    """
    high = scores.max(axis=0)
    low = np.where(np.isfinite(scores), scores, np.inf).min(axis=0)
    none = np.isneginf(high)
    high, low = np.where(none, 0.0, high), np.where(none, 0.0, low)
    running = np.cumsum(softmax_weights(scores, low, high, b), axis=0)
    chosen = (running <= uniform * running[-1]).sum(axis=0)
    return np.asarray(np.where(none, -1, np.minimum(chosen, len(scores) - 1)))


def choose_in_groups(
    group: NDArray[Any], scores: Array, b: Array, uniform: Array, n_groups: int
) -> Longs:
    """Choose one option within every group of consecutive options; -1 for an empty group.

    `group` (options,): each option's group, non-decreasing; `scores` (options,); `b`, `uniform`
    (n_groups,).
    """
    result = np.full(n_groups, -1, dtype=np.int64)
    if not len(group):
        return result
    first = np.flatnonzero(np.diff(group, prepend=-1))
    found = group[first]
    length = np.diff(first, append=len(group))
    high = np.repeat(np.maximum.reduceat(scores, first), length)
    low = np.repeat(np.minimum.reduceat(scores, first), length)
    running = np.cumsum(softmax_weights(scores, low, high, np.repeat(b[found], length)))
    before = np.append(0.0, running)[first]
    target = before + uniform[found] * (running[first + length - 1] - before)
    chosen = np.searchsorted(running, target, side="right")
    result[found] = np.minimum(np.maximum(chosen, first), first + length - 1)
    return result


CHUNK = 1 << 17
"""Items searched together: a few arrays of 1 MB, which stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Points:
    """Which records are in which node: 8 bytes a point.

    Structure points are sorted by node, and by class within a node. Estimation points are only
    counted, and stay in any order.
    """

    record: Ints
    node: Ints

    def __len__(self) -> int:
        return len(self.node)

    def keep(self, kept: Bools) -> "Points":
        """Return the points of the nodes kept, under the nodes' new numbers."""
        if kept.all():
            return self
        number = (np.cumsum(kept) - 1).astype(np.int32)
        index = np.flatnonzero(kept[self.node])
        return Points(self.record[index], number[self.node[index]])

    def counts(self, labels: Ints, n_nodes: int, n_classes: int) -> Longs:
        key = self.node * np.int64(n_classes) + labels[self.record]
        return np.bincount(key, minlength=n_nodes * n_classes).reshape(n_nodes, n_classes)

    def to_children(self, right: Bools) -> "Points":
        """Return the points under their children's numbers, in their old order."""
        return Points(self.record, 2 * self.node + right)

    def split(self, right: Bools, n_nodes: int) -> "Points":
        """Return the points sorted by child; within a child they keep their order."""
        sides = np.flatnonzero(~right), np.flatnonzero(right)
        nodes = [self.node[side] for side in sides]
        sizes = np.stack([np.bincount(node, minlength=n_nodes) for node in nodes], axis=1)
        starts = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
        record = np.empty_like(self.record)
        for j, (side, node) in enumerate(zip(sides, nodes, strict=True)):
            shift = starts[:, j] - (np.cumsum(sizes[:, j]) - sizes[:, j])
            record[shift[node] + np.arange(len(side))] = self.record[side]
        return Points(record, np.repeat(np.arange(2 * n_nodes, dtype=np.int32), sizes.ravel()))


@dataclass(frozen=True, eq=False)
class Splits:
    """The split of every node: its attribute, -1 for none, and the first code on the right."""

    attribute: Longs
    threshold: Longs


def split_nodes(
    records: Records,
    points: Points,
    estimation: Points | None,
    n_nodes: int,
    growth: Growth,
    generator: np.random.Generator,
) -> Splits:
    """Choose a split for every node; `estimation` where cuts must leave enough of them.

    Memory: about twelve arrays of `CHUNK` items (or of the largest node, if that has more)
    beside the points themselves.
    """
    attribute = np.full(n_nodes, -1, dtype=np.int64)
    threshold = np.zeros(n_nodes, dtype=np.int64)
    points, slot = _with_slots(records, points, estimation)
    for nodes, span in _chunks(np.bincount(points.node, minlength=n_nodes)):
        items = Items(
            record=points.record[span],
            node=points.node[span].astype(np.int64) - nodes.start,
            slot=slot[span].astype(np.int64),
            n_nodes=nodes.stop - nodes.start,
            n_classes=records.n_classes,
            n_slots=records.n_classes + (estimation is not None),
            impurity=growth.impurity,
        )
        attribute[nodes], threshold[nodes] = _split_chunk(records, items, growth, generator)
    return Splits(attribute, threshold)


def _with_slots(
    records: Records, structure: Points, estimation: Points | None
) -> tuple[Points, Ints]:
    """Return points and their slots: classes, and one more for estimation points."""
    slot = records.labels[structure.record]
    if estimation is None:
        return structure, slot
    slots = np.append(slot, np.full(len(estimation), records.n_classes, dtype=np.int32))
    node = np.append(structure.node, estimation.node)
    order = np.argsort(node, kind="stable")
    record = np.append(structure.record, estimation.record)
    return Points(record[order], node[order]), slots[order]


def _chunks(size: Longs) -> Iterator[tuple[slice, slice]]:
    """Cut the level into runs of nodes of about `CHUNK` items; yield (nodes, items)."""
    end = np.cumsum(size)
    first = 0
    while first < len(size):
        done = int(end[first - 1]) if first else 0
        stop = max(int(np.searchsorted(end, done + CHUNK, side="right")), first + 1)
        yield slice(first, stop), slice(done, int(end[stop - 1]))
        first = stop


def _split_chunk(
    records: Records, items: Items, growth: Growth, generator: np.random.Generator
) -> tuple[Longs, Longs]:
    n = items.n_nodes
    subsets = growth.attributes.draw(n, records.n_attributes, generator)
    b1, b2 = growth.cut.sharpness(n, generator)
    uniform = generator.random((3, n))
    least = growth.stopping.min_points if growth.stopping.rule == "sides" else 1
    search = Search(records, items, least)
    if growth.narrow is not None:
        search = growth.narrow(search, generator)
    row = choose_rows(search.best_scores(subsets), b1, uniform[0])
    if subsets is None:
        return _cut_chosen(search, row, b2, uniform[1])
    chosen = np.where(row < 0, -1, subsets[row, np.arange(n)])
    stuck = chosen < 0
    if stuck.any():  # nothing to cut in its subset: draw on until there is, as scikit-learn does
        part, numbers = search.part(stuck)
        others = part.best_scores(None)
        chosen[numbers] = choose_rows(others, np.zeros(len(numbers)), uniform[2, numbers])
    return _cut_chosen(search, chosen, b2, uniform[1])


def _cut_chosen(search: Search, chosen: Longs, b2: Array, uniform: Array) -> tuple[Longs, Longs]:
    """Choose a cut on the chosen attribute of every node; attribute -1 where there is none."""
    attribute, threshold = np.full_like(chosen, -1), np.zeros_like(chosen)
    for part, numbers, nominal in search.split_by_kind(chosen):
        codes, size = search.records.codes_at_nodes(chosen[numbers], part.items)
        cuts = part.cuts_on(codes, size, nominal).cuts()
        pick = choose_in_groups(
            cuts.node, cuts.score, b2[numbers], uniform[numbers], part.items.n_nodes
        )
        found = np.flatnonzero(pick >= 0)
        pick, nodes = pick[found], numbers[found]
        low, high = cuts.low[pick], cuts.high[pick]
        middle = search.records.middle_code(chosen[nodes], low, high)
        if part.items.is_class is not None and not nominal:
            middle = _raise_right_counts(part.items, codes, found, low, middle, search.least)
        attribute[nodes], threshold[nodes] = chosen[nodes], middle
    return attribute, threshold


def _raise_right_counts(
    items: Items, codes: NDArray[Any], found: Longs, low: Longs, middle: Longs, least: int
) -> Longs:
    """Move thresholds to just above `low` where the middle leaves too few points on the right.

    The cut was found with every estimation point above `low` on the right.
    """
    limit = np.zeros(items.n_nodes, dtype=np.int64)
    limit[found] = middle
    on_right = (codes >= limit[items.node]) & (items.slot == items.n_classes)
    count = np.bincount(items.node[on_right], minlength=items.n_nodes)[found]
    return np.asarray(np.where(count < least, low + 1, middle))


LabelScore = Literal["share", "count"]
LABEL_SCORES: tuple[LabelScore, ...] = get_args(LabelScore)


def public_labels(counts: NDArray[Any], b3: float, generator: np.random.Generator) -> Longs:
    """Draw each leaf's label from ``softmax(b3 P / 2)``, P its class shares, without privacy.

    ``b3 = inf`` is the majority, ties at random; a leaf without points is labelled uniformly.

    `counts` (o, k); `b3`: from 0 to infinity.

    Of shape (o,).
    """
    counts = np.asarray(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    # choose_rows scales scores to [0, 1] by their own range: hand the range back through B
    spread = shares.max(axis=1) - shares.min(axis=1)
    with np.errstate(invalid="ignore"):
        sharpness = np.where(spread > 0, b3 * np.where(spread > 0, spread, 1.0), 0.0)
    return choose_rows(shares.T, sharpness, generator.random(len(counts)))


def label_gaps(counts: NDArray[Any], score: LabelScore) -> Longs:
    """Return how far every public class is behind, as integers, (k, o).

    *share* (Bai et al.): class shares on a grid of 1/4096, all 0 in a leaf without points; one
    record moves them by at most 1. *count*: class counts; one record more moves one of them up
    by 1.
    """
    table = np.asarray(counts).T.astype(np.int64)
    if score == "share":
        n = np.maximum(table.sum(axis=0), 1)
        table = table * GRID // n
    return np.asarray(table.max(axis=0) - table)


def label_rate(epsilon: Fraction | float, score: LabelScore) -> Rate:
    """Return the rate at which a leaf's label is ε-DP under add/remove neighbours.

    Shares have sensitivity 1 and move both ways: ``exp(ε share / 2)``. Counts move up only:
    ``exp(ε count)``.
    """
    if epsilon == float("inf"):
        return Rate(None)
    if score == "share":
        return Rate.of(Fraction(epsilon) / (2 * GRID), GRID)
    return Rate.of(Fraction(epsilon), LARGEST_GAP)


def private_labels(
    counts: NDArray[Any], epsilon: Fraction | float, score: LabelScore, bits: Bits
) -> Longs:
    """Choose every leaf's label among all public classes by the exponential mechanism.

    The leaves of one tree hold different records, so one tree spends ε.
    """
    gaps = label_gaps(counts, one_word("label_score", score, LABEL_SCORES))
    return select(gaps, np.ones(gaps.shape, dtype=np.bool_), label_rate(epsilon, score), bits)


def count_right(counts: Longs) -> int:
    """Return how many records are right if each cell says its largest class: a monotone count.

    `counts` (cells, k).

    >>> count_right(np.array([[3, 1], [0, 2]]))
    5
    """
    return int(counts.max(axis=1, initial=0).sum())
