"""Trees of hyperplanes, as parallel arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.arrays import Array, Bools, Longs

CHUNK = 1 << 20  # numbers (points x attributes of a node) multiplied at once: 8 MB


@dataclass(frozen=True, eq=False)
class Cuts:
    """One hyperplane for each of some nodes."""

    weights: Array  # (nodes, m): over the attributes that a node has drawn
    threshold: Array  # (nodes,): a point goes left where its weighted sum is at most this
    is_cut: Bools  # (nodes,): False where no useful cut was found


@dataclass(frozen=True, eq=False)
class ObliqueForest:
    """Trees whose nodes are cut by hyperplanes over a few attributes each.

    A cell is no box, so a leaf is no product of one set of codes an attribute: there is no
    `Forest`, no path matrix and no plan of it. Here to be compared with.

    Attributes
    ----------
    attributes : ndarray of int, shape (nodes, m)
        Those that a node's hyperplane is over.
    weights : ndarray of shape (nodes, m)
    threshold : ndarray of shape (nodes,)
        Left where the weighted sum is at most this.
    child : ndarray of int, shape (nodes,)
        First of two children; a leaf's own number. The roots are nodes 0..n_trees-1.
    n_trees : int
    counts : ndarray of int, shape (nodes, k)
        Class counts of the points that reached the node.
    """

    attributes: Longs
    weights: Array
    threshold: Array
    child: Longs
    n_trees: int
    counts: Longs

    def apply(self, X: Array) -> Longs:
        """Return the leaf (node number) that each record reaches in each tree, (b, n_trees)."""
        row = np.repeat(np.arange(len(X)), self.n_trees)
        node = np.tile(np.arange(self.n_trees), len(X))
        moving = np.arange(len(node))
        while moving.size:
            moving = moving[self.child[node[moving]] != node[moving]]
            at = node[moving]
            right = is_right(X, row[moving], at, self.attributes, self.weights, self.threshold)
            node[moving] = self.child[at] + right
        return node.reshape(len(X), self.n_trees)


def in_units(forest: ObliqueForest, centre: Array, spread: Array) -> ObliqueForest:
    """Return the forest that does with x what `forest` does with ``(x - centre) / spread``."""
    weights = forest.weights / spread[forest.attributes]
    offset = np.einsum("nm,nm->n", weights, centre[forest.attributes])
    return replace(forest, weights=weights, threshold=forest.threshold + offset)


def joined(forests: Sequence[ObliqueForest]) -> ObliqueForest:
    """Return one forest of the trees of several: all roots first, then the rest of each."""
    n_trees = sum(one.n_trees for one in forests)
    rest = np.cumsum([n_trees, *(len(one.child) - one.n_trees for one in forests)])
    roots = np.cumsum([0, *(one.n_trees for one in forests)])
    numbers = [
        np.concatenate([root + np.arange(one.n_trees), np.arange(begin, end)])
        for one, root, begin, end in zip(forests, roots, rest, rest[1:], strict=False)
    ]
    place = np.argsort(np.concatenate(numbers))
    child = [number[one.child] for one, number in zip(forests, numbers, strict=True)]
    return ObliqueForest(
        np.concatenate([one.attributes for one in forests])[place],
        np.concatenate([one.weights for one in forests])[place],
        np.concatenate([one.threshold for one in forests])[place],
        np.concatenate(child)[place],
        n_trees,
        np.concatenate([one.counts for one in forests])[place],
    )


def is_right(
    X: Array, row: Longs, node: Longs, attributes: Longs, weights: Array, threshold: Array
) -> Bools:
    """Return which records are on the right of their node's hyperplane, shape (r,)."""
    step = max(1, CHUNK // attributes.shape[1])
    result = np.empty(len(row), dtype=np.bool_)
    for begin in range(0, len(row), step):
        part = slice(begin, begin + step)
        at = node[part]
        values = X[row[part, None], attributes[at]]
        result[part] = np.einsum("rm,rm->r", values, weights[at]) > threshold[at]
    return result
