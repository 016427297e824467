"""Columns of rows of masks: the packed sets of rows that hold each code, met."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Bools, Integers, Longs
from strategies.operators.masks.attribute_sets import members
from strategies.operators.masks.packed_masks import Bits, Masks, as_columns

COLUMN_BITS = 2**26  # entries of the row-by-cell table that are unpacked at a time
BLOCK_BITS = 2**25  # bits of one group's rows by cells that are unpacked at a time


def columns_by_group(masks: Sequence[Masks], groups: Longs, codes: Integers) -> sparse.csr_array:
    """Return the columns of rows that are pairwise disjoint within their groups.

    Of every group only the attributes that some row of it constrains are looked at, and only its
    own rows are met: a leaf of depth h costs h bits a cell, whatever the domain and the forest.

    `masks`: (o, n_i), one for each attribute; `groups`: (o,), the group of every row; `codes`: (N,
    d), codes of the cells.

    Of shape (o, N), of int64 ones, at most one a group in each column.
    """
    free = np.stack([mask.all(axis=1) for mask in masks], axis=1)
    found = [_members(masks, free, rows, codes) for rows in members(groups)]
    rows = np.concatenate([rows for rows, _ in found] or [np.zeros(0, np.int64)])
    cells = np.concatenate([cells for _, cells in found] or [np.zeros(0, np.int64)])
    ones = np.ones(len(rows), dtype=np.int64)
    return sparse.csr_array((ones, (rows, cells)), shape=(len(groups), len(codes)))


def _members(
    masks: Sequence[Masks], free: Bools, rows: Longs, codes: Integers
) -> tuple[Longs, Longs]:
    """Return the rows of one group that hold a cell, and the cells they hold."""
    if not len(rows):
        return rows, rows
    telling = np.flatnonzero(~free[rows].all(axis=0)).tolist()
    tables: list[Bits] = [np.packbits(masks[i][rows], axis=0).T for i in telling]
    step = max(1, BLOCK_BITS // len(rows))
    held, cells = [], []
    for start in range(0, len(codes), step):
        block = codes[start : start + step]
        row, cell = _meet(tables, block[:, telling])
        held.append(rows[row])
        cells.append(cell + start)
    empty = [np.zeros(0, np.int64)]
    return np.concatenate(held or empty), np.concatenate(cells or empty)


def _meet(tables: list[Bits], codes: Integers) -> tuple[Longs, Longs]:
    """Return the only row of every cell that has one, and these cells."""
    if not tables:  # one row, which holds every cell
        return np.zeros(len(codes), np.int64), np.arange(len(codes))
    meet = tables[0][codes[:, 0]]
    for table, column in zip(tables[1:], codes.T[1:], strict=True):
        meet &= table[column]
    byte = (meet != 0).argmax(axis=1)
    bits = np.unpackbits(meet[np.arange(len(meet)), byte][:, None], axis=1)
    cells = np.flatnonzero(bits.any(axis=1))
    row = byte[cells] * 8 + bits[cells].argmax(axis=1)
    return row.astype(np.int64), cells.astype(np.int64)


def met_columns(masks: Sequence[Masks], codes: Integers) -> sparse.csr_array:
    """Return the columns of rows at the cells given by codes.

    `masks`: (o, n_i), one for each attribute; `codes`: (N, d), codes of the cells.

    Of shape (o, N), of int64 ones.
    """
    n_rows = len(masks[0])
    tables = [np.packbits(mask, axis=0).T for mask in masks]
    step = max(1, COLUMN_BITS // max(n_rows, 1))
    starts = range(0, len(codes), step)
    parts = [_all_met(tables, codes[start : start + step], n_rows) for start in starts]
    empty = sparse.csc_array((n_rows, 0), dtype=np.int64)
    return sparse.csr_array(sparse.hstack(parts or [empty], format="csr"))


def _all_met(tables: list[Bits], codes: Integers, n_rows: int) -> sparse.csc_array:
    """Meet, attribute by attribute, the packed sets of rows that hold each code."""
    meet = tables[0][codes[:, 0]]
    for table, column in zip(tables[1:], codes.T[1:], strict=True):
        meet &= table[column]
    hits = np.unpackbits(meet, axis=1, count=n_rows)
    return as_columns(hits.view(np.bool_))
