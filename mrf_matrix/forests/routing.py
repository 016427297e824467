"""Route records through trees: codes in, leaf numbers out, no loop over records.

A node's attribute, window start and first child are packed in one 64-bit word, so that a step
of routing is three gathers from small tables that stay in the processor's cache (the node's
word, the record's code, the branch) and a few shifts and additions. Blocks of about 8192
(record, tree) states keep the temporaries within the cache too; with many records a block is
one tree, with few it is many trees, so NumPy's cost per call is spread either way.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.forests.checks import ForestError

if TYPE_CHECKING:
    from mrf_matrix.forests.forest import Forest

Longs = NDArray[np.int64]

BLOCK = 8192
"""States (records x trees) routed together."""


@dataclass(frozen=True, eq=False)
class Router:
    """A forest's tables in the form that routing reads.

    Attributes
    ----------
    words : ndarray of int64, shape (nodes,)
        ``first_child << (window_bits + attribute_bits) | pattern << attribute_bits | attribute``;
        leaves carry attribute 0 and a window of zeros, so they step to themselves.
    branches : ndarray of int64
        The forest's pool.
    roots : ndarray of int64
    depth : ndarray of int64, shape (trees,)
        Steps that each tree needs.
    attribute_bits, window_bits : int
    """

    words: Longs
    branches: Longs
    roots: Longs
    depth: Longs
    attribute_bits: int
    window_bits: int

    @classmethod
    def build(cls, forest: "Forest") -> "Router":
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
            depth=depth,
            attribute_bits=attribute_bits,
            window_bits=window_bits,
        )

    def blocks(self, codes: NDArray[Any]) -> Iterator[tuple[slice, slice, Longs]]:
        """Yield (records, trees, leaf nodes of shape (trees, records)) block by block."""
        n_records, n_trees = len(codes), len(self.roots)
        rows = min(BLOCK, max(n_records, 1))
        together = max(1, BLOCK // rows)
        for first in range(0, n_records, rows):
            records = slice(first, min(first + rows, n_records))
            block = np.ascontiguousarray(codes[records], dtype=np.int64)
            for tree in range(0, n_trees, together):
                trees = slice(tree, min(tree + together, n_trees))
                yield records, trees, self._route(block, trees)

    def _route(self, block: Longs, trees: slice) -> Longs:
        """Return the leaf nodes that a block of records reaches, shape (trees, records)."""
        n, d = block.shape
        flat = block.ravel()
        row = np.arange(n) * d
        node = np.repeat(self.roots[trees], n)
        row = np.tile(row, len(node) // n) if n else row
        word, index, value = np.empty_like(node), np.empty_like(node), np.empty_like(node)
        attribute_mask = (1 << self.attribute_bits) - 1
        window_mask = (1 << self.window_bits) - 1
        for _ in range(int(self.depth[trees].max())):
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
        return node.reshape(-1, n)
