"""Singular values and least squares that do not give up where the fast route does.

LAPACK's divide and conquer (gesdd, gelsd) is several times faster than QR iteration (gesvd,
gelss), and on rare matrices of many equal singular values, as 0/1 structures have, it does not
converge. The slow route is then taken, on entries of at most one.
"""

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array, Numbers


def singular_values(matrix: Array) -> tuple[Array, Array]:
    """Return all singular values, decreasing, and their right vectors as rows.

    `matrix`: (m, n).

    Of shapes (min(m, n),) and (min(m, n), n).

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

    Singular values below `cond` times the largest are taken for zero.

    Raises ValueError if the matrix is not finite.
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
    """Refuse NaN and infinity."""
    if not np.isfinite(matrix).all():
        raise ValueError(
            f"matrix of shape {matrix.shape} contains NaN or infinity: expected finite numbers. "
            f"Check the strategy's weights."
        )


def _unit(matrix: Array) -> float:
    return float(np.abs(matrix).max(initial=0.0)) or 1.0
