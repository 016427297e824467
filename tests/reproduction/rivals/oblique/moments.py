"""Means and scatter of the classes of every node, of all nodes at once."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from rivals.oblique.axis_cuts import Level

from mrf_matrix.base.arrays import Array, Bools, Longs
from mrf_matrix.base.checks import PrivateValue


@dataclass(frozen=True, eq=False, repr=False)
class ClassMoments(PrivateValue):
    """What a node's hyperplane is made of."""

    counts: Longs  # (nodes, k)
    means: Array  # (nodes, k, m): 0 for a class without points
    scatter: Array  # (nodes, k, m, m): sums of outer products of each class, about its mean

    @classmethod
    def of(cls, level: Level) -> "ClassMoments":
        """Return the moments of a level's nodes; the largest array is (r, m, m)."""
        nodes, k = level.counts.shape
        m = level.values.shape[1]
        group = level.node * k + level.labels
        order = np.argsort(group, kind="stable")
        group, values = group[order], level.values[order]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        filled = group[starts]
        means = np.zeros((nodes * k, m))
        sizes = np.diff(np.append(starts, len(group)))
        means[filled] = np.add.reduceat(values, starts) / sizes[:, None]
        centred = values - means[group]
        scatter = np.zeros((nodes * k, m, m))
        scatter[filled] = np.add.reduceat(centred[:, :, None] * centred[:, None, :], starts)
        return cls(level.counts, means.reshape(nodes, k, m), scatter.reshape(nodes, k, m, m))

    @property
    def present(self) -> Bools:
        """Which classes have points, shape (nodes, k)."""
        return np.asarray(self.counts > 0)

    @property
    def within_scatter(self) -> Array:
        """Summed over classes, shape (nodes, m, m)."""
        return np.asarray(self.scatter.sum(axis=1))

    @cached_property
    def between_scatter(self) -> Array:
        """Of the class means about the mean of the node, by their points, shape (nodes, m, m)."""
        weights = self.counts[:, :, None].astype(np.float64)
        middle = (weights * self.means).sum(axis=1) / weights.sum(axis=1)
        offset = self.means - middle[:, None, :]
        return np.asarray(np.einsum("nkm,nkl->nml", weights * offset, offset))

    @property
    def total_scatter(self) -> Array:
        """About the mean of the node, shape (nodes, m, m)."""
        return self.within_scatter + self.between_scatter

    def grouped(self, second: Bools) -> "ClassMoments":
        """Return the moments of two groups of classes, those outside `second` and those in it.

        `second` (nodes, k).
        """
        parts = [self._merged(member & self.present) for member in (~second, second)]
        counts, means, scatter = (np.stack(each, axis=1) for each in zip(*parts, strict=True))
        return ClassMoments(counts, means, scatter)

    def _merged(self, member: Bools) -> tuple[Longs, Array, Array]:
        """Return count, mean and scatter of the union of some classes."""
        counts = np.where(member, self.counts, 0)
        size = counts.sum(axis=1)
        weights = counts[:, :, None].astype(np.float64)
        mean = (weights * self.means).sum(axis=1) / np.maximum(size, 1)[:, None]
        offset = self.means - mean[:, None, :]
        between = np.einsum("nkm,nkl->nml", weights * offset, offset)
        return size, mean, (self.scatter * member[:, :, None, None]).sum(axis=1) + between


def inverse_roots(matrices: Array) -> Array:
    """Return the symmetric inverse square roots of positive definite matrices, (..., m, m)."""
    values, vectors = np.linalg.eigh(matrices)
    floor = np.finfo(np.float64).tiny
    scaled = vectors / np.sqrt(np.maximum(values, floor))[..., None, :]
    return np.asarray(scaled @ np.swapaxes(vectors, -1, -2))


def is_singular(matrices: Array) -> Bools:
    """Say which symmetric matrices have a rank below their order, as far as rounding shows."""
    values = np.abs(np.linalg.eigvalsh(matrices))
    order = matrices.shape[-1]
    return np.asarray(values.min(axis=-1) <= values.max(axis=-1) * order * 1e-12)
