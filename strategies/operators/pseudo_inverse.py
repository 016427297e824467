"""Least squares and row-space containment for explicit matrices, by orthogonal factorisations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Array = NDArray[np.float64]

CONTAINMENT_TOLERANCE = 1e-6
"""Largest relative distance ``||W - W A⁺ A||_F / ||W||_F`` that counts as contained."""


class RowSpaceError(ValueError):
    """A row of the workload is no combination of the strategy's rows: it has no answer."""


def check_contained(outside: float, total: float) -> None:
    """Refuse a workload with part of its rows outside the strategy's row space.

    Parameters
    ----------
    outside, total : float
        Squared Frobenius norms of ``W - W A⁺ A`` and of W.
    """
    if outside > CONTAINMENT_TOLERANCE**2 * total:
        raise RowSpaceError(
            f"matrix does not determine the workload: {np.sqrt(outside / total):.2g} of its norm "
            f"lies outside the row space of matrix, expected W = W A⁺ A. Add rows to matrix, for "
            f"instance the workload's own."
        )


def has_full_rank(triangle: Array, rows: int) -> bool:
    """Tell from the R factor of a QR whether the matrix has full column rank, numerically."""
    diagonal = np.abs(np.diagonal(triangle))
    if diagonal.min(initial=np.inf) <= rows * np.finfo(float).eps * diagonal.max(initial=0.0):
        return False
    reciprocal, info = linalg.lapack.dtrcon(triangle)
    return bool(info == 0 and reciprocal > rows * np.finfo(float).eps)


def least_squares(matrix: Array, answers: Array) -> Array:
    """Return ``A⁺ y``: by QR at full column rank, by singular values otherwise."""
    m, n = matrix.shape
    if m >= n:
        basis, triangle = linalg.qr(matrix, mode="economic")
        if has_full_rank(triangle, m):
            return np.asarray(linalg.solve_triangular(triangle, basis.T @ answers))
    return RowSpace.of(matrix).solve(answers)


@dataclass(frozen=True, eq=False)
class RowSpace:
    """The singular value decomposition of a matrix, cut at its numerical rank.

    Attributes
    ----------
    left : ndarray of shape (m, r)
    values : ndarray of shape (r,)
    right : ndarray of shape (n, r)
        Orthonormal basis of the row space.
    null : ndarray of shape (n, n - r)
        Orthonormal basis of the rest.
    """

    left: Array
    values: Array
    right: Array
    null: Array

    @classmethod
    def of(cls, matrix: Array) -> "RowSpace":
        """Decompose an (m, n) matrix; the largest array is n x n."""
        left, values, right = linalg.svd(matrix, full_matrices=matrix.shape[0] < matrix.shape[1])
        cut = max(matrix.shape) * np.finfo(float).eps * values.max(initial=0.0)
        rank = int(np.count_nonzero(values > cut))
        return cls(left[:, :rank], values[:rank], right[:rank].T, right[rank:].T)

    def solve(self, answers: Array) -> Array:
        """Return ``A⁺ y``."""
        inner = self.left.T @ answers
        return np.asarray(self.right @ (inner.T / self.values).T)
