"""What follows from a forest's arrays: children, levels, trees and the numbering of leaves.

Plain functions over the parallel arrays, each a fixed number of NumPy calls per level.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Ints, Longs


def concatenated_ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> Longs:
    """Return ``starts[0], starts[0]+1, ... (lengths[0] of them), starts[1], ...`` in one array.

    Examples
    --------
    >>> concatenated_ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.asarray(starts, dtype=np.int64) - (ends - lengths)
    ranges: Longs = np.arange(total, dtype=np.int64) + np.repeat(shift, lengths)
    return ranges


def levels(roots: Ints, first_child: Ints, n_children: Longs) -> list[Longs]:
    """Return the nodes of every level, roots first, siblings left to right.

    Every node that can be reached from the roots appears exactly once when the arrays are a
    forest. Node numbers: the sum over levels is the number of nodes.
    """
    found = []
    level = roots.astype(np.int64)
    while level.size:
        found.append(level)
        inner = level[n_children[level] > 0]
        level = concatenated_ranges(first_child[inner], n_children[inner])
    return found


def parents(first_child: Ints, n_children: Longs) -> Ints:
    """Return each node's parent, -1 for roots."""
    inner = np.flatnonzero(n_children)
    result = np.full(len(first_child), -1, dtype=np.int32)
    children = concatenated_ranges(first_child[inner], n_children[inner])
    result[children] = np.repeat(inner, n_children[inner])
    return result


def leaf_numbers(nodes: Sequence[Longs], first_child: Ints, n_children: Longs) -> Ints:
    """Return the number of each leaf, tree by tree and left to right; -1 at inner nodes.

    Bottom-up the leaves below each node are counted, top-down each child starts where its left
    sibling ends.
    """
    below = (n_children == 0).astype(np.int64)
    for level in reversed(nodes[:-1]):
        inner = level[n_children[level] > 0]
        children = concatenated_ranges(first_child[inner], n_children[inner])
        begin = np.cumsum(n_children[inner]) - n_children[inner]
        below[inner] = np.add.reduceat(below[children], begin) if len(inner) else 0
    start = np.zeros(len(first_child), dtype=np.int64)
    start[nodes[0]] = np.cumsum(below[nodes[0]]) - below[nodes[0]]
    for level in nodes[:-1]:
        inner = level[n_children[level] > 0]
        children = concatenated_ranges(first_child[inner], n_children[inner])
        running = np.cumsum(below[children]) - below[children]
        begin = np.cumsum(n_children[inner]) - n_children[inner]
        offset = start[inner] - running[begin]
        start[children] = running + np.repeat(offset, n_children[inner])
    return np.where(n_children == 0, start, -1).astype(np.int32)


def handed_down(
    nodes: Sequence[Longs], first_child: Ints, n_children: Longs, roots_value: NDArray[Any]
) -> Ints:
    """Return a value of each root at every node below it."""
    value = np.empty(len(first_child), dtype=np.int32)
    value[nodes[0]] = roots_value
    for level in nodes[:-1]:
        inner = level[n_children[level] > 0]
        children = concatenated_ranges(first_child[inner], n_children[inner])
        value[children] = np.repeat(value[inner], n_children[inner])
    return value
