"""The largest norm of a column of ``K P``: combinations K of paths P, over all cells of a domain.

The squared norm of cell c is ``v_cᵀ H v_c`` with ``H = KᵀK`` and v_c the 0/1 column of c. Two paths
meet on the attributes that either of them tests. So the norms are a sum of tables, one for each
pair of attribute sets A and B that paths test,

    t_AB(c) = Σ_a Σ_b H_ab a(c_A) b(c_B)        a, b: the paths that test A, and B,

and tables of equal unions are added up. Attributes are then fixed one after the other. What is
left is a sum over fewer attributes; where the sum of the tables' largest entries is no more than a
cell known, the branch is cut. A search that would be longer than its limit ends with that sum,
which is a proved bound.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations_with_replacement
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Longs, fits
from strategies.operators.masks.packed_masks import Masks, members, unique_rows

BLOCK = 2**17  # cells whose norms are written out at once
MOST_TOGETHER = 2 * 10**10
"""Cells beyond which parts that are not combined with each other are searched one by one."""
MOST_ENTRIES = 4 * 10**8  # of all tables together
MOST_SUMS = 3 * 10**8
"""Entries of tables that are added up before a search ends with a bound: some seconds."""
ENTRY_SECONDS = 4e-9  # of the reference machine, for an entry of a table
SUM_SECONDS = 2.5e-8  # the same for a cell whose norm is added up
MOST_TIES = 10**4  # cells, of as large a norm up to rounding, that are looked at exactly

Table = tuple[tuple[int, ...], Array]  # attributes in order, and one axis for each


@dataclass(frozen=True)
class Heaviest:
    """The largest squared norm of a column, or a bound above it."""

    square: float  # an integer, as Python's, where K is of integers
    is_exact: bool


def heaviest_cell(left: Array | Longs, masks: Sequence[Masks], groups: Longs | None) -> Heaviest:
    """Return the largest squared L2 norm of a column of ``left @ P``, left (m, p).

    `masks`: of the paths P, (p, n_i) an attribute; those of one of the `groups` are disjoint.
    """
    used = np.flatnonzero(np.asarray(left != 0).any(axis=0))
    if not len(used):
        return Heaviest(0, True)
    left, groups = left[:, used], None if groups is None else groups[used]
    codes = [distinct_codes(mask[used]) for mask in masks]
    varied = [mask for mask in codes if not mask.all()] or codes[:1]
    real = left.astype(np.float64)
    gram = real.T @ real
    if prod(float(mask.shape[1]) for mask in varied) > MOST_TOGETHER:
        apart = separate_parts(gram, groups)
        if len(apart) > 1:
            return sum_of_largest(left, [mask[used] for mask in masks], groups, apart)
    above = disjoint_bound(gram, groups)
    terms = len(used) if groups is None else len(np.unique(groups))
    slack = 8 * np.finfo(float).eps * (terms**2 + len(left)) * disjoint_bound(abs(gram), groups)
    computed, held = table_entries(varied)
    if computed > MOST_ENTRIES or not fits((held,), 8):
        return upper_bound(above + slack, left)
    search = Search(slack)
    bound = search.visit(pair_tables(gram, varied), [mask.shape[1] for mask in varied], ())
    if search.is_cut or search.largest + 2 * slack < bound:
        return upper_bound(min(bound, above) + slack, left)
    cells = search.ties()
    if cells is None:
        return upper_bound(search.largest + slack, left)
    columns = reduce(np.multiply, (m[:, c] for m, c in zip(varied, cells.T, strict=True)))
    if left.dtype.kind != "i":  # sums of the Gram cancel, and may end below zero
        return Heaviest(float(((real @ columns) ** 2).sum(axis=0).max()), True)
    whole = left.astype(np.int64, copy=False)
    return Heaviest(max(exact_squares(whole, columns.astype(np.int64))), True)


def sum_of_largest(
    left: Array | Longs, masks: Sequence[Masks], groups: Longs | None, parts: Sequence[Longs]
) -> Heaviest:
    """Return the sum of the largest norms of parts, which no cell's norm is above.

    It is one cell's where no attribute is tested by two parts.
    """
    tested = [[not mask[one].all() for mask in masks] for one in parts]
    is_exact = bool(np.sum(tested, axis=0).max() <= 1)
    found = []
    for one in parts:
        own = None if groups is None else groups[one]
        found.append(heaviest_cell(left[:, one], [mask[one] for mask in masks], own))
    is_exact = is_exact and all(one.is_exact for one in found)
    return Heaviest(sum(one.square for one in found), is_exact)


def separate_parts(gram: Array, groups: Longs | None) -> list[Longs]:
    """Return the paths of parts that no row combines: their largest norms add up to a bound."""
    met = gram != 0 if groups is None else (gram != 0) | (groups[:, None] == groups)
    _, number = sparse.csgraph.connected_components(sparse.csr_array(met), directed=False)
    return members(number.astype(np.int64))


def search_seconds(masks: Sequence[Masks]) -> float:
    varied = [one for one in map(distinct_codes, masks) if not one.all()]
    computed, held = table_entries(varied)
    if computed > MOST_ENTRIES or not fits((held,), 8):
        return 0.0
    cells = min(prod(one.shape[1] for one in varied), MOST_SUMS)
    return float(ENTRY_SECONDS * computed + SUM_SECONDS * cells)


def upper_bound(square: float, left: Array | Longs) -> Heaviest:
    """Return a bound, as an integer for a matrix of integers."""
    return Heaviest(int(np.ceil(square)) if left.dtype.kind == "i" else square, False)


def exact_squares(left: Longs, columns: Longs) -> list[int]:
    if np.abs(left.astype(np.float64)).sum(axis=1).max(initial=0.0) >= 2.0**62:
        left = left.astype(object)  # sums beyond 64 bits
    values = left @ columns
    if float(abs(values).max(initial=0)) ** 2 * len(left) < 2.0**62:
        return [int(one) for one in (values * values).sum(axis=0)]
    return [sum(int(entry) ** 2 for entry in column) for column in values.T]


def distinct_codes(mask: Masks) -> Masks:
    """Return a mask's distinct columns: codes that no path tells apart are one."""
    first, _ = unique_rows(np.ascontiguousarray(mask.T))
    return np.asarray(mask[:, first])


def disjoint_bound(gram: Array, groups: Longs | None) -> float:
    """Return a bound on ``v_cᵀ H v_c`` from one path of every group at most, whatever the cell.

    The sum over groups of the largest row in them, which is one of sums over groups of the largest
    entry. Without groups every path is one.
    """
    if groups is None:
        return float(np.maximum(np.maximum(gram, 0).sum(axis=1), 0).sum())
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    largest = np.maximum.reduceat(gram[np.ix_(order, order)], starts, axis=1)
    sums = np.maximum(largest, 0.0).sum(axis=1)
    return float(np.maximum(np.maximum.reduceat(sums, starts), 0.0).sum())


def tested_sets(masks: Sequence[Masks]) -> list[tuple[tuple[int, ...], Longs]]:
    """Return the attribute sets that paths test, each with the paths that test it."""
    tested = np.stack([~mask.all(axis=1) for mask in masks], axis=1)
    first, number = unique_rows(tested)
    return [
        (tuple(np.flatnonzero(tested[one]).tolist()), rows)
        for one, rows in zip(first, members(number), strict=True)
    ]


def table_entries(masks: Sequence[Masks]) -> tuple[int, int]:
    """Return how many entries of tables are computed, and how many are held at once.

    Every pair of attribute sets has a table; tables of one union are added up as they are made.
    """
    sizes = [mask.shape[1] for mask in masks]
    sets = [one for one, _ in tested_sets(masks)] if masks else []
    if len(sets) ** 2 > MOST_ENTRIES:
        return MOST_ENTRIES + 1, MOST_ENTRIES + 1
    unions = Counter(
        frozenset(one + other) for one, other in combinations_with_replacement(sets, 2)
    )
    entries = {union: prod(sizes[i] for i in union) for union in unions}
    return sum(count * entries[union] for union, count in unions.items()), sum(entries.values())


def pair_tables(gram: Array, masks: Sequence[Masks]) -> list[Table]:
    """Return the tables whose sum at a cell is its ``v_cᵀ H v_c``, one for each union of sets."""
    joint = [(own, rows, joint_codes(masks, own, rows)) for own, rows in tested_sets(masks)]
    return add_tables(
        pair_table(gram[np.ix_(rows, others)] * (1.0 + (one != other)), one, left, other, right)
        for (one, rows, left), (other, others, right) in combinations_with_replacement(joint, 2)
    )


def joint_codes(masks: Sequence[Masks], attributes: tuple[int, ...], rows: Longs) -> Array:
    """Return paths over the attributes that they test, one axis for each behind the paths'."""
    result = np.ones(len(rows))
    for place, i in enumerate(attributes):
        mask = masks[i][rows].astype(np.float64)
        result = result[..., None] * mask.reshape(len(rows), *(1,) * place, -1)
    return result


def pair_table(
    block: Array, one: tuple[int, ...], left: Array, other: tuple[int, ...], right: Array
) -> Table:
    """Return ``Σ_a Σ_b H_ab a(c_A) b(c_B)`` over the union of the sets A and B.

    One matrix product for every joint code of the attributes that both test.
    """
    shared = [i for i in one if i in other]
    own, others = [i for i in one if i not in shared], [i for i in other if i not in shared]
    left = np.tensordot(left, block, axes=(0, 0))  # axes: A, b
    left = np.moveaxis(left, [one.index(i) for i in (*shared, *own)], range(len(one)))
    right = np.moveaxis(right, [1 + other.index(i) for i in shared], range(len(shared)))
    met = prod(left.shape[: len(shared)])
    first = left.reshape(met, -1, left.shape[-1])
    second = right.reshape(met, right.shape[len(shared)], -1)
    sizes = (*left.shape[:-1], *right.shape[len(shared) + 1 :])
    table = np.matmul(first, second).reshape(sizes)
    names = [*shared, *own, *others]
    order = sorted(range(len(names)), key=names.__getitem__)
    return tuple(sorted(names)), np.ascontiguousarray(table.transpose(order))


@dataclass(eq=False)
class Search:
    """Fix attributes one after the other, from the first, and look at sums of tables."""

    slack: float  # what rounding may take from a norm
    largest: float = -np.inf
    summed: int = 0  # entries of tables that were added up
    is_cut: bool = False  # whether cells that may be the heaviest were not looked at, or not kept
    near: list[tuple[Array, Longs]] = field(default_factory=list)
    """Norms within rounding of the largest so far, with their cells."""

    def visit(self, tables: list[Table], sizes: list[int], fixed: tuple[int, ...]) -> float:
        """Return a bound on all cells with some codes fixed: the largest, where it is found."""
        bound = sum(float(table.max()) for _, table in tables)
        if bound + 2 * self.slack <= self.largest:
            return bound
        if self.summed > MOST_SUMS:
            self.is_cut = True
            return bound
        rest = sizes[len(fixed) :]
        if prod(rest) <= BLOCK:
            return self.write_out(tables, rest, fixed)
        i = len(fixed)
        free = [(own, table) for own, table in tables if own[:1] != (i,)]
        bound = -np.inf
        for code in range(sizes[i]):
            taken = [(own[1:], table[code]) for own, table in tables if own[:1] == (i,)]
            self.summed += sum(table.size for _, table in taken) // 4  # few need adding
            bound = max(bound, self.visit(add_tables(free + taken), sizes, (*fixed, code)))
        return bound

    def write_out(self, tables: list[Table], rest: list[int], fixed: tuple[int, ...]) -> float:
        """Add up the tables over the attributes left and keep the largest norms."""
        first = len(fixed)
        total = np.zeros(rest)
        for own, table in sorted(tables, key=lambda one: one[1].size):
            shape = [size if first + place in own else 1 for place, size in enumerate(rest)]
            total += table.reshape(shape)
        self.summed += total.size
        largest = float(total.max())
        self.largest = max(self.largest, largest)
        if largest + 2 * self.slack >= self.largest:
            cells = np.argwhere(total + 2 * self.slack >= self.largest)
            self.is_cut |= len(cells) > MOST_TIES
            cells = cells[:MOST_TIES]
            codes = np.concatenate([np.tile(fixed, (len(cells), 1)), cells], axis=1)
            self.near.append((np.atleast_1d(total[tuple(cells.T)]), codes.astype(np.int64)))
        return largest

    def ties(self) -> Longs | None:
        """Return the cells that may be the heaviest, None where they are too many."""
        values = np.concatenate([value for value, _ in self.near])
        cells = np.concatenate([cell for _, cell in self.near])
        tied = values + 2 * self.slack >= self.largest
        return cells[tied] if np.count_nonzero(tied) <= MOST_TIES else None


def add_tables(tables: Iterable[Table]) -> list[Table]:
    sums: dict[tuple[int, ...], Array] = {}
    for own, table in tables:
        sums[own] = sums[own] + table if own in sums else table
    return list(sums.items())
