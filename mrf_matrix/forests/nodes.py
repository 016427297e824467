"""The nodes of a forest as five parallel arrays, and what follows from these alone."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrf_matrix.base.arrays import Ints, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.forests import arrays, checks

ARRAYS = ("roots", "attribute", "first_child", "pattern", "branches")


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
        return checks.count_children(self.domain.sizes, self.attribute, self.pattern, self.branches)

    @cached_property
    def levels(self) -> tuple[Longs, ...]:
        """Nodes of every level of all trees, roots first, siblings left to right."""
        return tuple(arrays.levels(self.roots, self.first_child, self.n_children))

    @cached_property
    def parent(self) -> Ints:
        """Parent of each node, -1 at roots."""
        return arrays.parents(self.first_child, self.n_children)

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
        return arrays.handed_down(
            self.levels, self.first_child, self.n_children, np.arange(self.n_trees)
        )

    @cached_property
    def leaf_index(self) -> Ints:
        """Number of each leaf, -1 at inner nodes."""
        return arrays.leaf_numbers(self.levels, self.first_child, self.n_children)

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
        """Number of nodes of all trees."""
        return len(self.attribute)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
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
        """Bytes held by the five arrays."""
        return sum(int(getattr(self, name).nbytes) for name in ARRAYS)
