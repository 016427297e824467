"""Cuts of attributes without an order: one code against all others."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.forests.growth.cuts import IMPOSSIBLE, Cuts
from mrf_matrix.forests.growth.items import Items


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
