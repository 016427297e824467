"""The nodes of a forest as five parallel arrays: branch tables, checks, and the codes of leaves.

A node's branch table says, for each code of the node's attribute, which child a record follows.
Writing one table a node would cost (nodes x codes). But most tables are windows of a few fixed
runs. With w the largest attribute size, ::

    zeros (w) | ones (w) | 0 1 2 ... w-1

holds the leaf's table (window at 0), every threshold "codes below c go left" of every attribute
(window at w - c), and every multi-way split (window at 2 w): 3 w numbers, whatever the number of
nodes and however fine the codes. Only category subsets need tables of their own.

Checks are vectorised over nodes: O(nodes + pool) memory, a few milliseconds for 25 000 nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Bools, Ints, Longs
from mrf_matrix.domain import Domain

ARRAYS = ("roots", "attribute", "first_child", "pattern", "branches")


class ForestError(ValueError):
    """The arrays do not describe trees that partition the domain."""


@dataclass(frozen=True, eq=False, repr=False)
class Nodes:
    """The arrays of a `Forest`, which says what they mean; derived ones are made on first use.

    Functions over trees (masks, routing, drawing, checks) take these, so that the forest may
    call them.
    """

    domain: Domain
    roots: Ints
    attribute: Ints
    first_child: Ints
    pattern: Ints
    branches: Ints

    @cached_property
    def n_children(self) -> Longs:
        """Number of children of each node, 0 at leaves."""
        return count_children(self.domain.sizes, self.attribute, self.pattern, self.branches)

    @cached_property
    def levels(self) -> tuple[Longs, ...]:
        """Nodes of every level of all trees, roots first, siblings left to right."""
        found, level = [], self.roots.astype(np.int64)
        while level.size:
            found.append(level)
            level = self._children(self._inner(level))
        return tuple(found)

    @cached_property
    def parent(self) -> Ints:
        """Parent of each node, -1 at roots."""
        inner = np.flatnonzero(self.n_children)
        result = np.full(self.n_nodes, -1, dtype=np.int32)
        result[self._children(inner)] = np.repeat(inner, self.n_children[inner])
        return result

    @cached_property
    def depth(self) -> Ints:
        """Number of splits above each node."""
        depth = np.empty(self.n_nodes, dtype=np.int32)
        for number, level in enumerate(self.levels):
            depth[level] = number
        return depth

    @cached_property
    def tree(self) -> Ints:
        """Tree that each node belongs to."""
        tree = np.empty(self.n_nodes, dtype=np.int32)
        tree[self.roots] = np.arange(self.n_trees)
        for level in self.levels[:-1]:
            inner = self._inner(level)
            tree[self._children(inner)] = np.repeat(tree[inner], self.n_children[inner])
        return tree

    @cached_property
    def leaf_index(self) -> Ints:
        """Number of each leaf, tree by tree and left to right; -1 at inner nodes.

        Bottom-up the leaves below each node are counted, top-down each child starts where its left
        sibling ends.
        """
        below = (self.n_children == 0).astype(np.int64)
        for level in reversed(self.levels[:-1]):
            inner = self._inner(level)
            begin = np.cumsum(self.n_children[inner]) - self.n_children[inner]
            children = below[self._children(inner)]
            below[inner] = np.add.reduceat(children, begin) if len(inner) else 0
        start = np.zeros(self.n_nodes, dtype=np.int64)
        start[self.roots] = np.cumsum(below[self.roots]) - below[self.roots]
        for level in self.levels[:-1]:
            inner = self._inner(level)
            children, fan = self._children(inner), self.n_children[inner]
            running = np.cumsum(below[children]) - below[children]
            offset = start[inner] - running[np.cumsum(fan) - fan]
            start[children] = running + np.repeat(offset, fan)
        return np.where(self.n_children == 0, start, -1).astype(np.int32)

    @cached_property
    def leaves(self) -> Ints:
        """Node of each leaf, tree by tree and left to right."""
        nodes = np.flatnonzero(self.attribute < 0).astype(np.int32)
        leaves = np.empty_like(nodes)
        leaves[self.leaf_index[nodes]] = nodes
        return leaves

    @cached_property
    def leaf_tree(self) -> Ints:
        """Tree of each leaf, non-decreasing."""
        return np.asarray(self.tree[self.leaves])

    @property
    def n_nodes(self) -> int:
        return len(self.attribute)

    @property
    def n_trees(self) -> int:
        return len(self.roots)

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees: the rows o of the path matrix."""
        return int(np.count_nonzero(self.attribute < 0))

    @property
    def max_depth(self) -> int:
        """Splits on the longest path."""
        return len(self.levels) - 1

    @property
    def nbytes(self) -> int:
        return sum(int(getattr(self, name).nbytes) for name in ARRAYS)

    def _inner(self, level: Longs) -> Longs:
        return level[self.n_children[level] > 0]

    def _children(self, inner: Longs) -> Longs:
        return concatenated_ranges(self.first_child[inner], self.n_children[inner])


def concatenated_ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> Longs:
    """Return ``starts[0], starts[0]+1, ... (lengths[0] of them), starts[1], ...`` in one array.

    >>> concatenated_ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    shift = np.asarray(starts, dtype=np.int64) - (ends - lengths)
    ranges: Longs = np.arange(total, dtype=np.int64) + np.repeat(shift, lengths)
    return ranges


# Branch tables ------------------------------------------------------------------------------------

LEAF_PATTERN = 0  # where a leaf's run of zeros starts in `branch_pool`


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


def check_partition(forest: Nodes) -> None:
    """Refuse arrays that are no trees which partition the domain.

    A node's branch table covers every code of its attribute and names dense branches 0..b-1, so its
    children split its cells. If moreover every node is a root or the child of exactly one node, and
    can be reached from a root, then each tree's leaves partition the domain.
    """
    check_shapes(forest)
    check_parentage(forest)
    reached = sum(len(level) for level in forest.levels)
    if reached != forest.n_nodes:  # what has one parent but no root is a cycle
        raise ForestError(
            f"{forest.n_nodes - reached} nodes cannot be reached from any root: first_child has a "
            f"cycle."
        )


def check_shapes(forest: Nodes) -> None:
    """Check lengths and ranges of the arrays, and that there is at least one tree."""
    roots, attribute, first_child = forest.roots, forest.attribute, forest.first_child
    nodes, pool, d = len(attribute), len(forest.branches), forest.domain.n_attributes
    if not len(roots):
        raise ForestError("roots is empty: a forest needs at least one tree.")
    for name, array in (("first_child", first_child), ("pattern", forest.pattern)):
        if len(array) != nodes:
            raise ForestError(
                f"{name} has {len(array)} entries: expected {nodes}, one a node, like attribute."
            )
    _check_range("roots", roots, 0, nodes, "a node number")
    _check_range("attribute", attribute, -1, d, "an attribute's index, -1 at leaves")
    _check_range("first_child", first_child, 0, nodes, "a node number")
    _check_range("pattern", forest.pattern, 0, pool, "a start into branches")
    _check_range("branches", forest.branches, 0, 2**31, "a branch number")
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


def check_parentage(forest: Nodes) -> None:
    """Check that every node is a root or the child of exactly one node."""
    first_child, n_children, nodes = forest.first_child, forest.n_children, forest.n_nodes
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
    expected[forest.roots] = 0
    wrong = np.flatnonzero(np.bincount(children, minlength=nodes) != expected)
    if len(wrong):
        node = int(wrong[0])
        raise ForestError(
            f"node {node} is the child of {np.count_nonzero(children == node)} nodes: expected "
            f"{expected[node]} ({'a root' if expected[node] == 0 else 'no root'})."
        )


def nearest_same_attribute(forest: Nodes) -> tuple[Longs, Longs]:
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


CHUNK = 1 << 21  # codes written out together: 16 MB of indices


def leaf_masks(forest: Nodes) -> list[Bools]:
    """Return for every attribute which of its codes each leaf holds.

    Row r of the path matrix is the Kronecker product over attributes of row r of these masks.

    Parameters
    ----------
    forest : Nodes
        A `Forest`.

    Returns
    -------
    list of ndarray of bool, shapes (n_leaves, size of the attribute)

    Notes
    -----
    Top-down, a level of all trees at a time: a child keeps its parent's masks, except on the
    parent's attribute, where it keeps the codes of its branch. Memory is the result, n_leaves x
    sum of sizes bytes, plus at most twice the largest level of that width.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests.random_trees import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=1, attributes=[0]).grow(
    ...     Domain.from_sizes([2, 3])
    ... )
    >>> [mask.astype(int).tolist() for mask in leaf_masks(forest)]
    [[[1, 0], [0, 1]], [[1, 1, 1], [1, 1, 1]]]
    """
    sizes = forest.domain.sizes
    found = [np.empty((forest.n_leaves, size), dtype=np.bool_) for size in sizes]
    masks = [np.ones((forest.n_trees, size), dtype=np.bool_) for size in sizes]
    for level in forest.levels:
        leaf = forest.attribute[level] < 0
        rows = forest.leaf_index[level[leaf]]
        for result, mask in zip(found, masks, strict=True):
            result[rows] = mask[leaf]
        masks = _children_masks(forest, level[~leaf], [mask[~leaf] for mask in masks])
    return found


def _children_masks(forest: Nodes, inner: Longs, masks: list[Bools]) -> list[Bools]:
    fan = forest.n_children[inner]
    parent = np.repeat(inner, fan)
    branch = concatenated_ranges(np.zeros(len(inner), dtype=np.int64), fan)
    split = forest.attribute[parent]
    repeated = [np.repeat(mask, fan, axis=0) for mask in masks]
    for i in np.unique(split):
        codes = np.arange(forest.domain.sizes[i])
        of_attribute = np.flatnonzero(split == i)
        step = max(1, CHUNK // len(codes))
        for start in range(0, len(of_attribute), step):
            rows = of_attribute[start : start + step]
            window = forest.pattern[parent[rows], np.newaxis] + codes
            repeated[i][rows] &= forest.branches[window] == branch[rows, np.newaxis]
    return repeated
