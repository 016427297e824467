"""QR factorisations and singular values, and least squares by the one that suits the rank.

LAPACK's divide and conquer (gesdd, gelsd) is several times faster than QR iteration (gesvd,
gelss), and on rare matrices of many equal singular values, as 0/1 structures have, it does not
converge. The slow route is then taken, on entries of at most one.
"""

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array, Numbers

RANK_TOLERANCE = 1e-12  # singular values below this share of the largest are rounding
BAND = 64  # columns that are looked at together


def thin_qr(matrix: Array) -> tuple[Array, Array]:
    """Return Q (m, n) and R (n, n) of a tall matrix."""
    basis, triangle = linalg.qr(matrix, mode="economic")
    return np.asarray(basis, dtype=np.float64), np.asarray(triangle, dtype=np.float64)


def qr_triangle(matrix: Array) -> Array:
    """Return R (n, n) of the QR factorisation of a tall matrix."""
    triangle = linalg.qr(matrix, mode="r")[0][: matrix.shape[1]]
    return np.asarray(triangle, dtype=np.float64)


def graded_qr(matrix: Array) -> tuple[Array, Array]:
    """Return V (n, r), orthonormal, and R (r, r) with ``AᵀA = V RᵀR Vᵀ``, for rows of any scales.

    The space is that of the rows at one length. R keeps the digits of faint rows, for rows are
    sorted by length and columns are pivoted: Powell and Reid (1968).
    """
    lengths = np.abs(matrix).max(axis=1)
    order = np.argsort(-lengths)[: np.count_nonzero(lengths)]
    lengths, unit = lengths[order, None], matrix[order] / lengths[order, None]
    if len(unit) >= unit.shape[1] and has_full_rank(qr_triangle(unit)):
        basis, inner = np.eye(unit.shape[1]), unit
    else:
        values, right = singular_values(unit)
        rank = np.count_nonzero(values > RANK_TOLERANCE * values.max(initial=0.0))
        basis = right[:rank].T
        inner = unit @ basis
    triangle, pivots = linalg.qr(lengths * inner, mode="r", pivoting=True)
    return basis[:, pivots], np.asarray(triangle[: len(pivots)], dtype=np.float64)


def last_digits(triangle: Array, rows: Array) -> Array:
    """Return how far a unit of rounding in every entry moves ``rows R⁻¹``, at most: (q,)."""
    inverse = linalg.solve_triangular(triangle, np.eye(len(triangle)))
    moved = np.linalg.norm(np.abs(rows) @ np.abs(inverse), axis=1)
    return np.asarray(np.finfo(float).eps * moved)


def has_full_rank(triangle: Array) -> bool:
    """Tell from the R of a QR whether the matrix has full column rank, whatever its scales."""
    largest = np.abs(triangle).max(axis=0, initial=0.0)
    if np.any(np.abs(np.diagonal(triangle)) <= RANK_TOLERANCE * largest):
        return False
    reciprocal, info = linalg.lapack.dtrcon(triangle / largest)
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
    for lower in (False, True):
        if m == n and is_triangle(matrix.T if lower else matrix):
            return np.asarray(linalg.solve_triangular(matrix, answers, lower=lower))
    if m >= n:
        basis, triangle = thin_qr(matrix)
        if has_full_rank(triangle):
            return np.asarray(linalg.solve_triangular(triangle, basis.T @ answers))
    return minimum_norm(matrix, answers, RANK_TOLERANCE)


def singular_values(matrix: Array) -> tuple[Array, Array]:
    """Return all singular values, decreasing, and their right vectors as rows (min(m, n), n).

    Raises ValueError if the matrix is not finite.

    >>> singular_values(np.diag([3.0, 4.0]))[0].tolist()
    [4.0, 3.0]
    """
    check_finite(matrix)
    try:
        _, values, right = linalg.svd(matrix, full_matrices=False, check_finite=False)
        return values, right
    except linalg.LinAlgError:
        unit = _unit(matrix)
        _, values, right = linalg.svd(matrix / unit, full_matrices=False, lapack_driver="gesvd")
        return unit * values, right


def minimum_norm(matrix: Array, right: Numbers, cond: float | None = None) -> Array:
    """Return ``A⁺ B`` for A (m, n) and B (m,) or (m, k), the least-squares solution.

    Singular values below `cond` times the largest are taken for zero. A has to be finite.
    """
    check_finite(matrix)
    if not right.size:  # which LAPACK refuses
        return np.zeros((matrix.shape[1], *right.shape[1:]))
    try:
        return np.asarray(linalg.lstsq(matrix, right, cond=cond)[0])
    except linalg.LinAlgError:
        unit = _unit(matrix)
        solved = linalg.lstsq(matrix / unit, right, cond=cond, lapack_driver="gelss")[0]
        return np.asarray(solved / unit)


def check_finite(matrix: Array) -> None:
    if not np.isfinite(matrix).all():
        raise ValueError(
            f"A (strategy matrix) of shape {matrix.shape} contains NaN or infinity: expected "
            f"finite numbers. Check the strategy's weights."
        )


def _unit(matrix: Array) -> float:
    return float(np.abs(matrix).max(initial=0.0)) or 1.0
