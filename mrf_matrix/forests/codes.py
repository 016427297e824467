"""Encoded records: checked, cut to the attributes that a forest sees, and routed to its leaves.

Records are routed without a loop over them. A node's attribute, window start and first child are
packed in one 64-bit word, so that a step of routing is three gathers from small tables that stay in
the processor's cache (the node's word, the record's code, the branch) and a few shifts and
additions: 4 to 6 ns. Blocks of at most 16384 (record, tree) states keep the temporaries within the
cache too, and spread NumPy's cost per call; states that have reached their leaf are dropped once
they are the majority.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Bools, Longs, plain_array
from mrf_matrix.forests.nodes import ForestError, Nodes

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
        """Pack the arrays of a validated forest."""
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


def checked_codes(
    codes: object,
    sizes: Sequence[int],
    names: Sequence[str] | None = None,
    *,
    least: int = 0,
    argument: str = "codes",
) -> AnyInts:
    """Return codes as an integer array (N, d), column i from `least` to ``sizes[i] - 1``.

    `codes` (N, d): encoded records, or decision paths; `sizes`: attribute sizes; `names`: attribute
    names, for the message; `least`: smallest code; -1 where it means "free"; `argument`: what the
    caller calls them.

    Raises ValueError if the shape or type is wrong, or a code is out of range.
    """
    array = plain_array(argument, codes)
    if array.ndim != 2 or array.shape[1] != len(sizes) or array.dtype.kind not in "iu":
        raise ValueError(
            f"{argument} has the wrong shape, or type {array.dtype}: expected integers of shape "
            f"(rows, {len(sizes)}), one column an attribute. Encode records with domain.encode(X)."
        )
    if len(array):
        low, high = array.min(axis=0), array.max(axis=0)
        outside = np.flatnonzero((low < least) | (high >= np.asarray(sizes)))
        if len(outside):
            i = int(outside[0])
            raise ValueError(
                f"{argument} of attribute {names[i] if names else i!r} leave the domain: expected "
                f"{least} to {sizes[i] - 1}. Encode records with domain.encode(X)."
            )
    return array
