"""What makes parallel arrays a forest whose every tree partitions the domain.

A node's branch table covers every code of its attribute and names dense branches 0..b-1, so its
children split its cells; if moreover every node is a root or the child of exactly one node, and
can be reached from a root, then each tree's leaves partition the domain. All checks are
vectorised over nodes: O(nodes + pool) memory, a few milliseconds for 25 000 nodes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Ints, Longs
from mrf_matrix.forests.arrays import concatenated_ranges


class ForestError(ValueError):
    """The arrays do not describe trees that partition the domain."""


def check_shapes(
    n_attributes: int,
    roots: Ints,
    attribute: Ints,
    first_child: Ints,
    pattern: Ints,
    branches: Ints,
) -> None:
    """Check lengths and ranges of the arrays, and that there is at least one tree."""
    nodes = len(attribute)
    if not len(roots):
        raise ForestError("roots is empty: a forest needs at least one tree.")
    for name, array in (("first_child", first_child), ("pattern", pattern)):
        if len(array) != nodes:
            raise ForestError(
                f"{name} has {len(array)} entries: expected {nodes}, one a node, like attribute."
            )
    _check_range("roots", roots, 0, nodes, "a node number")
    _check_range("attribute", attribute, -1, n_attributes, "an attribute's index, -1 at leaves")
    _check_range("first_child", first_child, 0, nodes, "a node number")
    _check_range("pattern", pattern, 0, len(branches), "a start into branches")
    _check_range("branches", branches, 0, 2**31, "a branch number")
    if len(np.unique(roots)) < len(roots):
        raise ForestError("roots names a node twice: every tree needs a root of its own.")
    leaf = attribute < 0
    wrong = np.flatnonzero(leaf & (first_child != np.arange(nodes)))
    if len(wrong):
        raise ForestError(
            f"first_child of leaf {wrong[0]} is {first_child[wrong[0]]}: expected the leaf's own "
            f"number, so that routing stops there."
        )


def _check_range(name: str, array: Ints, low: int, high: int, what: str) -> None:
    outside = np.flatnonzero((array < low) | (array >= high))
    if len(outside):
        where = int(outside[0])
        raise ForestError(
            f"{name}[{where}] is {array[where]}: expected {what}, from {low} to {high - 1}."
        )


def count_children(sizes: Sequence[int], attribute: Ints, pattern: Ints, branches: Ints) -> Longs:
    """Return each node's number of children, 0 at leaves, and check its branch table.

    The table of an inner node must lie within the pool and hold the dense numbers 0..b-1; that
    of a leaf must be zeros for the largest attribute, so that routing needs no mask. Windows
    that rise in steps of at most one (thresholds, multi-way splits, leaves) are judged by two
    differences of a running count; only the others are read in full.
    """
    width = np.asarray(sizes, dtype=np.int64)
    length = np.where(attribute < 0, width.max(), width[attribute])
    end = pattern + length
    beyond = np.flatnonzero(end > len(branches))
    if len(beyond):
        node = int(beyond[0])
        raise ForestError(
            f"pattern[{node}] is {pattern[node]}: the node's {length[node]} codes reach beyond "
            f"the {len(branches)} entries of branches."
        )
    rising = rising_windows(branches, pattern, end)
    n_branches = np.where(rising, branches[end - 1].astype(np.int64) + 1, 0)
    wrong = np.flatnonzero((attribute < 0) & (n_branches != 1))
    if len(wrong):
        raise ForestError(
            f"pattern of leaf {wrong[0]} points at branches other than 0: expected a run of "
            f"{width.max()} zeros."
        )
    other = np.flatnonzero(~rising)
    if len(other):
        n_branches[other] = _count_dense(pattern[other], length[other], branches, other)
    single = np.flatnonzero((attribute >= 0) & (n_branches == 1))
    if len(single):
        raise ForestError(
            f"node {single[0]} has one branch only: expected at least two; make it a leaf."
        )
    n_branches[attribute < 0] = 0
    return n_branches


def rising_windows(
    branches: Ints, start: NDArray[np.integer[Any]], end: NDArray[np.integer[Any]]
) -> NDArray[np.bool_]:
    """Tell which windows of the pool start at 0 and rise in steps of at most one.

    Examples
    --------
    >>> pool = np.array([0, 0, 1, 1, 0, 1, 2], dtype=np.int32)
    >>> rising_windows(pool, np.array([0, 4, 2]), np.array([4, 7, 5]))
    array([ True,  True, False])
    """
    step = np.diff(branches, prepend=branches[:1])
    jumps = np.cumsum((step < 0) | (step > 1))
    rising: NDArray[np.bool_] = (branches[start] == 0) & (jumps[end - 1] == jumps[start])
    return rising


def _count_dense(pattern: Ints, length: Longs, branches: Ints, nodes: Longs) -> Longs:
    """Count the branches in windows of any order, each distinct window once."""
    windows, back = np.unique(np.stack([pattern, length]), axis=1, return_inverse=True)
    starts, lengths = windows
    values = branches[concatenated_ranges(starts, lengths)].astype(np.int64)
    highest = np.maximum.reduceat(values, np.cumsum(lengths) - lengths) + 1
    owner = np.repeat(np.arange(len(starts)), lengths)
    distinct = np.unique(owner * (int(values.max()) + 1) + values) // (int(values.max()) + 1)
    present = np.bincount(distinct, minlength=len(starts))
    gap = np.flatnonzero((present != highest)[back])
    if len(gap):
        raise ForestError(
            f"node {nodes[gap[0]]} has an empty branch: its branch numbers must be 0, 1, ... "
            f"without a gap."
        )
    return np.asarray(highest[back], dtype=np.int64)


def check_parentage(roots: Ints, first_child: Ints, n_children: Longs) -> None:
    """Check that every node is a root or the child of exactly one node."""
    nodes = len(first_child)
    inner = np.flatnonzero(n_children)
    beyond = inner[first_child[inner] + n_children[inner] > nodes]
    if len(beyond):
        node = int(beyond[0])
        raise ForestError(
            f"first_child[{node}] is {first_child[node]}: {n_children[node]} children do not fit "
            f"within {nodes} nodes."
        )
    children = concatenated_ranges(first_child[inner], n_children[inner])
    expected = np.ones(nodes, dtype=np.int64)
    expected[roots] = 0
    wrong = np.flatnonzero(np.bincount(children, minlength=nodes) != expected)
    if len(wrong):
        node = int(wrong[0])
        raise ForestError(
            f"node {node} is the child of {np.count_nonzero(children == node)} nodes: expected "
            f"{expected[node]} ({'a root' if expected[node] == 0 else 'no root'})."
        )


def check_all_reached(nodes: Sequence[Longs], n_nodes: int) -> None:
    """Check that the levels hold every node: what has one parent but no root is a cycle."""
    reached = sum(len(level) for level in nodes)
    if reached != n_nodes:
        raise ForestError(
            f"{n_nodes - reached} nodes cannot be reached from any root: first_child has a cycle."
        )
