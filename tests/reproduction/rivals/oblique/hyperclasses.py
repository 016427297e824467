"""Two groups of a node's classes, as far from each other as the Bhattacharyya distance says."""

import numpy as np
from numpy.typing import NDArray
from rivals.oblique.moments import ClassMoments, is_singular

from mrf_matrix.base.arrays import Array, Bools

Places = NDArray[np.intp]
PAIRS = 1 << 16
"""Pairs of classes whose distances are computed at once."""


def hyperclasses(moments: ClassMoments) -> tuple[Bools, Bools]:
    """Group the classes of every node around the two that are farthest apart.

    Every other class joins the one of them that is nearer, ties the second.

    Returns `second`: (nodes, k), members of the second group; `is_grouped`: (nodes,), False where
    no two classes have a distance above 0.
    """
    distances = class_distances(moments)
    nodes, k, _ = distances.shape
    flat = distances.reshape(nodes, k * k)
    farthest = flat.argmax(axis=1)
    rows = np.arange(nodes)
    a, b = np.divmod(farthest, k)
    second = distances[rows, b] <= distances[rows, a]
    second[rows, a], second[rows, b] = False, True
    return second, flat[rows, farthest] > 0


def class_distances(moments: ClassMoments) -> Array:
    r"""Return the Bhattacharyya distances of the classes of every node, shape (nodes, k, k).

    .. math:: \tfrac18 \delta^\top \Sigma^{-1} \delta
        + \tfrac12 \ln \frac{|\Sigma|}{\sqrt{|\Sigma_i| |\Sigma_j|}}, \quad
        \Sigma = \tfrac12 (\Sigma_i + \Sigma_j)

    Where a covariance is singular, as of a class of few points, it is the distance of the means. It
    is 0 on the diagonal and for classes without points.
    """
    counts = np.maximum(moments.counts, 1)[:, :, None, None]
    covariance = moments.scatter / counts
    nodes, k = moments.counts.shape
    result = np.zeros((nodes, k, k))
    i, j = np.triu_indices(k, 1)
    step = max(1, PAIRS // max(len(i), 1))
    for begin in range(0, nodes, step):
        part = slice(begin, begin + step)
        found = _pair_distances(moments.means[part], covariance[part], i, j)
        both = moments.present[part][:, i] & moments.present[part][:, j]
        result[part, i, j] = np.where(both, found, 0.0)
    return result + np.swapaxes(result, 1, 2)


def _pair_distances(means: Array, covariance: Array, i: Places, j: Places) -> Array:
    gap = means[:, i] - means[:, j]
    apart = np.sqrt((gap**2).sum(axis=-1))
    singular = is_singular(covariance)
    known = ~(singular[:, i] | singular[:, j])
    middle = (covariance[:, i] + covariance[:, j]) / 2
    middle = np.where(known[..., None, None], middle, np.eye(means.shape[-1]))
    solved = np.linalg.solve(middle, gap[..., None])[..., 0]
    with np.errstate(divide="ignore"):
        volume = np.linalg.slogdet(covariance)[1]
    spread = np.linalg.slogdet(middle)[1]
    volumes = np.where(known, volume[:, i] + volume[:, j], 0.0)
    measured = (gap * solved).sum(axis=-1) / 8 + (spread - volumes / 2) / 2
    return np.asarray(np.where(known, measured, apart))
