"""Column-wise Kronecker products of sparse matrices."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Integers, Longs, Numbers
from strategies.operators.base.memory import check_allocation

BAND = 2**15
"""Entries that are laid out at a time: a few arrays of them stay in the processor's cache."""


def khatri_rao(blocks: Sequence[sparse.csc_array]) -> sparse.csc_array:
    """Return the matrix whose column j is the Kronecker product of the blocks' columns j.

    `blocks`: with sorted indices.

    Of shape (prod(m_i), N): row numbers in C order, the last block fastest. The largest arrays
    hold one entry per nonzero of the result.

    Raises MemoryCapError if the nonzeros do not fit the memory cap.
    """
    counts = [np.diff(block.indptr) for block in blocks]
    total = sum_of_products(counts)
    check_allocation("nonzeros of a column-wise Kronecker product", (total, 3))
    ends = np.concatenate([[0], np.cumsum(np.prod(counts, axis=0, dtype=np.int64))])
    row = np.empty(total, dtype=np.int64)
    value = np.ones(total, dtype=np.result_type(*(block.dtype for block in blocks)))
    weighted = any((block.data != 1).any() for block in blocks)
    cuts = np.searchsorted(ends, np.arange(0, total, BAND)).tolist()
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
