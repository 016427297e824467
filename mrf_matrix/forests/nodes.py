"""The nodes of a forest as five parallel arrays, and the routing of codes to leaves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Bools, Ints, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import plain_array

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


# Routing of codes --------------------------------------------------------------------------------


BLOCK = 16384  # states (records x trees) routed together, at most

ROWS = 256  # records in a block when there are many trees (measured: best from 64 to 1024)


@dataclass(frozen=True, eq=False)
class Router:
    """A forest's tables in the form that routing reads."""

    # (nodes,): ``first_child << (window_bits + attribute_bits) | pattern << attribute_bits |
    # attribute``; leaves carry attribute 0 and a window of zeros, so they step to themselves
    words: Longs
    branches: Longs  # the forest's pool
    roots: Longs
    is_inner: Bools  # (nodes,)
    depth: Longs  # (trees,): steps that each tree needs
    attribute_bits: int
    window_bits: int

    @classmethod
    def build(cls, forest: Nodes) -> "Router":
        attribute_bits = max(forest.domain.n_attributes - 1, 1).bit_length()
        window_bits = len(forest.branches).bit_length()
        if forest.n_nodes.bit_length() + window_bits + attribute_bits > 63:
            raise ForestError(
                f"{forest.n_nodes} nodes, {len(forest.branches)} branches and "
                f"{forest.domain.n_attributes} attributes do not pack into 63 bits: share branch "
                f"tables (branch_pool) or split the forest (take_trees)."
            )
        words = forest.first_child.astype(np.int64) << window_bits
        words = (words | forest.pattern) << attribute_bits | np.maximum(forest.attribute, 0)
        depth = np.zeros(forest.n_trees, dtype=np.int64)
        np.maximum.at(depth, forest.leaf_tree, forest.depth[forest.leaves])
        return cls(
            words=words,
            branches=forest.branches.astype(np.int64),
            roots=forest.roots.astype(np.int64),
            is_inner=forest.attribute >= 0,
            depth=depth,
            attribute_bits=attribute_bits,
            window_bits=window_bits,
        )

    def blocks(self, codes: AnyInts) -> Iterator[tuple[slice, slice, Longs]]:
        """Yield (records, trees, leaf nodes of shape (trees, records)) block by block."""
        n_records, n_trees = len(codes), len(self.roots)
        together = min(n_trees, max(BLOCK // min(max(n_records, 1), ROWS), 1))
        rows = BLOCK // together
        for first in range(0, n_records, rows):
            records = slice(first, min(first + rows, n_records))
            block = np.ascontiguousarray(codes[records], dtype=np.int64)
            for tree in range(0, n_trees, together):
                trees = slice(tree, min(tree + together, n_trees))
                yield records, trees, self.route(block, trees)

    def route(self, block: Longs, trees: slice) -> Longs:
        """Return the leaf nodes that a block of records reaches, shape (trees, records)."""
        n, d = block.shape
        roots = self.roots[trees]
        node = np.repeat(roots, n)
        row = np.tile(np.arange(0, n * d, d), len(roots))
        self._walk(block.ravel(), node, row, int(self.depth[trees].max()))
        return node.reshape(-1, n)

    def _walk(self, flat: Longs, node: Longs, row: Longs, steps: int) -> None:
        """Move every state of a block to its leaf, in place; drop those that have arrived."""
        word, index, value = np.empty_like(node), np.empty_like(node), np.empty_like(node)
        attribute_mask = (1 << self.attribute_bits) - 1
        window_mask = (1 << self.window_bits) - 1
        for step in range(steps):
            if step and step % 4 == 0:
                alive = np.flatnonzero(self.is_inner[node])
                if len(alive) < len(node) / 2:
                    rest = node[alive]
                    self._walk(flat, rest, row[alive], steps - step)
                    node[alive] = rest
                    return
            # mode="clip" only skips NumPy's bounds check: a validated forest and checked codes
            # never leave the tables.
            np.take(self.words, node, out=word, mode="clip")
            np.bitwise_and(word, attribute_mask, out=index)
            np.add(index, row, out=index)
            np.take(flat, index, out=value, mode="clip")
            np.right_shift(word, self.attribute_bits, out=word)
            np.bitwise_and(word, window_mask, out=index)
            np.add(index, value, out=index)
            np.take(self.branches, index, out=value, mode="clip")
            np.right_shift(word, self.window_bits, out=word)
            np.add(word, value, out=node)


def checked_labels(labels: object, n_records: int, n_classes: int | None = None) -> AnyInts:
    """Return class codes as integers, shape (N,), each from 0 to ``n_classes - 1`` if told.

    Raises ValueError if their shape, type or range is wrong.
    """
    given = plain_array("labels", labels)
    if given.shape != (n_records,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"labels has the wrong shape, or type {given.dtype}: expected integers, one class code "
            f"a record (domain.encode_target(y))."
        )
    if n_classes is not None and n_records and (given.min() < 0 or given.max() >= n_classes):
        raise ValueError(
            f"labels leave the classes: expected 0 to {n_classes - 1}. "
            f"Encode them with domain.encode_target(y)."
        )
    return given
