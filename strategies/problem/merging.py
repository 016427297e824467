"""Lossless merging of cells with equal columns, put in order where rows are then ranges.

If columns i and j of W are equal, then W = W' G with one column a group of cells, and every
strategy A' over the groups is the strategy A' G over the cells with the same column norms and
the same ``W A⁺ = W' A'⁺``. Conversely, averaging any strategy over the cells of a group raises
neither norm nor error, so the optimum over the groups is the optimum over the cells.

Two rows overlap if they meet and neither holds the other. Rows that overlap, directly or through
others, fix the order of what they hold up to reversal, as an ordered partition: a row splits at
most the two blocks at its ends, and its new cells go to an end. Rows of different components are
nested or apart, so a component lies within one block of every larger one that it meets, and

    the cells, sorted by their block in the largest component, then in the next, and so on,

are in an order in which all rows are ranges, if there is one (Fulkerson, Gross 1965; Hsu 2002).
Where no rows overlap, every row is a component, and the sort alone is the order. Whatever is found
is verified row by row: a wrong guess costs nothing but time.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from strategies.operators import (
    Dense,
    Gram,
    Grouping,
    Identity,
    Marginals,
    Operator,
    Product,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
    as_operator,
    fits,
)
from strategies.operators.base.arrays import Bools, Form, Longs, Real
from strategies.operators.explicit import agrees, are_equal, dense_keys, hash_entries, sparse_keys
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.ranges import Ranges, equal_columns

LARGEST_DENSE = 4000  # groups up to which a strategy is handled as an explicit matrix
MOST_AVERAGED = 2 * 10**7  # entries of a strategy whose columns are averaged over groups


@dataclass(frozen=True, eq=False)
class Merging:
    """Groups of cells with equal columns.

    They are numbered by their first cell, or in an order in which all rows are ranges.

    Examples
    --------
    >>> merging = merge_columns([[1, 2, 1], [0, 3, 0]])
    >>> merging.groups
    array([0, 1, 0])
    >>> merging.apply([[1, 2, 1], [0, 3, 0]]).to_dense()
    array([[1., 2.],
           [0., 3.]])
    """

    grouping: Grouping

    @property
    def groups(self) -> Longs:
        """Group of every cell, shape (n,)."""
        return self.grouping.labels

    @property
    def n_groups(self) -> int:
        """Number of groups g."""
        return self.grouping.shape[0]

    @cached_property
    def is_trivial(self) -> bool:
        """Whether no two columns are equal, in the order of the cells: groups and cells are one."""
        return self.tells_all_apart and bool((np.diff(self.groups) > 0).all())

    @property
    def tells_all_apart(self) -> bool:
        """Whether no two columns are equal."""
        return self.n_groups == self.grouping.shape[1]

    def apply(self, workload: object) -> Operator:
        """Return W' with ``W = W' G``: one column a group."""
        operator = as_operator(workload, "workload")
        if self.is_trivial:
            return operator
        first = self.grouping.representatives
        if isinstance(operator, Gram):
            return Gram(operator.array[np.ix_(first, first)])
        return as_operator(operator.compact()[:, first], "workload")

    def average(self, matrix: object) -> Operator:
        """Return the strategy over the groups whose columns are the means of each group's.

        ``X A = W`` implies ``X A G⁺ G = W``, so its error is never larger, nor its norm.
        """
        operator = as_operator(matrix, "matrix")
        if self.is_trivial:
            return operator
        if operator is self.grouping or isinstance(operator, Identity):
            return Identity(self.n_groups)
        if isinstance(operator, Product) and operator.right is self.grouping:
            return operator.left
        shares = sparse.diags_array(1.0 / self.grouping.counts) @ self.grouping.to_sparse()
        return as_operator(operator.compact() @ shares.T)

    def can_average(self, matrix: Operator) -> bool:
        """Tell whether columns can be averaged over the groups, few enough to solve with."""
        if self.n_groups > LARGEST_DENSE:
            return False
        return matrix.entries <= MOST_AVERAGED and fits((matrix.entries,), 32)

    def invert(self, matrix: object) -> Operator:
        """Return the strategy ``A' G`` over the cells, for a strategy A' over the groups."""
        operator = as_operator(matrix, "matrix")
        if isinstance(operator, Identity):
            apart, sizes = self.tells_all_apart, self.grouping.sizes
            return Identity(operator.n, sizes) if apart else self.grouping
        return operator if self.is_trivial else Product(operator, self.grouping)


def merge_columns(workload: object) -> Merging:
    """Find the groups of cells whose columns of the workload are equal, entry for entry.

    Columns are compared by 128-bit hashes of their nonzeros, then groups are checked entry for
    entry, so the merging is exact: the hash can only cost speed, never correctness. The largest
    arrays hold one number per nonzero of W.
    """
    operator = as_operator(workload, "workload")
    distinct = operator.has_distinct_columns or tells_codes_apart(operator)
    if distinct or sums_differ(operator):
        return Merging(Grouping(np.arange(operator.shape[1]), operator.sizes))
    # columns i and j of W are equal where rows i and j of its Gram are
    form: Form = operator.array if isinstance(operator, Gram) else operator.compact()
    if not isinstance(form, np.ndarray):
        form = form.tocsc()
    keys = dense_keys(form) if isinstance(form, np.ndarray) else sparse_keys(form)
    first, inverse = unique_rows(keys)
    # number the groups by their first cell, so that they keep the order of the domain
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    grouping = Grouping(rank[inverse], operator.sizes)
    told_apart = grouping.shape[0] == grouping.shape[1]
    if not (told_apart or agrees(form.T, form.T[grouping.representatives], grouping.labels)):
        grouping = Grouping(np.arange(operator.shape[1]), operator.sizes)
    return Merging(grouping)


def tells_codes_apart(workload: Operator) -> bool:
    """Tell whether every attribute of several codes is in a table: no columns are equal then."""
    if not isinstance(workload, Marginals):
        return False
    asked = {i for chosen in workload.attribute_sets for i in chosen}
    return all(i in asked or size == 1 for i, size in enumerate(workload.domain_sizes))


def sums_differ(workload: Operator) -> bool:
    """Tell whether two hashed sums of 0/1 rows differ between all columns; False proves nothing.

    Equal columns have equal sums, for whole numbers that stay below 2**53 are added exactly. No
    nonzero is written out: the largest array has two numbers a column.
    """
    q, n = workload.shape
    if not workload.is_binary or q == 0:
        return False
    hashed = hash_entries(np.arange(q), np.ones(q)) >> np.uint64(11 + (q - 1).bit_length())
    sums = np.ascontiguousarray(workload.rmatmat(hashed.astype(np.float64)))
    return len(unique_rows(sums)[0]) == n


def can_merge(workload: Operator) -> bool:
    """Tell whether columns can be compared one by one within the memory cap.

    Sorting and hashing take about 128 bytes per stored entry of a sparse matrix at their peak, half
    as much where all are equal; a dense one is hashed in bands.
    """
    if not fits((workload.shape[1], 16)):
        return False
    if workload.has_distinct_columns:
        return True
    if isinstance(workload, Dense | Gram):
        return fits((workload.entries,), 32)
    known = isinstance(workload, Sparse) and are_equal(workload.matrix.data)
    return fits((workload.entries,), 64 if known else 128)


FEWEST = 16
"""Cells from which an order is looked for: searches over fewer need none."""
ENTRY_BYTES = 40  # for every entry where the order given is looked at
SAMPLE = 64  # rows that are looked at before all are read
VISITS = (20_000, 20)
"""Rows that are looked at, in all and for every row, before an order is given up."""


def merge_in_order(workload: Operator) -> tuple[Merging | None, Ranges | None]:
    """Merge equal columns that can be compared, numbered where rows are then ranges in order."""
    if workload.shape[1] >= FEWEST and fits((workload.shape[1], 16)):
        found = given_order_ranges(workload)
        if found is not None:
            return merge_at_cuts(found, workload.sizes)
    if not can_merge(workload):
        return None, None
    merging = merge_columns(workload)
    if isinstance(workload, Gram) or not merging.n_groups >= FEWEST:
        return merging, None
    merged = merging.apply(workload)
    rows = equal_valued_rows(merged.compact()) if is_plain(merged) else None
    order = None if rows is None else cell_order(rows)
    if rows is None or order is None:
        return merging, None
    place = np.argsort(order)
    labels = Grouping(place[merging.groups], workload.sizes)
    return Merging(labels), given_ranges(replace(rows, cells=place[rows.cells]))


def given_order_ranges(workload: Operator) -> Ranges | None:
    """Return a workload's rows where they are ranges of cells in the order given."""
    if isinstance(workload, Ranges):
        return workload
    if isinstance(workload, RowScaled) and isinstance(workload.inner, Ranges):
        return workload.inner.multiply_rows(workload.weights)
    if not is_plain(workload) or not fits((workload.entries,), ENTRY_BYTES):
        return None
    rows = equal_valued_rows(workload.compact())
    return None if rows is None else given_ranges(rows)


def is_plain(workload: Operator) -> bool:
    """Tell whether a workload is explicit rows, with weights or stacked."""
    if isinstance(workload, Scaled | RowScaled):
        return is_plain(workload.inner)
    if isinstance(workload, Stack):
        return all(is_plain(block) for block in workload.blocks)
    return isinstance(workload, Dense | Sparse)


def merge_at_cuts(ranges: Ranges, sizes: tuple[int, ...] | None) -> tuple[Merging, Ranges]:
    """Merge the cells between two neighbouring ends of ranges, and equal ones that lie apart."""
    ends = np.concatenate([ranges.starts, ranges.stops])[np.tile(ranges.lengths > 0, 2)]
    cuts = np.unique(np.concatenate([[0], ends, [ranges.n]]))
    cells = ranges.restrict_cells(cuts[:-1])
    first = equal_columns(cells)
    kept = np.unique(first)
    groups = np.searchsorted(kept, first)
    labels = np.repeat(groups, np.diff(cuts))
    return Merging(Grouping(labels, sizes)), cells.restrict_cells(kept)


@dataclass(frozen=True, eq=False)
class EqualValuedRows:
    """Rows whose nonzeros are all equal: which cells they hold."""

    n: int
    cells: Longs  # (nonzeros,): cells of the rows, one row after another
    starts: Longs  # (q + 1,): where each row's cells begin
    values: Real  # (q,): 0 in rows without cells

    @property
    def lengths(self) -> Longs:
        return np.diff(self.starts)

    def take(self, rows: Longs) -> "EqualValuedRows":
        lengths = self.lengths[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        moved = np.repeat(self.starts[rows] - starts[:-1], lengths)
        cells = self.cells[moved + np.arange(starts[-1])]
        return EqualValuedRows(self.n, cells, starts, self.values[rows])


def equal_valued_rows(form: sparse.csr_array | Real) -> EqualValuedRows | None:
    """Return the rows of an explicit matrix, None if some row has different nonzeros."""
    if form.shape[0] > SAMPLE and equal_valued_rows(form[:SAMPLE]) is None:
        return None
    rows = sparse.csr_array(form)
    if not rows.data.all():
        rows = rows.copy()
        rows.eliminate_zeros()
    lengths = np.diff(rows.indptr)
    values = np.zeros(len(lengths), dtype=rows.dtype)
    values[lengths > 0] = rows.data[rows.indptr[:-1][lengths > 0]]
    if not np.array_equal(rows.data, np.repeat(values, lengths)):
        return None
    starts = rows.indptr.astype(np.int64)
    return EqualValuedRows(form.shape[1], rows.indices.astype(np.int64), starts, values)


def given_ranges(rows: EqualValuedRows) -> Ranges | None:
    """Return rows that are ranges of cells in the order given, None if one is not."""
    full = rows.lengths > 0
    starts, stops = np.zeros((2, len(full)), dtype=np.int64)
    if full.any():
        begins = rows.starts[:-1][full]
        starts[full] = np.minimum.reduceat(rows.cells, begins)
        stops[full] = np.maximum.reduceat(rows.cells, begins) + 1
    if not np.array_equal(stops - starts, rows.lengths):
        return None
    return Ranges(rows.n, starts, stops, rows.values)


def cell_order(rows: EqualValuedRows) -> Longs | None:
    """Return the cells in an order in which all rows are ranges, None where none is found."""
    kept = np.flatnonzero((rows.lengths > 1) & (rows.lengths < rows.n))
    if not fits((rows.n, len(kept)), 2):
        return None
    names = np.cumsum(np.random.default_rng(0).integers(2**62, size=rows.n)[rows.cells])
    ends = names[rows.starts[1:][kept] - 1]
    begins = np.where(rows.starts[kept] > 0, names[rows.starts[kept] - 1], 0)
    kept = kept[np.lexsort((ends - begins, -rows.lengths[kept]))]  # whatever their order
    members = [rows.cells[rows.starts[r] : rows.starts[r + 1]] for r in kept]
    if block_keys(members[:: 1 + len(members) // SAMPLE], rows.n) is None:
        return None  # some rows alone forbid it: most workloads end here
    outside = np.ones((rows.n, len(members)), dtype=np.bool_)
    for r, cells in enumerate(members):
        outside[cells, r] = False
    bits = np.packbits(outside, axis=1)
    nested = np.argsort(bits.view(f"S{bits.shape[1]}")[:, 0], kind="stable") if members else None
    if nested is None or all_ranges(rows, nested):
        return np.arange(rows.n) if nested is None else nested
    keys = block_keys(members, rows.n)
    found = None if keys is None else np.lexsort(keys[::-1])
    return found if found is not None and all_ranges(rows, found) else None


def all_ranges(rows: EqualValuedRows, order: Longs) -> bool:
    """Tell whether all rows are ranges of the cells in an order."""
    return given_ranges(replace(rows, cells=np.argsort(order)[rows.cells])) is not None


def block_keys(members: list[Longs], n: int) -> list[Longs] | None:
    """Return the cells' blocks in every component of overlapping rows, largest components first.

    0 stands for cells outside. None where rows cannot be ranges in any order, or it takes too long.
    """
    left, visits = members, VISITS[0] + VISITS[1] * len(members)
    keys: list[tuple[int, Longs]] = []
    while left:
        line = OrderedBlocks.of(left[0], n)
        pending, moved = left[1:], True
        while moved and pending:
            visits -= len(pending)
            before, later = len(pending), []
            for cells in pending:
                fate = line.add(cells)
                if fate is None:
                    return None
                if not fate:
                    later.append(cells)
            pending, moved = later, len(later) < before
            if visits < 0:
                return None
        keys.append((line.covered, line.key))
        left = pending
    keys.sort(key=lambda one: -one[0])
    return [key for _, key in keys]


@dataclass(eq=False)
class OrderedBlocks:
    """The cells that overlapping rows hold, as blocks from left to right: fixed up to reversal."""

    block: Longs  # (n,): number of each cell's block, -1 outside
    members: list[Longs]  # cells of each block
    line: list[int]  # numbers of the blocks, from left to right
    place: Longs  # (n,): place in the line of each block
    covered: int  # cells in all blocks

    @classmethod
    def of(cls, cells: Longs, n: int) -> "OrderedBlocks":
        block = np.full(n, -1)
        block[cells] = 0
        return cls(block, [cells], [0], np.zeros(n + 1, dtype=np.int64), len(cells))

    @property
    def key(self) -> Longs:
        """Place of every cell's block from 1, or 0 outside."""
        return np.asarray(np.where(self.block >= 0, self.place[self.block] + 1, 0))

    def add(self, cells: Longs) -> bool | None:
        """Add a row and return True; False if it overlaps none, None if no order serves both."""
        blocks = self.block[cells]
        outside = blocks < 0
        places = self.place[blocks[~outside]]
        fresh = len(cells) - len(places)
        if not len(places):
            return False  # apart
        low, high = int(places.min()), int(places.max())
        if (low == high and not fresh) or (fresh and len(places) == self.covered):
            return False  # within a block, or around all
        counts = np.bincount(places - low, minlength=high - low + 1)
        sizes = np.array([len(self.members[k]) for k in self.line[low : high + 1]])
        partly = counts < sizes
        if not counts.all() or partly[1:-1].any():
            return None
        side = self.open_side(low, high, partly) if fresh else 0
        if fresh and not side:
            return None
        self.split(cells, blocks, low, high, partly, side)
        if fresh:
            self.insert(len(self.line) if side > 0 else 0, cells[outside])
            self.covered += fresh
        return True

    def open_side(self, low: int, high: int, partly: Bools) -> int:
        """Return the end, 1 or -1, at which a row's new cells can come; 0 if at none."""
        if high == len(self.line) - 1 and (low == high or not partly[-1]):
            return 1
        return -1 if low == 0 and (low == high or not partly[0]) else 0

    def split(
        self, cells: Longs, blocks: Longs, low: int, high: int, partly: Bools, side: int
    ) -> None:
        """Part the blocks at a row's ends into what it holds and the rest, the last one first."""
        ends = [(high, False), (low, True)] if low < high else [(low, side == 1)]
        for place, after in ends:
            if partly[place - low]:
                number = self.line[place]
                whole, mine = self.members[number], cells[blocks == number]
                self.block[mine] = -2
                self.members[number] = whole[self.block[whole] == number]
                self.insert(place + after, mine)

    def insert(self, place: int, cells: Longs) -> None:
        """Put a new block into the line."""
        number = len(self.members)
        self.members.append(cells)
        self.block[cells] = number
        self.line.insert(place, number)
        self.place[:number] += self.place[:number] >= place
        self.place[number] = place
