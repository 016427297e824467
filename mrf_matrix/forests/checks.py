"""What makes parallel arrays a forest whose every tree partitions the domain.

A node's branch table covers every code of its attribute and names dense branches 0..b-1, so its
children split its cells; if moreover every node is a root or the child of exactly one node, and
can be reached from a root, then each tree's leaves partition the domain. All checks are
vectorised over nodes: O(nodes + pool) memory, a few milliseconds for 25 000 nodes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.forests.arrays import Ints, Longs, concatenated_ranges

if TYPE_CHECKING:
    from mrf_matrix.forests.forest import Forest

_CHUNK = 1 << 24  # codes looked at together by check_every_branch_is_reached: 16 MiB of masks


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
    step = np.diff(branches, prepend=branches[:1])
    jumps = np.cumsum((step < 0) | (step > 1))
    rising = (branches[pattern] == 0) & (jumps[end - 1] == jumps[pattern])
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


def check_every_branch_is_reached(forest: "Forest") -> None:
    """Check that every leaf holds a cell, where an attribute is used again on a path.

    A node whose attribute was not used above it sees all its codes. Any other sees the codes
    that its nearest ancestor on that attribute sent its way, and each of its branches must hold
    one of them. The masks of codes cost the sum over inner nodes of the attribute's size in
    bytes, so trees are taken in chunks of `_CHUNK` bytes.
    """
    above, edge = _nearest_same_attribute(forest)
    again = above >= 0
    if not again.any():
        return
    width = np.asarray(forest.domain.sizes, dtype=np.int64)
    # Only nodes that repeat an attribute, or are repeated below, need a mask of their codes.
    again[above[again]] = True
    length = np.where(again, width[forest.attribute], 0)
    each = np.bincount(forest.tree, weights=length, minlength=forest.n_trees)
    group = (np.cumsum(each) // _CHUNK)[forest.tree]
    for number in np.unique(group):
        chosen = [level[again[level] & (group[level] == number)] for level in forest.levels]
        _check_chunk(forest, chosen, length, above, edge)


def _nearest_same_attribute(forest: "Forest") -> tuple[Longs, Longs]:
    """Return each inner node's nearest ancestor on its attribute (-1: none) and the branch to it.

    All nodes climb together, one level a step; those that arrive leave the climb.
    """
    attribute, parent = forest.attribute, forest.parent
    above = np.full(forest.n_nodes, -1, dtype=np.int64)
    edge = np.zeros(forest.n_nodes, dtype=np.int64)
    climbing = np.flatnonzero((attribute >= 0) & (parent >= 0))
    at = climbing
    while len(climbing):
        came_from, at = at, parent[at].astype(np.int64)
        here = attribute[at] == attribute[climbing]
        above[climbing[here]] = at[here]
        edge[climbing[here]] = came_from[here] - forest.first_child[at[here]]
        onward = ~here & (parent[at] >= 0)
        climbing, at = climbing[onward], at[onward]
    return above, edge


def _check_chunk(
    forest: "Forest", nodes: list[Longs], length: Longs, above: Longs, edge: Longs
) -> None:
    """Carry the masks of reachable codes down one group of trees and count reached branches."""
    pattern, branches, n_children = forest.pattern, forest.branches, forest.n_children
    members = np.concatenate(nodes)
    start = np.zeros(forest.n_nodes, dtype=np.int64)
    start[members] = np.cumsum(length[members]) - length[members]
    seen = np.ones(int(length[members].sum()), dtype=np.bool_)
    for level in nodes:
        again = level[above[level] >= 0]
        up, n = above[again], length[again]
        sent = branches[concatenated_ranges(pattern[up], n)]
        mask = seen[concatenated_ranges(start[up], n)] & (sent == np.repeat(edge[again], n))
        seen[concatenated_ranges(start[again], n)] = mask
        mine = branches[concatenated_ranges(pattern[again], n)]
        slot = np.cumsum(n_children[again]) - n_children[again]
        hit = (np.repeat(slot, n) + mine)[mask]
        counts = np.bincount(hit, minlength=int(n_children[again].sum()))
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            node = again[np.searchsorted(slot, empty[0], side="right") - 1]
            raise ForestError(
                f"node {node} has a branch that no cell reaches, because its attribute was "
                f"already split above it: drop the branch, or pass allow_empty=True."
            )
