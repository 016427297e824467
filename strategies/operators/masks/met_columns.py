"""Columns of rows that may overlap: the packed sets of rows that hold each code, met."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Integers
from strategies.operators.masks.packed_masks import Bits, Masks, as_columns

COLUMN_BITS = 2**26
"""Entries of the row-by-cell table that are unpacked at a time."""


def met_columns(masks: Sequence[Masks], codes: Integers) -> sparse.csr_array:
    """Return the columns of rows at the cells given by codes.

    Parameters
    ----------
    masks : sequence of ndarray of shape (o, n_i)
        One for each attribute.
    codes : ndarray of int, shape (N, d)
        Codes of the cells.

    Returns
    -------
    csr_array of shape (o, N)
        Of int64 ones.
    """
    n_rows = len(masks[0])
    tables = [np.packbits(mask, axis=0).T for mask in masks]
    step = max(1, COLUMN_BITS // max(n_rows, 1))
    starts = range(0, len(codes), step)
    parts = [_meet(tables, codes[start : start + step], n_rows) for start in starts]
    empty = sparse.csc_array((n_rows, 0), dtype=np.int64)
    return sparse.csr_array(sparse.hstack(parts or [empty], format="csr"))


def _meet(tables: list[Bits], codes: Integers, n_rows: int) -> sparse.csc_array:
    """Meet, attribute by attribute, the packed sets of rows that hold each code."""
    meet = tables[0][codes[:, 0]]
    for table, column in zip(tables[1:], codes.T[1:], strict=True):
        meet &= table[column]
    hits = np.unpackbits(meet, axis=1, count=n_rows)
    return as_columns(hits.view(np.bool_))
