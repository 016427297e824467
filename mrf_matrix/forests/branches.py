"""The pool of branch tables: one window of the pool serves every node that branches alike.

A node's branch table says, for each code of the node's attribute, which child a record follows.
Writing one table a node would cost (nodes x codes); but tables repeat, and most of them are
windows of a few fixed runs. With w the largest attribute size, ::

    zeros (w) | ones (w) | 0 1 2 ... w-1

holds the leaf's table (window at 0), every threshold "codes below c go left" of every attribute
(window at w - c), and every multi-way split (window at 2 w): 3 w numbers, whatever the number of
nodes and however fine the codes. Only category subsets need tables of their own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Ints

LEAF_PATTERN = 0
"""Where a leaf's run of zeros starts in `branch_pool`."""


def branch_pool(sizes: Sequence[int]) -> Ints:
    """Return the pool that serves leaves, thresholds and multi-way splits over these sizes.

    Parameters
    ----------
    sizes : sequence of int
        The attributes' sizes.

    Returns
    -------
    ndarray of shape (3 * max(sizes),)

    Examples
    --------
    >>> branch_pool([2, 3])
    array([0, 0, 0, 1, 1, 1, 0, 1, 2], dtype=int32)
    """
    width = max(sizes)
    halves = np.repeat(np.array([0, 1], dtype=np.int32), width)
    return np.concatenate([halves, np.arange(width, dtype=np.int32)])


def multiway_pattern(sizes: Sequence[int]) -> int:
    """Return where the table "every code its own branch" starts in `branch_pool`."""
    return 2 * max(sizes)


def threshold_pattern(sizes: Sequence[int], threshold: NDArray[np.integer[Any]]) -> Ints:
    """Return where the tables "codes below `threshold` go left" start in `branch_pool`.

    Parameters
    ----------
    sizes : sequence of int
        The attributes' sizes.
    threshold : ndarray of int
        First code of the right branch, from 1 to (attribute size - 1) so that neither branch is
        empty.

    Examples
    --------
    >>> pool = branch_pool([2, 4])
    >>> start = int(threshold_pattern([2, 4], np.array(3)))
    >>> pool[start : start + 4]
    array([0, 0, 0, 1], dtype=int32)
    """
    return np.asarray(max(sizes) - np.asarray(threshold), dtype=np.int32)


def subset_patterns(
    pool: Ints, tables: Sequence[NDArray[np.integer[Any]]]
) -> tuple[Ints, NDArray[np.int64]]:
    """Append tables of arbitrary branch numbers to a pool, equal tables once.

    Parameters
    ----------
    pool : ndarray
        The pool to extend, usually `branch_pool(sizes)`.
    tables : sequence of ndarray
        For each node its branch number per code: 0/1 for a category subset, or 0..b-1.

    Returns
    -------
    pool : ndarray
        The extended pool.
    starts : ndarray of shape (len(tables),)
        Where each table starts in it.

    Examples
    --------
    >>> pool, starts = subset_patterns(branch_pool([3]), [np.array([1, 0, 1])] * 2)
    >>> starts
    array([9, 9])
    >>> pool[9:]
    array([1, 0, 1], dtype=int32)
    """
    parts: list[Ints] = [pool]
    found: dict[bytes, int] = {}
    starts = np.empty(len(tables), dtype=np.int64)
    end = len(pool)
    for index, table in enumerate(tables):
        row = np.ascontiguousarray(table, dtype=np.int32)
        key = row.tobytes()
        if key not in found:
            found[key] = end
            parts.append(row)
            end += len(row)
        starts[index] = found[key]
    return np.concatenate(parts), starts
