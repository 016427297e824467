"""Hyperplanes along projected axes: principal components, and linear discriminants."""

from typing import Literal

import numpy as np
from rivals.oblique.axis_cuts import Level, best_coordinate
from rivals.oblique.moments import ClassMoments, inverse_roots
from rivals.oblique.oblique_forest import Cuts

from mrf_matrix.base.arrays import Array

RIDGE = 1e-9  # share of the mean variance within classes that keeps discriminants defined

Axes = Literal["axis", "pca", "lda"]


def axis_cuts(level: Level) -> Cuts:
    """Cut every node along the best of its attributes."""
    nodes, m = len(level.starts), level.values.shape[1]
    return _cuts_along(level, np.broadcast_to(np.eye(m), (nodes, m, m)), level.values)


def projected_cuts(level: Level, axes: Axes) -> Cuts:
    r"""Cut every node along the best of its projected axes (Zhang and Suganthan, 2014).

    "pca": all eigenvectors of the covariance of the node's points. "lda": the generalised
    eigenvectors of the scatter between classes and within them, :math:`S_b v = \lambda S_w v`.
    Nodes of no more points than attributes are cut along an attribute.

    The largest arrays have r x m and nodes x k x m x m numbers.
    """
    moments = ClassMoments.of(level)
    if axes == "pca":
        basis = np.linalg.eigh(moments.total_scatter)[1]
    else:
        within = moments.within_scatter
        m = within.shape[-1]
        ridge = RIDGE * np.trace(within, axis1=1, axis2=2) / m
        within = within + np.where(ridge > 0, ridge, 1.0)[:, None, None] * np.eye(m)
        root = inverse_roots(within)
        basis = root @ np.linalg.eigh(root @ moments.between_scatter @ root)[1]
    few = level.sizes <= level.values.shape[1]
    basis = np.where(few[:, None, None], np.eye(level.values.shape[1]), basis)
    return _cuts_along(level, basis, projected(level, basis))


def projected(level: Level, basis: Array) -> Array:
    """Return the points on their node's axes, the columns of `basis`, shape (r, m)."""
    columns = [
        np.einsum("rm,rm->r", level.values, basis[level.node, :, j]) for j in range(basis.shape[2])
    ]
    return np.stack(columns, axis=1)


def _cuts_along(level: Level, basis: Array, values: Array) -> Cuts:
    coordinate, threshold, purity = best_coordinate(level, values)
    weights = np.take_along_axis(basis, coordinate[:, None, None], axis=2)[:, :, 0]
    return Cuts(weights, threshold, purity > level.purity * (1 + 1e-12))
