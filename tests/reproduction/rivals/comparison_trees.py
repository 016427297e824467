"""Comparison-based trees (Haghiri, Garreau and von Luxburg, 2018): nearer to this point or that.

A node picks two of its points and sends every point to the nearer one. Its cuts are hyperplanes,
not thresholds on one attribute, so these trees are no `Forest` over a product domain and have no
path matrix: they are here to be compared with.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.checks import check_integer
from mrf_matrix.forests.forest import RandomState
from mrf_matrix.forests.growth.growth import AllRecords, Partition, Points
from strategies.operators.base.arrays import plain_floats

CHUNK = 1 << 20  # numbers (points x attributes) compared at once: 8 MB


@dataclass(frozen=True, eq=False)
class ComparisonForest:
    """Trees of comparisons, as parallel arrays.

    Attributes
    ----------
    values : ndarray of shape (N, d)
        The records that pivots are taken from.
    first, second : ndarray of int, shape (nodes,)
        Pivots of each node, as rows of `values`; -1 at leaves.
    child : ndarray of int, shape (nodes,)
        First of two children; a leaf's own number. The roots are nodes 0..n_trees-1.
    n_trees : int
    counts : ndarray of int, shape (nodes, k)
        Class counts of the estimation points; where a node has none, those of its parent.
    """

    values: Array
    first: Longs
    second: Longs
    child: Longs
    n_trees: int
    counts: Longs

    def apply(self, X: Array) -> Longs:
        """Return the leaf (node number) that each record reaches in each tree, (b, n_trees)."""
        row = np.repeat(np.arange(len(X)), self.n_trees)
        node = np.tile(np.arange(self.n_trees), len(X))
        moving = np.arange(len(node))
        while moving.size:
            moving = moving[self.first[node[moving]] >= 0]
            at = node[moving]
            right = _nearer_to_second(X, row[moving], self.values, self.first[at], self.second[at])
            node[moving] = self.child[at] + right
        return node.reshape(len(X), self.n_trees)


@dataclass(frozen=True)
class ComparisonTrees:
    """Source of comparison-based trees.

    Parameters
    ----------
    n_trees : int, default=100
    supervised : bool, default=False
        False, the consistent "CompRF-C": pivots are any two structure points, and labels come
        from separate estimation points. True, "CompRF-I": pivots of different classes, and all
        records serve both purposes.
    min_points : int, default=5
        A node of at most so many (estimation) points is a leaf.

    References
    ----------
    Haghiri, Garreau, von Luxburg: Comparison-based random forests. ICML 2018.
    """

    n_trees: int = 100
    supervised: bool = False
    min_points: int = 5

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("min_points", self.min_points, 1)

    def grow(
        self,
        X: NDArray[Any],
        labels: NDArray[Any],
        n_classes: int,
        random_state: RandomState = None,
    ) -> ComparisonForest:
        """Grow trees on numeric records, all trees level by level.

        Parameters
        ----------
        X : ndarray of shape (N, d)
        labels : ndarray of int, shape (N,)
        n_classes : int
        random_state : int, Generator or None

        Notes
        -----
        Memory: 16 bytes a record and tree, and comparisons of `CHUNK` numbers at a time.
        """
        X = np.ascontiguousarray(plain_floats("X", X))
        generator = np.random.default_rng(random_state)
        law: Points = AllRecords() if self.supervised else Partition()
        (node, record), (node_e, record_e) = law.draw(len(X), self.n_trees, generator)
        first: list[Longs] = []
        second: list[Longs] = []
        counts: list[Longs] = []
        parent_counts = np.zeros((self.n_trees, n_classes), dtype=np.int64)
        while len(parent_counts):
            n = len(parent_counts)
            found = _class_counts(node_e, labels[record_e], n, n_classes)
            is_filled = found.sum(axis=1) > 0
            counts.append(np.where(is_filled[:, None], found, parent_counts))
            a, b = self._pivots(node, record, labels, found, generator, X)
            first.append(a)
            second.append(b)
            node, record = _descend(X, node, record, a, b)
            node_e, record_e = _descend(X, node_e, record_e, a, b)
            parent_counts = np.repeat(counts[-1][a >= 0], 2, axis=0)
        return _assembled(X, first, second, counts, self.n_trees)

    def _pivots(
        self,
        node: Longs,
        record: Longs,
        labels: NDArray[Any],
        counts: Longs,
        generator: np.random.Generator,
        X: Array,
    ) -> tuple[Longs, Longs]:
        """Draw two points of every node that is split; -1 at leaves."""
        n = len(counts)
        a, b = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        order = np.lexsort((generator.random(len(node)), node))
        start = np.flatnonzero(np.diff(node[order], prepend=-1))
        a[node[order[start]]] = record[order[start]]
        other = np.asarray(a[node] != record)
        if self.supervised:
            other &= np.asarray(labels[record] != labels[a[node]])
        rest = order[other[order]]
        start = np.flatnonzero(np.diff(node[rest], prepend=-1))
        b[node[rest[start]]] = record[rest[start]]
        is_split = (b >= 0) & (counts.sum(axis=1) > self.min_points)
        is_split[is_split] = (X[a[is_split]] != X[b[is_split]]).any(axis=1)
        return np.where(is_split, a, -1), np.where(is_split, b, -1)


def _class_counts(node: Longs, labels: NDArray[Any], n_nodes: int, n_classes: int) -> Longs:
    counts = np.bincount(node * n_classes + labels, minlength=n_nodes * n_classes)
    return counts.reshape(n_nodes, n_classes)


def _descend(X: Array, node: Longs, record: Longs, a: Longs, b: Longs) -> tuple[Longs, Longs]:
    """Move points to the children of the nodes that are split; drop the others."""
    kept = np.flatnonzero(a[node] >= 0)
    node, record = node[kept], record[kept]
    right = _nearer_to_second(X, record, X, a[node], b[node])
    number = np.cumsum(a >= 0) - 1
    node = 2 * number[node] + right
    order = np.argsort(node, kind="stable")
    return node[order], record[order]


def _nearer_to_second(
    X: Array, row: Longs, values: Array, first: Longs, second: Longs
) -> NDArray[np.bool_]:
    """Return which records are nearer to their second pivot; ties go to the first."""
    step = max(1, CHUNK // max(X.shape[1], 1))
    result = np.empty(len(row), dtype=np.bool_)
    for begin in range(0, len(row), step):
        part = slice(begin, begin + step)
        a, b = values[first[part]], values[second[part]]
        # |x - b|² < |x - a|²  <=>  2 x (b - a) > |b|² - |a|²
        middle = X[row[part]] - (a + b) / 2
        result[part] = np.einsum("ij,ij->i", middle, b - a) > 0
    return result


def _assembled(
    X: Array, first: list[Longs], second: list[Longs], counts: list[Longs], n_trees: int
) -> ComparisonForest:
    """Give children their numbers: level by level, those of split nodes in their order."""
    a = np.concatenate(first)
    is_split = a >= 0
    following = n_trees + 2 * (np.cumsum(is_split) - is_split)
    child = np.where(is_split, following, np.arange(len(a))).astype(np.int64)
    return ComparisonForest(X, a, np.concatenate(second), child, n_trees, np.concatenate(counts))
