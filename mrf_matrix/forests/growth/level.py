"""One level of all trees: from the points of every node to its split and its children's points."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.forests.growth.choice import choose_in_groups, choose_rows
from mrf_matrix.forests.growth.cuts import IMPOSSIBLE, Cuts, find_cuts
from mrf_matrix.forests.growth.growth import Growth
from mrf_matrix.forests.growth.items import Items
from mrf_matrix.forests.growth.records import Records

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Array = NDArray[np.float64]
Bools = NDArray[np.bool_]

CHUNK = 1 << 17
"""Items searched together: a few arrays of 1 MB, which stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Points:
    """Which records are in which node; sorted by node."""

    record: Ints
    node: Longs
    slot: Ints

    def __len__(self) -> int:
        return len(self.node)

    def keep(self, kept: Bools, number: Longs) -> "Points":
        """Return the points of the nodes kept, under the nodes' new numbers."""
        index = np.flatnonzero(kept[self.node])
        return Points(self.record[index], number[self.node[index]], self.slot[index])

    def counts(self, n_nodes: int, n_slots: int) -> Longs:
        """Count points by node and slot."""
        key = self.node * n_slots + self.slot
        return np.bincount(key, minlength=n_nodes * n_slots).reshape(n_nodes, n_slots)

    def split(self, right: Bools, n_nodes: int) -> "Points":
        """Return the points of the children, lefts before rights, otherwise in their order."""
        before = np.cumsum(~right)
        size = np.bincount(self.node, minlength=n_nodes)
        start = np.cumsum(size) - size
        lefts_before = np.append(0, before)
        lefts = lefts_before[start + size] - lefts_before[start]
        place = np.arange(len(self)) - (before - lefts_before[start][self.node])
        place += lefts[self.node]
        # a left goes behind the lefts of its node that come before it
        place = np.where(right, place, (start - lefts_before[start])[self.node] + before - 1)
        result = Points(
            np.empty_like(self.record), np.empty_like(self.node), np.empty_like(self.slot)
        )
        result.record[place] = self.record
        result.slot[place] = self.slot
        result.node[place] = 2 * self.node + right
        return result


@dataclass(frozen=True, eq=False)
class Splits:
    """The split of every node: attribute -1 where there is none, codes from `threshold` go right."""

    attribute: Longs
    threshold: Longs


def split_nodes(
    records: Records, points: Points, n_nodes: int, growth: Growth, generator: np.random.Generator
) -> Splits:
    """Choose a split for every node.

    Memory: about twelve arrays of `CHUNK` items (or of the largest node, if that has more)
    beside the points themselves.
    """
    attribute = np.full(n_nodes, -1, dtype=np.int64)
    threshold = np.zeros(n_nodes, dtype=np.int64)
    for nodes, span in _chunks(np.bincount(points.node, minlength=n_nodes)):
        items = Items(
            record=points.record[span],
            node=points.node[span] - nodes.start,
            slot=points.slot[span].astype(np.int64),
            n_nodes=nodes.stop - nodes.start,
            n_classes=records.n_classes,
            n_slots=records.n_classes + growth.counts_estimation_on_sides,
            impurity=growth.impurity,
        )
        attribute[nodes], threshold[nodes] = _split_chunk(records, items, growth, generator)
    return Splits(attribute, threshold)


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
    n, d = items.n_nodes, records.n_attributes
    subsets = growth.attributes.draw(n, d, generator)
    b1, b2 = growth.cut.sharpness(n, generator)
    uniform = generator.random((3, n))
    least = growth.stopping.min_points if growth.stopping.rule == "sides" else 1
    scores = _best_scores(records, items, subsets, least)
    row = choose_rows(scores, b1, uniform[0])
    chosen = row if subsets is None else np.where(row < 0, -1, subsets[row, np.arange(n)])
    stuck = chosen < 0 if subsets is not None else np.zeros(n, dtype=np.bool_)
    if stuck.any():  # nothing to cut in its subset: draw on until there is, as scikit-learn does
        part, numbers = _part(items, stuck)
        others = _best_scores(records, part, None, least)
        chosen[numbers] = choose_rows(others, np.zeros(len(numbers)), uniform[2, numbers])
    return _cut_chosen(records, items, chosen, least, b2, uniform[1])


def _best_scores(records: Records, items: Items, subsets: Longs | None, least: int) -> Array:
    """Return each node's best score on each attribute it looks at, (p, nodes)."""
    if subsets is None:
        scores = np.empty((records.n_attributes, items.n_nodes))
        for i in range(records.n_attributes):
            if records.sizes[i] < 2:
                scores[i] = IMPOSSIBLE
                continue
            codes = records.column(i, items.record)
            scores[i] = find_cuts(items, codes, records.sizes[i], least).best()
        return scores
    scores = np.empty(subsets.shape)
    for j, attribute in enumerate(subsets):
        codes, size = records.chosen(np.maximum(attribute, 0), items)
        scores[j] = find_cuts(items, codes, size, least).best()
    scores[subsets < 0] = IMPOSSIBLE
    return scores


def _cut_chosen(
    records: Records, items: Items, chosen: Longs, least: int, b2: Array, uniform: Array
) -> tuple[Longs, Longs]:
    """Choose a cut on the chosen attribute of every node."""
    codes, size = records.chosen(np.maximum(chosen, 0), items)
    cuts = find_cuts(items, codes, size, least).cuts()
    pick = choose_in_groups(cuts.node, cuts.score, b2, uniform, items.n_nodes)
    attribute = np.where(pick < 0, -1, chosen)
    threshold = np.zeros(items.n_nodes, dtype=np.int64)
    found = np.flatnonzero(attribute >= 0)
    threshold[found] = _thresholds(records, cuts, pick[found], attribute[found])
    if items.is_class is not None:
        threshold[found] = _with_estimation_right(
            items, codes, cuts.low[pick[found]], threshold, found, least
        )
    return attribute, threshold


def _thresholds(records: Records, cuts: Cuts, pick: Longs, attribute: Longs) -> Longs:
    return records.between(attribute, cuts.low[pick], cuts.high[pick])


def _with_estimation_right(
    items: Items, codes: NDArray[Any], low: Longs, threshold: Longs, found: Longs, least: int
) -> Longs:
    """Move thresholds to just above `low` where the middle leaves too few points on the right.

    The cut was found with every estimation point above `low` on the right.
    """
    on_right = (codes >= threshold[items.node]) & (items.slot == items.n_classes)
    count = np.bincount(items.node[on_right], minlength=items.n_nodes)[found]
    return np.asarray(np.where(count < least, low + 1, threshold[found]))


def _part(items: Items, mask: Bools) -> tuple[Items, Longs]:
    """Return the items of some nodes, renumbered, and these nodes' numbers."""
    numbers = np.flatnonzero(mask)
    rank = np.cumsum(mask) - 1
    index = np.flatnonzero(mask[items.node])
    part = replace(
        items,
        record=items.record[index],
        node=rank[items.node[index]],
        slot=items.slot[index],
        n_nodes=len(numbers),
    )
    return part, numbers
