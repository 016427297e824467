"""Counts by key: (cell, class) pairs as numbers, sorted, and merged by sorting.

A domain whose (cell, class) pairs fit 62 bits has one number a pair, a larger one several: *words*
of as many attributes as fit. Sorting by all words is sorting the pairs in C order.
"""

from collections.abc import Sequence
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Codes, Longs

Integer = TypeVar("Integer", np.int32, np.int64)
Columns = Sequence[AnyInts]
Keyed = tuple[Longs, Longs]
"""Keys of shape (w, m), distinct and sorted, and how many records have each, shape (m,)."""

WORD = 2**62


def word_groups(sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the positions that each word holds, as many in a row as fit.

    >>> word_groups([2**40, 2**20, 2**30, 3])
    ((0, 1), (2, 3))
    """
    groups: list[tuple[int, ...]] = []
    for position, size in enumerate(sizes):
        if groups and prod(sizes[i] for i in groups[-1]) * size <= WORD:
            groups[-1] = (*groups[-1], position)
        else:
            groups.append((position,))
    return tuple(groups)


def keys_of(columns: Columns, sizes: Sequence[int], dtype: type[Integer]) -> NDArray[Integer]:
    """Return the numbers of cells in C order, shape (N,), by Horner's rule in place.

    The largest array is the result.
    """
    keys = columns[0].astype(dtype)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        keys *= size
        np.add(keys, column, out=keys, casting="unsafe")
    return keys


def codes_of(keys: Longs, sizes: Sequence[int]) -> Codes:
    """Return the codes that keys were made of, shape (m, len(sizes))."""
    return np.stack(np.unravel_index(keys, tuple(sizes)), axis=1).astype(np.int32)


def no_counts(n_words: int) -> Keyed:
    """Return the counts of no record."""
    return np.empty((n_words, 0), dtype=np.int64), np.empty(0, dtype=np.int64)


def counted_keys(keys: Longs, weights: Longs | None = None) -> Keyed:
    """Return distinct keys, sorted, and the sums of their weights (1 each where none are given).

    `keys` (w, m); `weights` (m,).
    """
    if len(keys) == 1 and weights is None:
        ordered = np.sort(keys, axis=1)
    else:
        order = np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1])
        ordered = keys[:, order]
        weights = None if weights is None else weights[order]
    if not ordered.shape[1]:
        return no_counts(len(keys))
    new = np.ones(ordered.shape[1], dtype=bool)
    new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    starts = np.flatnonzero(new)
    if weights is None:
        sums = np.diff(starts, append=ordered.shape[1])
    else:
        sums = np.add.reduceat(weights, starts)
    return np.ascontiguousarray(ordered[:, starts]), sums


def merged_keys(parts: Sequence[Keyed]) -> Keyed:
    """Return the sum of counts by key."""
    if len(parts) == 1:
        return parts[0]
    keys = np.concatenate([part[0] for part in parts], axis=1)
    return counted_keys(keys, np.concatenate([part[1] for part in parts]))
