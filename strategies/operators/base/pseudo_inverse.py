"""Factorisations behind ``W A⁺``: triangular at full rank, singular values otherwise."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array, Bools, Integers
from strategies.operators.base.operator import Operator
from strategies.operators.base.qr import (
    RANK_TOLERANCE,
    has_full_rank,
    is_triangle,
    orthogonal,
    singular_values,
    triangular,
)

CONTAINMENT_TOLERANCE = 1e-6
"""Largest relative distance ``||W - W A⁺ A||_F / ||W||_F`` that counts as contained."""
WELL_CONDITIONED = 1e-6
"""Reciprocal condition of a Gram from which its factors are accurate to about ten digits."""

FEW_ENTRIES = 1 << 16  # of a deficient matrix whose singular values take milliseconds


class RowSpaceError(ValueError):
    """A row of the workload is no combination of the strategy's rows: it has no answer."""


def numbered(rows: Integers, most: int = 8) -> str:
    """Write row numbers for people: ``rows 3, 5, ...``, the first few of them."""
    shown = ", ".join(map(str, rows[:most])) + (", ..." if len(rows) > most else "")
    return f"rows {shown}"


def check_contained(
    outside: float, total: float, tolerance: float = CONTAINMENT_TOLERANCE, which: str = ""
) -> None:
    """Refuse a workload with part of its rows outside the strategy's row space.

    `outside`, `total`: squared Frobenius norms of ``W - W A⁺ A`` and of W; `tolerance`: largest
    relative distance, a ratio of norms, that passes; `which`: the rows in brackets, where they are
    known.
    """
    if outside > tolerance**2 * total:
        raise RowSpaceError(
            f"matrix does not determine the workload: {np.sqrt(outside / total):.2g} of its norm "
            f"lies outside the row space of matrix{which}, expected W = W A⁺ A. "
            f"Add rows to matrix, for instance the workload's own."
        )


def check_rows_contained(
    outside: Array, total: Array, tolerance: float = CONTAINMENT_TOLERANCE
) -> None:
    """Refuse rows of which a part lies outside: a faint one would vanish beside the norms of all.

    `outside`, `total`: (q,), squared norms of the rows of ``W - W A⁺ A`` and of W; `tolerance`:
    largest relative distance, a ratio of norms, that passes.
    """
    which = np.flatnonzero(outside > tolerance**2 * total)
    if len(which):
        lost, whole = float(outside[which].sum()), float(total[which].sum())
        check_contained(lost, whole, tolerance, f" ({numbered(which)})")


@dataclass(frozen=True, eq=False)
class Factors:
    """What ``W A⁺`` needs: ``AᵀA = V RᵀR Vᵀ`` with V orthonormal and R triangular or diagonal."""

    triangle: Array  # (r, r): R, triangular, or the singular values on its diagonal
    basis: Array | None = None  # (n, r): V; None for the identity, when A has full column rank
    is_lower: bool = False  # whether R is a lower triangle

    def row_errors(self, rows: Array) -> Array:
        """Return ``||(W A⁺)_r||²`` for explicit rows W (q, n), containment checked."""
        solved = self.coordinates(rows)
        return np.asarray(np.einsum("ij,ij->i", solved, solved))

    def coordinates(self, rows: Array) -> Array:
        """Return ``W V R⁻¹`` (q, r) for explicit rows W (q, n), containment checked.

        ``W A⁺`` on an orthonormal basis of A's columns, ``Q = A V R⁻¹``: A's own coordinates.
        """
        if self.basis is None:
            return self._solve(rows.T).T
        inner = rows @ self.basis
        check_rows_contained(*self._parts(rows, inner))
        return self._solve(inner.T).T

    def determined(self, rows: Array) -> Bools:
        """Tell which explicit rows (q, n) lie in the row space, shape (q,)."""
        if self.basis is None:
            return np.ones(len(rows), dtype=bool)
        outside, total = self._parts(rows, rows @ self.basis)
        return np.asarray(outside <= CONTAINMENT_TOLERANCE**2 * total)

    @staticmethod
    def _parts(rows: Array, inner: Array) -> tuple[Array, Array]:
        """Return the squared norms of what lies outside the row space, and of the rows."""
        total = np.einsum("ij,ij->i", rows, rows)
        return total - np.einsum("ij,ij->i", inner, inner), total

    def gram_trace(self, gram: Array) -> float:
        """Return ``tr(G (AᵀA)⁺)`` for a workload's Gram G (n, n), containment checked."""
        inner = gram if self.basis is None else self.basis.T @ gram @ self.basis
        self._check(float(np.trace(gram)), float(np.trace(inner)))
        return float(np.trace(self._solve(self._solve(inner).T)))

    def _check(self, total: float, inside: float) -> None:
        if self.basis is not None:
            check_contained(max(total - inside, 0.0), total)

    def _solve(self, right: Array) -> Array:
        """Return ``R^-T right``."""
        if self.triangle.ndim == 1:
            return right / self.triangle[:, None]
        solved = linalg.solve_triangular(self.triangle, right, trans="T", lower=self.is_lower)
        return np.asarray(solved)


def factorised(matrix: Operator) -> Factors:
    """Factorise a matrix by the cheapest route that is accurate for it.

    A triangle is its own factor; a tall matrix by the Cholesky factor or the spectrum of its Gram
    where they are well conditioned, else by QR; a wide one by QR of its transpose; a deficient one
    by its singular values, which tell a faint row from the rounding of a Gram: of many entries only
    where the spectrum of the Gram leaves that open. The largest arrays are A itself and
    min(m, n) x n.
    """
    m, n = matrix.shape
    if m == n and not matrix.prefers_sparse:
        whole = matrix.to_dense()
        for lower in (False, True):
            if is_triangle(whole.T if lower else whole):
                return Factors(whole, is_lower=lower)
    if m >= n:
        factors = from_gram(matrix.gram_dense())
        if factors is not None and (factors.basis is None or m * n > FEW_ENTRIES):
            return factors
        triangle = triangular(matrix.to_dense())
        if has_full_rank(triangle):
            return Factors(triangle)
        values, right = _spectrum(triangle)
    else:
        basis, triangle = orthogonal(matrix.to_dense().T)
        if has_full_rank(triangle):
            return Factors(triangular(triangle.T), basis)
        values, right = _spectrum(triangle.T)
        right = basis @ right
    return Factors(values, right)


def from_gram(gram: Array) -> Factors | None:
    """Factorise from ``AᵀA``, or return None where that would lose digits."""
    triangle, info = linalg.lapack.dpotrf(gram, clean=True)
    if info == 0:
        reciprocal, info = linalg.lapack.dpocon(triangle, np.abs(gram).sum(axis=0).max())
        return Factors(triangle) if reciprocal > WELL_CONDITIONED else None
    values, vectors = linalg.eigh(gram)
    largest = values[-1]
    kept = values > WELL_CONDITIONED * largest
    noise = len(values) * np.finfo(float).eps * largest
    if np.any(np.abs(values[~kept]) > 4 * noise):
        return None  # no clear gap between the rank and the rounding
    return Factors(np.sqrt(values[kept]), vectors[:, kept])


def _spectrum(matrix: Array) -> tuple[Array, Array]:
    """Return the singular values above rounding, and their right vectors as columns."""
    values, right = singular_values(matrix)
    rank = int(np.count_nonzero(values > RANK_TOLERANCE * values.max(initial=0.0)))
    return values[:rank], right[:rank].T
