"""The best cut of one coordinate in every node at once, by the Gini impurity."""

from dataclasses import dataclass, replace

import numpy as np

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.base.checks import PrivateValue


@dataclass(frozen=True, eq=False, repr=False)
class Level(PrivateValue):
    """The points of some nodes, in the order of their nodes."""

    values: Array  # (r, m): points in the attributes that their node has drawn
    labels: Longs  # (r,)
    node: Longs  # (r,): sorted; every node below `len(starts)` has points
    starts: Longs  # (nodes,): place of each node's first point
    counts: Longs  # (nodes, k)
    min_leaf: int  # points that a cut must leave on either side

    @property
    def sizes(self) -> Longs:
        """Points of each node."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def purity(self) -> Array:
        """Sum over classes of squared counts, by the node's size: what cuts should raise."""
        return np.asarray((self.counts.astype(np.float64) ** 2).sum(axis=1) / self.sizes)

    def of(self, nodes: Bools) -> "Level":
        """Return the points of some nodes alone, which are numbered anew."""
        kept = nodes[self.node]
        number = np.cumsum(nodes) - 1
        node = number[self.node[kept]]
        starts = np.flatnonzero(np.diff(node, prepend=-1))
        return replace(
            self,
            values=self.values[kept],
            labels=self.labels[kept],
            node=node,
            starts=starts,
            counts=self.counts[nodes],
        )


def best_coordinate(level: Level, values: Array) -> tuple[Longs, Array, Array]:
    """Return each node's best coordinate, its threshold, and the purity of the two sides.

    `values` (r, c): coordinates of the level's points: attributes, or projections.

    Returns `coordinate`, `threshold`, `purity`: (nodes,). Purity is -1 where no coordinate can be
    cut. The largest arrays have r numbers.
    """
    nodes = len(level.starts)
    coordinate = np.zeros(nodes, dtype=np.int64)
    threshold, purity = np.zeros(nodes), np.full(nodes, -1.0)
    for j in range(values.shape[1]):
        cut, found = best_threshold(level, values[:, j])
        better = found > purity
        coordinate[better], threshold[better] = j, cut[better]
        purity[better] = found[better]
    return coordinate, threshold, purity


def best_threshold(level: Level, column: Array) -> tuple[Array, Array]:
    """Return each node's best threshold of one coordinate and the purity of its sides; -1 if none.

    Points are sorted once, by their node plus their place between its least and largest value,
    which is below 1. Values that rounding makes equal there are never cut apart.
    """
    node, starts = level.node, level.starts
    least = np.minimum.reduceat(column, starts)
    width = np.maximum.reduceat(column, starts) - least
    scale = np.where(width > 0, (1 - 1e-9) / np.where(width > 0, width, 1.0), 0.0)
    key = (column - least[node]) * scale[node] + node
    order = np.argsort(key)
    key, sorted_column = key[order], column[order]
    left = np.asarray(np.arange(1.0, len(node) + 1) - starts[node])
    right = np.asarray(level.sizes[node] - left)
    allowed = np.minimum(left, right) >= level.min_leaf
    allowed[:-1] &= key[1:] > key[:-1]
    at = np.flatnonzero(allowed)
    best = np.full(len(starts), -1.0)
    cut = np.zeros(len(starts))
    if not at.size:
        return cut, best
    gain = _purities(level, level.labels[order], at, left[at], right[at])
    owner = node[at]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    best[owner[first]] = np.maximum.reduceat(gain, first)
    winners = np.flatnonzero(gain == best[owner])
    winners = winners[np.flatnonzero(np.diff(owner[winners], prepend=-1))]
    place = at[winners]
    # halfway, and never up to the larger value
    middle = sorted_column[place] / 2 + sorted_column[place + 1] / 2
    below = np.nextafter(sorted_column[place + 1], -np.inf)
    cut[owner[winners]] = np.minimum(middle, below)
    return cut, best


def _purities(level: Level, labels: Longs, at: Longs, left: Array, right: Array) -> Array:
    """Return the sum over both sides and classes of squared counts, by the side's size."""
    node = level.node[at]
    on_left, on_right = np.zeros(len(at)), np.zeros(len(at))
    for label in range(level.counts.shape[1]):
        before = np.cumsum(labels == label)
        offset = np.concatenate([[0], np.cumsum(level.counts[:-1, label])])
        here = (before[at] - offset[node]).astype(np.float64)
        on_left += here**2
        on_right += (level.counts[node, label] - here) ** 2
    return np.asarray(on_left / left + on_right / right)


def side_purity(level: Level, is_left: Bools) -> Array:
    """Return the purity of the sides of a given cut of every node; -1 where one is too small."""
    nodes, k = level.counts.shape
    place = (level.node * k + level.labels)[is_left]
    left = np.bincount(place, minlength=nodes * k).reshape(nodes, k).astype(np.float64)
    right = level.counts - left
    sizes = np.stack([left.sum(axis=1), right.sum(axis=1)])
    squares = np.stack([(left**2).sum(axis=1), (right**2).sum(axis=1)])
    found = (squares / np.maximum(sizes, 1)).sum(axis=0)
    return np.where(sizes.min(axis=0) >= level.min_leaf, found, -1.0)
