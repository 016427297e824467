"""One 0/1 mask a row and attribute, packed to bits: sets of attributes, rows, and their products.

``A[r] = L[left_r] ⊗ R[right_r]``, where L and R hold the *distinct* rows over the first and the
last attributes. With x laid out as an (n_L, n_R) array X, ``(A x)_r = L[left_r] X R[right_r]``:
two small matrix products take the place of o x n work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    Longs,
    Numbers,
    check_allocation,
    plain_array,
)

MEETING = 4.0
"""Entries of a dense table that take as long as one attribute that two sets have in common."""


def unique_rows(table: Numbers) -> tuple[Longs, Longs]:
    """Return (first index of each distinct row, number of every row's distinct row)."""
    flat = np.ascontiguousarray(
        np.packbits(table.astype(np.bool_, copy=False), axis=1) if table.dtype == bool else table
    )
    if flat.shape[1] == 0:
        return np.zeros(min(len(flat), 1), np.int64), np.zeros(len(flat), np.int64)
    _, first, inverse = np.unique(_keys(flat), return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.ravel().astype(np.int64)


def _keys(flat: Numbers) -> Numbers:
    """Return one value a row, in the order of the rows' bytes: a number where they are few."""
    width = flat.dtype.itemsize * flat.shape[1]
    whole = next((size for size in (1, 2, 4, 8) if width <= size), 0)
    if flat.dtype != np.uint8 or not whole:
        return np.asarray(flat.view(np.dtype((np.void, width))).ravel())
    padded = np.zeros((len(flat), whole), dtype=np.uint8)
    padded[:, :width] = flat
    return np.asarray(padded.view(f">u{whole}").ravel().astype(f"=u{whole}"))


def members(number: Longs) -> list[Longs]:
    """Return the rows of every number from 0 on, each in order."""
    if not len(number):
        return []
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number))[:-1])


def containment(inner: Bools, outer: Bools) -> sparse.csc_array:
    """Return which sets of one table (u, d) lie in which of another (K, d), as ones (u, K).

    By the attributes that two sets have in common where most pairs have none; else by a product of
    float32 matrices, of shape (u, K).

    >>> sets = np.array([[True, False], [True, True]])
    >>> containment(sets, sets).toarray()
    array([[1., 1.],
           [0., 1.]])
    """
    u, k = len(inner), len(outer)
    meetings = float(inner.sum(axis=0, dtype=np.float64) @ outer.sum(axis=0, dtype=np.float64))
    if MEETING * meetings > float(u) * k:
        check_allocation("containment of attribute sets", (k, u), 5)
        inside = (~outer).astype(np.float32) @ inner.T.astype(np.float32) == 0
        ends = np.concatenate([[0], np.cumsum(np.count_nonzero(inside, axis=1))])
        row = np.nonzero(inside)[1]
        return sparse.csc_array((np.ones(len(row)), row, ends), shape=(u, k))
    check_allocation("common attributes of sets", (int(meetings),), 16)
    tables = [sparse.csr_array(one.astype(np.int32)) for one in (inner, outer)]
    common = (tables[0] @ tables[1].T).tocoo()
    whole = common.data == inner.sum(axis=1)[common.coords[0]]
    empty = np.flatnonzero(~inner.any(axis=1))  # in every set, with nothing in common
    rows = np.concatenate([common.coords[0][whole], np.repeat(empty, k)])
    columns = np.concatenate([common.coords[1][whole], np.tile(np.arange(k), len(empty))])
    return sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape=(u, k))


ENTRIES = 2**15
"""Entries that are laid out at a time: a few arrays of them stay in the processor's cache."""


def khatri_rao(blocks: Sequence[sparse.csc_array]) -> sparse.csc_array:
    """Return the matrix whose column j is the Kronecker product of the blocks' columns j.

    Of shape (prod(m_i), N): row numbers in C order, the last block fastest. Indices of `blocks`
    are sorted. The largest arrays hold one entry per nonzero of the result.
    """
    counts = [np.diff(block.indptr) for block in blocks]
    total = sum_of_products(counts)
    check_allocation("nonzeros of a column-wise Kronecker product", (total, 3))
    ends = np.concatenate([[0], np.cumsum(np.prod(counts, axis=0, dtype=np.int64))])
    row = np.empty(total, dtype=np.int64)
    value = np.ones(total, dtype=np.result_type(*(block.dtype for block in blocks)))
    weighted = any((block.data != 1).any() for block in blocks)
    cuts = np.searchsorted(ends, np.arange(0, total, ENTRIES)).tolist()
    for first, last in pairwise([*dict.fromkeys(cuts), len(ends) - 1]):
        band = slice(ends[first], ends[last])
        row[band], products = _band(blocks, np.arange(first, last), weighted)
        if weighted:
            value[band] = products
    n_rows = prod(int(block.shape[0]) for block in blocks)
    return sparse.csc_array((value, row, ends), shape=(n_rows, len(ends) - 1))


def _band(
    blocks: Sequence[sparse.csc_array], column: Longs, weighted: bool
) -> tuple[Longs, Numbers]:
    """Return row numbers and, where some are not one, values of columns one after the other."""
    row, value = np.zeros(len(column), dtype=np.int64), np.ones(len(column), dtype=np.int64)
    for block in blocks:
        starts = block.indptr[column]
        counts = (block.indptr[column + 1] - starts).astype(np.int64)
        entry = ranges(starts, counts)
        row = np.repeat(row * block.shape[0], counts) + block.indices[entry]
        if weighted:
            value = np.repeat(value, counts) * block.data[entry]
        column = np.repeat(column, counts)
    return row, value


def ranges(starts: Integers, counts: Integers) -> Longs:
    """Return the concatenation of ``arange(start, start + count)``."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))


def sum_of_products(counts: Sequence[Integers]) -> int:
    """Return the sum over columns of the product of counts, safe from integer overflow."""
    products = exact_products(counts)
    fits = int(products.max(initial=0)) * len(products) < 2**62
    return int((products if fits else products.astype(object)).sum())


def exact_products(counts: Sequence[Integers]) -> Integers:
    """Return the products of counts, column by column: int64, or Python's integers beyond it.

    In int64 for as many counts at a time as their largest allow.
    """
    parts, room = [np.ones(len(counts[0]), dtype=np.int64)], 2**62
    for part in counts:
        largest = max(int(part.max(initial=0)), 1)
        if largest > room:
            parts.append(np.ones(len(part), dtype=np.int64))
            room = 2**62
        parts[-1] = parts[-1] * part.astype(np.int64)
        room //= largest
    if len(parts) == 1:
        return parts[0]
    return np.asarray(prod(part.astype(object) for part in parts))


ROWS = 2**12
"""Rows that are packed at a time: they stay in the processor's cache."""

Bits = NDArray[np.uint8]
Masks = Bools


def checked_masks(masks: Sequence[Numbers]) -> list[Numbers]:
    """Return one (o, n_i) array per attribute, or refuse none, empty ones and unequal rows."""
    masks = [plain_array("masks", mask) for mask in masks]
    if not masks or any(mask.ndim != 2 or mask.shape[1] < 1 for mask in masks):
        raise ValueError("masks: expected one (o, n_i) array with n_i >= 1 per attribute.")
    if len({len(mask) for mask in masks}) != 1:
        raise ValueError(
            f"masks have {[len(mask) for mask in masks]} rows: expected one common number."
        )
    return masks


def pack(masks: Sequence[Numbers]) -> Bits:
    """Return masks of shapes (o, n_i) as one (o, ceil(sum(n_i) / 8)) array of bytes."""
    width = sum(mask.shape[1] for mask in masks)
    found = np.empty((len(masks[0]), -(-width // 8)), dtype=np.uint8)
    for start in range(0, len(found), ROWS):
        band = slice(start, start + ROWS)
        whole = np.concatenate([np.asarray(mask[band]) != 0 for mask in masks], axis=1)
        found[band] = np.packbits(whole, axis=1)
    return found


def unpack(bits: Bits, start: int, stop: int) -> Masks:
    """Return bits ``start:stop`` of every row as booleans, reading only the bytes they span."""
    first = start // 8
    window = np.unpackbits(bits[:, first : -(-stop // 8)], axis=1)
    return window[:, start - 8 * first : stop - 8 * first].view(np.bool_)


def mask_widths(masks: Sequence[Masks]) -> Longs:
    """Return how many codes every mask admits, shape (o, d)."""
    return np.stack([np.count_nonzero(mask, axis=1) for mask in masks], axis=1)


def packed_widths(bits: Bits, sizes: Sequence[int]) -> Longs:
    """Return what `mask_widths` does from packed masks, without unpacking any."""
    found = np.zeros((len(sizes), len(bits)), dtype=np.int64)
    for i, (start, size) in enumerate(zip(accumulate(sizes, initial=0), sizes, strict=False)):
        own = np.zeros(8 * bits.shape[1], dtype=bool)
        own[start : start + size] = True
        for place, filter_ in enumerate(np.packbits(own)):
            if filter_:
                found[i] += ONES[bits[:, place] & filter_]
    return found.T


ONES = np.array([number.bit_count() for number in range(256)], dtype=np.uint8)


def as_columns(mask: Masks) -> sparse.csc_array:
    """Return the transposed mask (n_i, o) in CSC form with int64 ones."""
    row, code = np.nonzero(mask)
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(mask)))])
    ones = np.ones(len(code), dtype=np.int64)
    return sparse.csc_array((ones, code, ends), shape=mask.shape[::-1])


@dataclass(frozen=True, eq=False)
class Halves:
    """Distinct rows of two halves, and every row's pair."""

    left: tuple[Masks, ...]  # the distinct masks over the attributes of this half
    right: tuple[Masks, ...]
    left_index: Longs  # (o,)
    right_index: Longs

    @classmethod
    def of(cls, masks: Sequence[Masks]) -> "Halves":
        """Split the attributes so that both halves have about as many cells."""
        sizes = np.cumsum(np.log([mask.shape[1] for mask in masks]))
        cut = int(np.argmin(np.abs(sizes - sizes[-1] / 2))) + 1
        left, left_index = distinct_rows(masks[:cut])
        if cut == len(masks):
            return cls(left, (), left_index, np.zeros_like(left_index))
        right, right_index = distinct_rows(masks[cut:])
        return cls(left, right, left_index, right_index)

    @property
    def cells(self) -> tuple[int, int]:
        return (
            prod(mask.shape[1] for mask in self.left),
            prod(mask.shape[1] for mask in self.right),
        )

    @property
    def distinct_rows(self) -> tuple[int, int]:
        return len(self.left[0]), len(self.right[0]) if self.right else 1

    @property
    def work(self) -> int:
        (n_left, n_right), (rows, _) = self.cells, self.distinct_rows
        return n_left * n_right * rows + len(self.left_index) * max(n_left, n_right)

    def matmat(self, block: Array) -> Array:
        """Return ``A @ block`` for an (n, j) array, one column at a time."""
        n_left, n_right = self.cells
        left, right = joint_rows(self.left), joint_rows(self.right)
        check_allocation("distinct half rows times half cells", (left.shape[0], n_right))
        result = np.empty((len(self.left_index), block.shape[1]))
        for j, column in enumerate(block.T):
            inner = left @ column.reshape(n_left, n_right)
            result[:, j] = self._gather(inner, right)
        return result

    def _gather(self, inner: Array, right: sparse.csr_array) -> Array:
        """Return the sum over the right half's cells of ``inner[left_r] * R[right_r]``."""
        o, width = len(self.left_index), max(inner.shape[1], 1)
        if inner.shape[0] * right.shape[0] <= max(8 * o, 2**22):
            return np.asarray((right @ inner.T)[self.right_index, self.left_index])
        step = max(1, 2**24 // width)
        parts = []
        for start in range(0, o, step):
            rows = right[self.right_index[start : start + step]]
            parts.append(rows.multiply(inner[self.left_index[start : start + step]]).sum(axis=1))
        return np.concatenate(parts)

    def rmatmat(self, block: Array) -> Array:
        """Return ``A.T @ block`` for an (o, j) array, one column at a time."""
        n_left, n_right = self.cells
        check_allocation("cells times columns", (n_left * n_right, block.shape[1]))
        left, right = joint_rows(self.left), joint_rows(self.right)
        check_allocation("distinct half rows times half cells", (left.shape[0], n_right))
        result = np.empty((n_left * n_right, block.shape[1]))
        shape = self.distinct_rows
        for j, column in enumerate(block.T):
            pairs = sparse.csr_array((column, (self.left_index, self.right_index)), shape=shape)
            result[:, j] = (left.T @ (pairs @ right).toarray()).ravel()
        return result


def distinct_rows(masks: Sequence[Masks]) -> tuple[tuple[Masks, ...], Longs]:
    """Return the distinct rows of some attributes' masks, and every row's number among them."""
    first, index = unique_rows(pack(masks))
    return tuple(mask[first] for mask in masks), index


def joint_rows(masks: Sequence[Masks]) -> sparse.csr_array:
    """Return the explicit rows over a half, in CSR form of floats."""
    if not masks:
        return sparse.csr_array(np.ones((1, 1)))
    form = khatri_rao([as_columns(mask) for mask in masks])
    return sparse.csr_array(form.T.astype(np.float64))
