"""In which two groups the classes of a node are parted, best first."""

import numpy as np
from scipy.stats import rankdata

from mrf_matrix.base.arrays import Array, Bools, Longs

ALL_BELOW = 8
"""Classes below which every partition is tried."""


def one_against_the_rest(counts: Longs) -> Bools:
    """Return the partitions that part one class of a node from the others, shape (p, k)."""
    return np.eye(len(counts), dtype=np.bool_)[counts > 0]


def candidate_partitions(counts: Longs, second: Bools, generator: np.random.Generator) -> Bools:
    """Return the partitions of a node's classes that are worth ranking, shape (p, k).

    Below eight classes they are all; from there on `second`, the hyperclasses of the node, and
    those with one class moved, one class against the rest, and 10 random ones for each class.

    `counts` (k,); `second` (k,).
    """
    present = np.flatnonzero(counts)
    n = len(present)
    if n < ALL_BELOW:
        codes = np.arange(1, 2 ** (n - 1))
        inner = (codes[:, None] >> np.arange(n) & 1).astype(np.bool_)
    else:
        moved = second[present] ^ np.eye(n, dtype=np.bool_)
        drawn = generator.random((10 * n, n)) < 0.5
        inner = np.concatenate([second[None, present], moved, np.eye(n, dtype=np.bool_), drawn])
        inner = np.unique(inner ^ inner[:, :1], axis=0)  # the first class is in the first group
        inner = inner[inner.any(axis=1)]
    found = np.zeros((len(inner), len(counts)), dtype=np.bool_)
    found[:, present] = inner
    return found


def ranked_partitions(partitions: Bools, counts: Longs, distances: Array) -> Bools:
    """Return the partitions, best first, by two tied ranks added up.

    One is of the purity that the two groups would have if they were parted without error, the other
    of Dunn's index: the least Bhattacharyya distance between the groups over the largest within.

    `partitions` (p, k); `counts` (k,); `distances` (k, k).
    """
    present = counts > 0
    sizes = counts.astype(np.float64)
    purity = np.zeros(len(partitions))
    within = np.zeros(len(partitions))
    for group in (partitions & present, ~partitions & present):
        purity += group @ sizes**2 / np.maximum(group @ sizes, 1)
        both = group[:, :, None] & group[:, None, :]
        within = np.maximum(within, np.where(both, distances, 0.0).max(axis=(1, 2)))
    apart = (partitions & present)[:, :, None] & (~partitions & present)[:, None, :]
    between = np.where(apart, distances, np.inf).min(axis=(1, 2))
    dunn = np.where(within > 0, between / np.where(within > 0, within, 1.0), np.inf)
    order = np.argsort(-(rankdata(purity) + rankdata(dunn)), kind="stable")
    return np.asarray(partitions[order])
