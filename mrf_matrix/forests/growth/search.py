"""Look for cuts on the attributes that nodes look at, whatever their kind."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.base.shown import PrivateValue
from mrf_matrix.forests.growth.cuts import IMPOSSIBLE, Cuts, Found, find_cuts
from mrf_matrix.forests.growth.items import Items
from mrf_matrix.forests.growth.records import Records


@dataclass(frozen=True, eq=False)
class CodeCuts:
    """Scores of the cuts "this code or not", by node and code."""

    node: Longs
    code: Longs
    score: Array
    n_nodes: int

    def best(self) -> Array:
        """Return each node's best score."""
        result = np.full(self.n_nodes, IMPOSSIBLE)
        np.maximum.at(result, self.node, self.score)
        return result

    def within(self, first: Longs, last: Longs) -> "CodeCuts":
        """Return the same cuts: codes without an order have no range."""
        return self

    def cuts(self) -> Cuts:
        """Return all cuts; `low` and `high` are the code itself."""
        return Cuts(self.node, self.code, self.code, self.score)


def find_code_cuts(items: Items, codes: NDArray[Any], size: int, least: int = 1) -> CodeCuts:
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
    return CodeCuts(node[possible], code[possible], score[possible], items.n_nodes)


Finder = Callable[[Items, NDArray[Any], int, int], Found | CodeCuts]


@dataclass(frozen=True, eq=False, repr=False)
class Search(PrivateValue):
    """Nodes, their items, and the rules for their cuts.

    Attributes
    ----------
    records : Records
    items : Items
    least : int
        Points that both sides of a cut must keep.
    spanning : ndarray of int or None
        Items whose codes span their node's range of cuts, sorted by node; None for no limit.
    """

    records: Records
    items: Items
    least: int
    spanning: Longs | None = None

    def best_on(self, attribute: int) -> Array:
        """Return each node's best score on one attribute."""
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
            for part, numbers, nominal in self.by_kind(attribute):
                codes, size = self.records.chosen(attribute[numbers], part.items)
                scores[j, numbers] = part.cuts_on(codes, size, nominal).best()
        return scores

    def cuts_on(self, codes: NDArray[Any], size: int, nominal: bool) -> Found | CodeCuts:
        """Return all cuts on attributes of one kind, given each item's code."""
        find: Finder = find_code_cuts if nominal else find_cuts
        found = find(self.items, codes, size, self.least)
        if self.spanning is None:
            return found
        return found.within(*self._range(codes[self.spanning], size))

    def by_kind(self, attribute: Longs) -> Iterator[tuple["Search", Longs, bool]]:
        """Yield the nodes with an ordered and those with a nominal attribute (-1: neither)."""
        nominal = self.records.nominal[attribute]
        for mask, kind in (
            (~nominal & (attribute >= 0), False),
            (nominal & (attribute >= 0), True),
        ):
            if mask.any():
                yield *self.part(mask), kind

    def part(self, mask: Bools) -> tuple["Search", Longs]:
        """Return the search over some nodes, renumbered, and these nodes' numbers."""
        numbers = np.flatnonzero(mask)
        if len(numbers) == len(mask):
            return self, numbers
        items, rank = self.items, np.cumsum(mask) - 1
        kept = mask[items.node]
        index = np.flatnonzero(kept)
        part = replace(
            items,
            record=items.record[index],
            node=rank[items.node[index]],
            slot=items.slot[index],
            n_nodes=len(numbers),
        )
        spanning = self.spanning
        if spanning is not None:
            spanning = (np.cumsum(kept) - 1)[spanning[kept[spanning]]]
        return Search(self.records, part, self.least, spanning), numbers

    def _range(self, codes: NDArray[Any], size: int) -> tuple[Longs, Longs]:
        """Return the least and the largest spanning code of each node; all codes without one."""
        low = np.full(self.items.n_nodes, size, dtype=np.int64)
        high = np.full(self.items.n_nodes, -1, dtype=np.int64)
        node = self.items.node[self.spanning]
        np.minimum.at(low, node, codes)
        np.maximum.at(high, node, codes)
        return np.where(high < 0, 0, low), np.where(high < 0, size, high)


def draw_spanning(
    items: Items, range_points: int | None, generator: np.random.Generator
) -> Longs | None:
    """Draw the structure points that span each large node's range; None where no node is large."""
    if range_points is None or not (items.total > range_points).any():
        return None
    structure = np.flatnonzero(items.slot < items.n_classes)
    structure = structure[items.total[items.node[structure]] > range_points]
    shuffled = structure[np.lexsort((generator.random(len(structure)), items.node[structure]))]
    node = items.node[shuffled]
    first = np.flatnonzero(np.diff(node, prepend=-1))
    rank = np.arange(len(node)) - np.repeat(first, np.diff(first, append=len(node)))
    return np.sort(shuffled[rank < range_points])
