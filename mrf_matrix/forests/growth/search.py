"""Every possible cut of every node, with its score, on the attributes that nodes look at.

Three
ways to the same numbers, chosen by what is smallest (measured: one to fifty nanoseconds an item and
attribute):

- *counts*: one `bincount` over (code, class, node), for few codes and classes a node;
- *sums*: one sort by (node, class, code); then what each record changes in ``sum f`` is known
  from its rank and is added up per (code, node), without the factor of classes;
- *runs*: a second sort by (node, code), for fine codes: no table at all.

Codes without records make no cuts of their own: a cut lies between two codes that occur in the
node, `low` and the next one, `high`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Longs, Values
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.forests.growth.records import Items, Records

IMPOSSIBLE = -np.inf  # score of what is no cut


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cuts of all nodes on one attribute, by node and then by code."""

    # node, low, high: (c,): the node, the last code on the left and the first on the right that
    # occur in it; both are the code of a cut "this code or not"
    node: Longs
    low: Longs
    high: Longs
    # (c,): ``purity(left) + purity(right)``: within a node, an increasing affine function of the
    # impurity decrease
    score: Array
    n_nodes: int

    def best(self) -> Array:
        """Return each node's best score."""
        result = np.full(self.n_nodes, IMPOSSIBLE)
        if len(self.node):
            first = np.flatnonzero(np.diff(self.node, prepend=-1))
            result[self.node[first]] = np.maximum.reduceat(self.score, first)
        return result

    def cuts(self) -> "Cuts":
        return self


@dataclass(frozen=True, eq=False)
class CutTable:
    """Scores by (code, node); impossible where the code does not occur or is the last."""

    score: Array
    present: Bools

    def best(self) -> Array:
        return np.asarray(self.score.max(axis=0))

    def cuts(self) -> Cuts:
        node, code = np.nonzero(self.present.T)
        following = np.append(code[1:], 0)
        kept = np.flatnonzero(self.score[code, node] > IMPOSSIBLE)
        node, code = node[kept], code[kept]
        n_nodes = self.score.shape[1]
        return Cuts(node, code, following[kept], self.score[code, node], n_nodes)


Found = CutTable | Cuts


def find_cuts(items: Items, codes: NDArray[Any], size: int, least: int = 1) -> Found:
    """Return all cuts of an attribute whose code is given for each item.

    `codes` (i,): each item's code; the attribute may differ between nodes; `size`: one more than
    the largest code; `least`: points that either side of a cut must keep: estimation points where
    the items hold them, structure points otherwise.
    """
    if size * items.n_slots * items.n_nodes <= 2 * len(items):
        return _count_table(items, codes, size, least)
    if size * items.n_nodes <= 4 * len(items):
        return _sum_table(items, codes, size, least)
    return _sorted_runs(items, codes, size, least)


def _count_table(items: Items, codes: NDArray[Any], size: int, least: int) -> CutTable:
    n, k, slots = items.n_nodes, items.n_classes, items.n_slots
    key = codes * np.int64(slots * n) + (items.slot * n + items.node)
    table = np.bincount(key, minlength=size * slots * n).reshape(size, slots, n)
    left = np.cumsum(table, axis=0, dtype=np.float64)
    classes = left[:, :k]
    sums = items.impurity.sums(classes, classes[-1])
    n_left = np.cumsum(table[:, :k].sum(axis=1), axis=0)
    kept = left[:, k].astype(np.int64) if slots > k else None
    return _scored_table(items, sums, n_left, kept, least)


def _sum_table(items: Items, codes: NDArray[Any], size: int, least: int) -> CutTable:
    n = items.n_nodes
    key = _sorted_codes(items, codes, size) * np.int64(n) + items.node
    to_left, to_right = items.moves
    shape = (size, n)

    def running_sums(weights: NDArray[Any] | None) -> Values:
        return np.cumsum(np.bincount(key, weights, minlength=size * n).reshape(shape), axis=0)

    sums = running_sums(to_left), items.parent_terms + running_sums(to_right)
    if items.is_class is None:
        return _scored_table(items, sums, running_sums(None), None, least)
    n_left = running_sums(items.is_class).astype(np.int64)
    kept = running_sums(~items.is_class).astype(np.int64)
    return _scored_table(items, sums, n_left, kept, least)


def _scored_table(
    items: Items, sums: tuple[Array, Array], n_left: Longs, kept: Longs | None, least: int
) -> CutTable:
    purity = items.impurity.purity
    n_right = items.total - n_left
    score = purity(sums[0], n_left) + purity(sums[1], n_right)
    present = np.diff(n_left, axis=0, prepend=0) > 0
    possible = present & (n_right > 0)
    if kept is not None:
        possible &= (kept >= least) & (items.counts[:, -1] - kept >= least)
    elif least > 1:
        possible &= (n_left >= least) & (n_right >= least)
    score[~possible] = IMPOSSIBLE
    return CutTable(score, present)


def _sorted_runs(items: Items, codes: NDArray[Any], size: int, least: int) -> Cuts:
    bits = max(len(items) - 1, 1).bit_length()
    run = items.node * np.int64(size) + _sorted_codes(items, codes, size)
    key = np.sort(run << bits | np.arange(len(items)))
    order, run = key & ((1 << bits) - 1), key >> bits
    is_class = None if items.is_class is None else items.is_class[order]
    if is_class is not None:
        return _runs_with_estimation(items, order, run, is_class, size, least)
    last = np.flatnonzero(np.diff(run, append=-1))
    n_moved = last + 1
    return _scored_runs(items, order, run[last], last, n_moved, None, size, least)


def _runs_with_estimation(
    items: Items, order: Longs, run: Longs, is_class: Bools, size: int, least: int
) -> Cuts:
    """Take the runs of structure points; estimation points in between count to the left."""
    moved = np.cumsum(is_class, dtype=np.int64)
    structure = np.flatnonzero(is_class)
    ends = structure[np.flatnonzero(np.diff(run[structure], append=-1))]
    # estimation points of the same code, and of codes up to the next cut, go left or right by
    # the threshold; those of this code always go left
    last = np.searchsorted(run, run[ends], side="right") - 1
    return _scored_runs(
        items, order, run[ends], last, moved[last], np.cumsum(~is_class), size, least
    )


def _scored_runs(
    items: Items,
    order: Longs,
    run: Longs,
    last: Longs,
    n_moved: Longs,
    kept: Longs | None,
    size: int,
    least: int,
) -> Cuts:
    """Score the cut after each run; sums run over all nodes, and what came before is taken off."""
    node, code = run // size, run % size
    inner = np.flatnonzero(node[:-1] == node[1:])
    last, node, low, high = last[inner], node[inner], code[inner], code[inner + 1]
    before = items.start
    total_before = np.cumsum(items.total) - items.total
    n_left = n_moved[inner] - total_before[node]
    n_right = items.total[node] - n_left
    left, right = (_range_sums(move[order], last, before[node]) for move in items.moves)
    purity = items.impurity.purity
    score = purity(left, n_left) + purity(items.parent_terms[node] + right, n_right)
    if kept is None:
        fits = (n_left >= least) & (n_right >= least) if least > 1 else None
    else:
        on_left = kept[last] - (np.append(0, kept)[before[node]])
        fits = (on_left >= least) & (items.counts[node, -1] - on_left >= least)
    if fits is not None:
        node, low, high, score = node[fits], low[fits], high[fits], score[fits]
    return Cuts(node, low, high, score, items.n_nodes)


def _range_sums(values: Array, last: Longs, first: Longs) -> Array:
    """Return the sums of ``values[first : last + 1]``."""
    total = np.append(0.0, np.cumsum(values))
    return np.asarray(total[last + 1] - total[first])


def _sorted_codes(items: Items, codes: NDArray[Any], size: int) -> NDArray[Any]:
    """Return codes in the order of (group, code): groups stay in their places."""
    bits = max(size - 1, 1).bit_length()
    top = (items.n_nodes * items.n_slots) << bits
    key = items.group << bits | codes
    if top <= 1 << 32:
        return np.sort(key.astype(np.uint32)) & np.uint32((1 << bits) - 1)
    return np.sort(key) & ((1 << bits) - 1)


def find_code_cuts(items: Items, codes: NDArray[Any], size: int, least: int = 1) -> Cuts:
    """Return the cuts of a nominal attribute; see `find_cuts` for the parameters.

    One sort by (node, class, code) makes runs of m records of one class and code; with c records
    of that class in the node, a run adds ``f(m)`` on the side of its code and changes the other
    side by ``f(c - m) - f(c)``.
    """
    bits = max(size - 1, 1).bit_length()
    run = np.sort(items.group << bits | codes)
    first = np.flatnonzero(np.diff(run, prepend=-1))
    m = np.diff(first, append=len(run))
    group, code = run[first] >> bits, run[first] & ((1 << bits) - 1)
    node, slot = group // items.n_slots, group % items.n_slots
    pair, back = np.unique(node << bits | code, return_inverse=True)
    node, code = pair >> bits, pair & ((1 << bits) - 1)
    is_class = slot < items.n_classes
    term, in_class = items.impurity.terms, items.counts.ravel()[group]

    def total(values: NDArray[Any]) -> Array:
        kept = np.where(is_class, values, 0)
        return np.asarray(np.bincount(back, kept, minlength=len(pair)), dtype=np.float64)

    with_code = total(term(m))
    without = items.parent_terms[node] + total(term(in_class - m) - term(in_class))
    n_with = total(m)
    n_without = items.total[node] - n_with
    purity = items.impurity.purity
    score = purity(with_code, n_with) + purity(without, n_without)
    possible = (n_with > 0) & (n_without > 0)
    if items.n_slots > items.n_classes:
        kept = np.bincount(back, np.where(is_class, 0, m), minlength=len(pair))
        possible &= (kept >= least) & (items.counts[node, -1] - kept >= least)
    else:
        possible &= (n_with >= least) & (n_without >= least)
    node, code = node[possible], code[possible]
    return Cuts(node, code, code, score[possible], items.n_nodes)


Finder = Callable[[Items, NDArray[Any], int, int], Found]


@dataclass(frozen=True, eq=False, repr=False)
class Search(PrivateValue):
    """Nodes, their items, and the rules for their cuts."""

    records: Records
    items: Items
    least: int  # points that both sides of a cut must keep

    def best_on(self, attribute: int) -> Array:
        size = self.records.sizes[attribute]
        if size < 2:
            return np.full(self.items.n_nodes, IMPOSSIBLE)
        codes = self.records.column(attribute, self.items.record)
        return self.cuts_on(codes, size, bool(self.records.nominal[attribute])).best()

    def best_scores(self, subsets: Longs | None) -> Array:
        """Return each node's best score on each attribute it looks at, (p, nodes)."""
        if subsets is None:
            return np.stack([self.best_on(i) for i in range(self.records.n_attributes)])
        scores = np.full(subsets.shape, IMPOSSIBLE)
        for j, attribute in enumerate(subsets):
            for part, numbers, nominal in self.split_by_kind(attribute):
                codes, size = self.records.codes_at_nodes(attribute[numbers], part.items)
                scores[j, numbers] = part.cuts_on(codes, size, nominal).best()
        return scores

    def cuts_on(self, codes: NDArray[Any], size: int, nominal: bool) -> Found:
        find: Finder = find_code_cuts if nominal else find_cuts
        return find(self.items, codes, size, self.least)

    def split_by_kind(self, attribute: Longs) -> Iterator[tuple["Search", Longs, bool]]:
        """Yield the nodes with an ordered and those with a nominal attribute (-1: neither)."""
        nominal = self.records.nominal[attribute]
        for mask, kind in (
            (~nominal & (attribute >= 0), False),
            (nominal & (attribute >= 0), True),
        ):
            if mask.any():
                yield *self.part(mask), kind

    def part(self, mask: Bools) -> tuple["Search", Longs]:
        numbers = np.flatnonzero(mask)
        if len(numbers) == len(mask):
            return self, numbers
        items, rank = self.items, np.cumsum(mask) - 1
        index = np.flatnonzero(mask[items.node])
        part = replace(
            items,
            record=items.record[index],
            node=rank[items.node[index]],
            slot=items.slot[index],
            n_nodes=len(numbers),
        )
        return replace(self, items=part), numbers
