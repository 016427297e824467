"""Multisurface proximal planes (Zhang and Suganthan, 2015): a plane near each of two groups."""

from typing import Literal

import numpy as np
from rivals.oblique.axis_cuts import Level, side_purity
from rivals.oblique.hyperclasses import hyperclasses
from rivals.oblique.moments import ClassMoments, inverse_roots, is_singular
from rivals.oblique.oblique_forest import Cuts
from rivals.oblique.projections import axis_cuts

from mrf_matrix.base.arrays import Array, Bools

TIKHONOV = 0.01  # what is added to the diagonal of singular matrices

USEFUL = 1e-5  # change of the Gini impurity below which a cut is none

Repair = Literal["tikhonov", "parallel", "null_space"]


def proximal_cuts(level: Level, repair: Repair, ridge: float = TIKHONOV) -> Cuts:
    """Cut every node between the two proximal planes of its hyperclasses.

    `repair` {"tikhonov", "parallel", "null_space"}: where the points of a group do not span its
    attributes: add to the diagonal (MPSVM-T), cut along an attribute (-P), or look for the plane in
    the null space (-N); `ridge`: what is added.
    """
    moments = ClassMoments.of(level)
    second, is_grouped = hyperclasses(moments)
    groups = moments.grouped(second)
    weights, threshold, purity = between_groups(level, groups, repair, ridge)
    served = is_grouped & np.isfinite(weights).all(axis=1)
    if repair == "parallel":
        served &= ~(
            is_singular(_second_moments(groups, 0)) | is_singular(_second_moments(groups, 1))
        )
    is_cut = purity > level.purity + USEFUL * level.sizes
    if not served.all():
        along = axis_cuts(level.of(~served))
        weights[~served], threshold[~served] = along.weights, along.threshold
        is_cut[~served] = along.is_cut
    return Cuts(weights, threshold, is_cut)


def between_groups(
    level: Level, groups: ClassMoments, repair: Repair, ridge: float = TIKHONOV
) -> tuple[Array, Array, Array]:
    """Return the better bisector of the planes near to two groups of every node's points.

    Returns `weights`, `threshold`, `purity`: (nodes, m), nan weights where there is no plane;
    purity of the classes on the two sides.
    """
    near, far = (_second_moments(groups, group) for group in (0, 1))
    return _better(level, _bisectors(near, far, repair, ridge))


def _second_moments(groups: ClassMoments, group: int) -> Array:
    """Return ``[X, -1]ᵀ [X, -1] / n`` of one group, shape (nodes, m + 1, m + 1)."""
    size = np.maximum(groups.counts[:, group], 1)[:, None, None]
    mean = groups.means[:, group]
    nodes, m = mean.shape
    result = np.empty((nodes, m + 1, m + 1))
    result[:, :m, :m] = groups.scatter[:, group] / size + mean[:, :, None] * mean[:, None, :]
    result[:, :m, m] = result[:, m, :m] = -mean
    result[:, m, m] = 1.0
    return result


def _bisectors(near: Array, far: Array, repair: Repair, ridge: float) -> tuple[Array, Array]:
    """Return both bisectors of the planes nearest to either group, shape (nodes, m + 1) each."""
    first = _nearest_plane(near, far, repair, ridge)
    other = _nearest_plane(far, near, repair, ridge)
    return first + other, first - other


def _nearest_plane(own: Array, others: Array, repair: Repair, ridge: float = TIKHONOV) -> Array:
    """Return the plane that is near the own group and far from the others, of unit normal, or nan.

    It maximises ``wᵀ others w / wᵀ own w``.
    """
    singular = is_singular(own)
    order = own.shape[-1]
    added = np.where(singular, ridge, 0.0)[:, None, None] * np.eye(order)
    root = inverse_roots(own + added)
    plane = _top(root @ others @ root)
    plane = np.einsum("nij,nj->ni", root, plane)
    if repair == "null_space" and singular.any():
        values, vectors = np.linalg.eigh(own[singular])
        null = np.abs(values) <= np.abs(values).max(axis=1, keepdims=True) * order * 1e-12
        projector = np.einsum("nij,nj,nkj->nik", vectors, null.astype(np.float64), vectors)
        plane[singular] = _top(projector @ others[singular] @ projector)
    length = np.linalg.norm(plane[:, :-1], axis=1, keepdims=True)
    is_plane = length > np.abs(plane[:, -1:]) * np.finfo(np.float64).eps
    return np.where(is_plane, plane / np.where(is_plane, length, 1.0), np.nan)


def _top(matrices: Array) -> Array:
    """Return the eigenvector of the largest eigenvalue of every matrix."""
    return np.asarray(np.linalg.eigh(matrices)[1][..., -1])


def _better(level: Level, planes: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    """Return the one of two planes whose sides are the purer ones."""
    found = [side_purity(level, _is_left(level, plane)) for plane in planes]
    first = found[0] >= found[1]
    plane = np.where(first[:, None], planes[0], planes[1])
    return plane[:, :-1], plane[:, -1], np.maximum(found[0], found[1])


def _is_left(level: Level, plane: Array) -> Bools:
    sums = np.einsum("rm,rm->r", level.values, plane[level.node, :-1])
    return np.asarray(sums <= plane[level.node, -1])
