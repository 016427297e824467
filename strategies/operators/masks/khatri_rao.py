"""Column-wise Kronecker products of sparse matrices."""

from collections.abc import Sequence
from math import prod

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Integers, Longs
from strategies.operators.base.memory import check_allocation


def khatri_rao(blocks: Sequence[sparse.csc_array]) -> sparse.csc_array:
    """Return the matrix whose column j is the Kronecker product of the blocks' columns j.

    Parameters
    ----------
    blocks : sequence of csc_array of shapes (m_i, N)
        With sorted indices.

    Returns
    -------
    csc_array of shape (prod(m_i), N)
        Row numbers in C order, the last block fastest. The largest arrays hold one entry per
        nonzero of the result.

    Raises
    ------
    MemoryCapError
        If the nonzeros do not fit the memory cap.
    """
    n_columns = blocks[0].shape[1]
    total = sum_of_products([np.diff(block.indptr) for block in blocks])
    check_allocation("nonzeros of a column-wise Kronecker product", (total, 3))
    column = np.arange(n_columns)
    row = np.zeros(n_columns, dtype=np.int64)
    value = np.ones(n_columns, dtype=np.result_type(*(block.dtype for block in blocks)))
    for block in blocks:
        counts = np.diff(block.indptr)[column]
        entry = ranges(block.indptr[:-1][column], counts)
        row = np.repeat(row, counts) * block.shape[0] + block.indices[entry]
        value = np.repeat(value, counts) * block.data[entry]
        column = np.repeat(column, counts)
    ends = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=n_columns))])
    n_rows = prod(int(block.shape[0]) for block in blocks)
    return sparse.csc_array((value, row, ends), shape=(n_rows, n_columns))


def ranges(starts: Integers, counts: Integers) -> Longs:
    """Return the concatenation of ``arange(start, start + count)``."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))


def sum_of_products(counts: Sequence[Integers]) -> int:
    """Return the sum over columns of the product of counts, safe from integer overflow."""
    logs = sum(np.log2(np.maximum(part, 1)) for part in counts)
    if np.max(logs, initial=0.0) + np.log2(max(len(counts[0]), 1)) < 62:
        return int(np.prod([part.astype(np.int64) for part in counts], axis=0).sum())
    return int(np.prod([part.astype(object) for part in counts], axis=0).sum())
