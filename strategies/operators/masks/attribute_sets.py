"""Sets as rows of a table: which are distinct, and which lie in which others."""

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Bools, Longs, Numbers
from strategies.operators.base.memory import check_allocation

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


def combinations(table: Numbers) -> tuple[Longs, Longs]:
    """Return what `unique_rows` does, in another order: column by column.

    Faster than comparing whole rows where columns hold few different values.
    """
    first, number = np.arange(min(len(table), 1)), np.zeros(len(table), dtype=np.int64)
    for column in table.T:
        values, codes = np.unique(column, return_inverse=True)
        keys = number * len(values) + codes.ravel()
        _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return first, number.ravel()


def members(number: Longs) -> list[Longs]:
    """Return the rows of every number from 0 on, each in order."""
    if not len(number):
        return []
    order = np.argsort(number, kind="stable")
    return np.split(order, np.cumsum(np.bincount(number))[:-1])


def contained(inner: Bools, outer: Bools) -> sparse.csc_array:
    """Return which sets of one table (u, d) lie in which of another (K, d), as ones (u, K).

    By the attributes that two sets have in common where most pairs have none; else by a product of
    float32 matrices, of shape (u, K).

    >>> sets = np.array([[True, False], [True, True]])
    >>> contained(sets, sets).toarray()
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
