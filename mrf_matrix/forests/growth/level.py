"""One level of all trees: from the points of every node to its split and its children's points."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Ints, Longs
from mrf_matrix.forests.growth.choice import choose_in_groups, choose_rows
from mrf_matrix.forests.growth.growth import Growth
from mrf_matrix.forests.growth.items import Items
from mrf_matrix.forests.growth.records import Records
from mrf_matrix.forests.growth.search import Search, draw_spanning

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
        """Count points by node and class."""
        key = self.node * np.int64(n_classes) + labels[self.record]
        return np.bincount(key, minlength=n_nodes * n_classes).reshape(n_nodes, n_classes)

    def moved(self, right: Bools) -> "Points":
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
    """Choose the attribute of every node, then its cut."""
    n = items.n_nodes
    subsets = growth.attributes.draw(n, records.n_attributes, generator)
    b1, b2 = growth.cut.sharpness(n, generator)
    uniform = generator.random((3, n))
    least = growth.stopping.min_points if growth.stopping.rule == "sides" else 1
    search = Search(records, items, least, draw_spanning(items, growth.range_points, generator))
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
    for part, numbers, nominal in search.by_kind(chosen):
        codes, size = search.records.chosen(chosen[numbers], part.items)
        cuts = part.cuts_on(codes, size, nominal).cuts()
        pick = choose_in_groups(
            cuts.node, cuts.score, b2[numbers], uniform[numbers], part.items.n_nodes
        )
        found = np.flatnonzero(pick >= 0)
        pick, nodes = pick[found], numbers[found]
        low, high = cuts.low[pick], cuts.high[pick]
        middle = search.records.between(chosen[nodes], low, high)
        if part.items.is_class is not None and not nominal:
            middle = _keeping_right(part.items, codes, found, low, middle, search.least)
        attribute[nodes], threshold[nodes] = chosen[nodes], middle
    return attribute, threshold


def _keeping_right(
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
