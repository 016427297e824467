"""The distinct rows of a table, and which of them each row is."""

import numpy as np

from strategies.operators.base.arrays import Longs, Numbers


def unique_rows(table: Numbers) -> tuple[Longs, Longs]:
    """Return (first index of each distinct row, number of every row's distinct row)."""
    flat = np.ascontiguousarray(
        np.packbits(table.astype(np.bool_, copy=False), axis=1) if table.dtype == bool else table
    )
    if flat.shape[1] == 0:
        return np.zeros(min(len(flat), 1), np.int64), np.zeros(len(flat), np.int64)
    keys = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), inverse.ravel().astype(np.int64)


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
