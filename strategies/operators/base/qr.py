"""QR factorisations, and least squares by them where the rank is full."""

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array
from strategies.operators.base.singular_values import minimum_norm

RANK_TOLERANCE = 1e-12  # singular values below this share of the largest are rounding
BAND = 64  # columns that are looked at together


def orthogonal(matrix: Array) -> tuple[Array, Array]:
    """Return Q (m, n) and R (n, n) of a tall matrix."""
    basis, triangle = linalg.qr(matrix, mode="economic")
    return np.asarray(basis, dtype=np.float64), np.asarray(triangle, dtype=np.float64)


def triangular(matrix: Array) -> Array:
    """Return R (n, n) of the QR factorisation of a tall matrix."""
    triangle = linalg.qr(matrix, mode="r")[0][: matrix.shape[1]]
    return np.asarray(triangle, dtype=np.float64)


def has_full_rank(triangle: Array) -> bool:
    """Tell from the R factor of a QR whether the matrix has full column rank, numerically."""
    diagonal = np.abs(np.diagonal(triangle))
    if diagonal.min(initial=np.inf) <= RANK_TOLERANCE * diagonal.max(initial=0.0):
        return False
    reciprocal, info = linalg.lapack.dtrcon(triangle)
    return bool(info == 0 and reciprocal > RANK_TOLERANCE)


def is_triangle(square: Array) -> bool:
    """Tell whether a matrix of full rank has nothing below its diagonal, column by column."""
    steps = range(0, len(square), BAND)
    below = any(np.tril(square[s:, s : s + BAND], -1).any() for s in steps)
    return not below and has_full_rank(square)


def complement(u: Array) -> Array:
    """Return an orthonormal basis of the complement of a unit vector of positive entries."""
    w = u + np.eye(len(u))[0]
    return np.asarray((np.eye(len(u)) - np.outer(w, w) * (2.0 / (w @ w)))[:, 1:])


def least_squares(matrix: Array, answers: Array) -> Array:
    """Return ``A⁺ y``: by a triangle or QR at full column rank, by singular values otherwise."""
    m, n = matrix.shape
    if m == n and is_triangle(matrix):
        return np.asarray(linalg.solve_triangular(matrix, answers))
    if m >= n:
        basis, triangle = orthogonal(matrix)
        if has_full_rank(triangle):
            return np.asarray(linalg.solve_triangular(triangle, basis.T @ answers))
    return minimum_norm(matrix, answers, RANK_TOLERANCE)
