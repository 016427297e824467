"""Answers to a workload from those of a strategy: ``W A⁺``, its errors and its estimates.

Each function asks the structure first, then works with explicit matrices where they fit the
memory cap, then with row Grams, which need nothing of length n.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import (
    Array,
    Bools,
    Integers,
    Longs,
    MemoryCapError,
    as_dense,
    fits,
)
from strategies.operators.base.operator import Operator, cached_per_value, cross_gram
from strategies.operators.base.qr import (
    RANK_TOLERANCE,
    graded_qr,
    has_full_rank,
    is_triangle,
    last_digits,
    least_squares,
    qr_triangle,
    singular_values,
    thin_qr,
)

CONTAINED = 1e-7
"""Share of a row's norm that may lie outside of the row space: rounding to 23 bits moves it so."""
MOVED = 64.0  # units of rounding in the entries of A
SQUARED = 1e-6
"""The same share where only squares of norms are known, whose rounding hides less."""
WELL_CONDITIONED = 1e-6
"""Reciprocal condition of a Gram from which its factors are accurate to about ten digits."""
FAINT = 1e-12  # squares of a row's length and of the longest's, from where faint rows lose digits
BAND = 2**22  # entries of the workload that are solved with at once
FEW_ENTRIES = 1 << 16  # of a deficient matrix whose singular values take milliseconds


STRATEGY_MATRIX = "A (strategy matrix)"
"""The name of a strategy in error messages."""


class RowSpaceError(ValueError):
    """A row of the workload is no combination of the strategy's rows: it has no answer."""


def format_rows(rows: Integers, most: int = 8) -> str:
    """Write row numbers for people: ``rows 3, 5, ...``, the first few of them."""
    shown = ", ".join(map(str, rows[:most])) + (", ..." if len(rows) > most else "")
    return f"rows {shown}"


def check_contained(
    outside: float, total: float, tolerance: float = SQUARED, which: str = ""
) -> None:
    """Refuse a workload with part of its rows outside the strategy's row space."""
    if outside > tolerance**2 * total:
        raise RowSpaceError(
            f"{STRATEGY_MATRIX} does not determine the workload: {np.sqrt(outside / total):.2g} of "
            f"the workload's norm lies outside the row space of A{which}, expected W = W A⁺ A. "
            f"Add rows to A, for instance the workload's own."
        )


def check_rows_contained(outside: Array, total: Array, tolerance: float = CONTAINED) -> None:
    """Refuse rows partly outside, one by one: beside the norms of all a faint one would vanish."""
    which = np.flatnonzero(outside > tolerance**2 * total)
    if len(which):
        lost, whole = float(outside[which].sum()), float(total[which].sum())
        check_contained(lost, whole, tolerance, f" ({format_rows(which)})")


@dataclass(frozen=True, eq=False)
class Factors:
    """``AᵀA = V RᵀR Vᵀ`` with V orthonormal and R triangular or diagonal: all of A in ``W A⁺``."""

    triangle: Array  # (r, r): R, triangular, or the singular values on its diagonal
    basis: Array | None = None  # (n, r): V; None for the identity, when A has full column rank
    is_lower: bool = False  # whether R is a lower triangle
    is_graded: bool = False  # whether rows of R are of any scales

    @property
    def keeps_digits(self) -> bool:
        """Whether A has full column rank, and a condition whose square leaves a Gram its digits."""
        upper = self.triangle.T if self.is_lower else self.triangle
        return self.basis is None and bool(linalg.lapack.dtrcon(upper)[0] ** 2 > WELL_CONDITIONED)

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
        check_rows_contained(*self._parts(rows, inner), self.tolerance)
        solved = self._solve(inner.T).T
        if self.is_graded:
            self._check_digits(inner, solved)
        return solved

    def _check_digits(self, inner: Array, solved: Array) -> None:
        """Refuse rows of the workload whose last digits move answers as far as these are."""
        moved = last_digits(self.triangle, inner)
        rows = np.flatnonzero(moved > np.sqrt(CONTAINED) * np.linalg.norm(solved))
        if len(rows):
            raise RowSpaceError(
                f"matrix measures parts of the workload ({format_rows(rows)}) too faintly for "
                f"64-bit numbers: expected rows of about one scale in one of the two."
            )

    def is_determined(self, rows: Array) -> Bools:
        """Tell which explicit rows (q, n) lie in the row space, shape (q,)."""
        if self.basis is None:
            return np.ones(len(rows), dtype=bool)
        outside, total = self._parts(rows, rows @ self.basis)
        return np.asarray(outside <= self.tolerance**2 * total)

    def _parts(self, rows: Array, inner: Array) -> tuple[Array, Array]:
        """Return the squared norms of what lies outside the row space, and of the rows."""
        rest = rows if self.basis is None else rows - inner @ self.basis.T
        return np.einsum("ij,ij->i", rest, rest), np.einsum("ij,ij->i", rows, rows)

    @cached_property
    def tolerance(self) -> float:
        """Share of a row's norm that may lie outside: more where rounding of A moves its space.

        By one unit of rounding over the faintest direction that A measures.
        """
        upper = self.triangle.T if self.is_lower else self.triangle
        if upper.ndim == 1:
            reciprocal = float(upper.min(initial=1.0) / upper.max(initial=1.0))
        else:
            reciprocal = float(linalg.lapack.dtrcon(upper)[0])
        moved = MOVED * np.finfo(float).eps / max(reciprocal, RANK_TOLERANCE)
        return float(min(SQUARED, max(CONTAINED, moved)))

    def gram_trace(self, gram: Array) -> float:
        """Return ``tr(G (AᵀA)⁺)`` for a workload's Gram G (n, n), containment checked."""
        inner = gram if self.basis is None else self.basis.T @ gram @ self.basis
        total = float(np.trace(gram))
        check_contained(max(total - float(np.trace(inner)), 0.0), total)
        return float(np.trace(self._solve(self._solve(inner).T)))

    def _solve(self, right: Array) -> Array:
        """Return ``R^-T right``."""
        if self.triangle.ndim == 1:
            return right / self.triangle[:, None]
        solved = linalg.solve_triangular(self.triangle, right, trans="T", lower=self.is_lower)
        return np.asarray(solved)


def factorise(matrix: Operator) -> Factors:
    """Factorise a matrix by the cheapest route that is accurate for it.

    A triangle is its own factor; a tall matrix by the Cholesky factor or the spectrum of its Gram
    where they are well conditioned, else by QR; a wide one by QR of its transpose; a deficient one
    by its singular values, which tell a faint row from the rounding of a Gram: of many entries only
    where the spectrum of the Gram leaves that open; one with faint rows as `graded_qr` does. The
    largest arrays are A itself and min(m, n) x n.
    """
    m, n = matrix.shape
    squares = matrix.row_squares()
    measured = squares[squares > 0]  # a row rounded to nothing is not faint
    if len(measured) and measured.min() < FAINT * measured.max():
        basis, triangle = graded_qr(matrix.to_dense())
        return Factors(triangle, basis, is_graded=True)
    if m == n and not matrix.prefers_sparse:
        whole = matrix.to_dense()
        for lower in (False, True):
            if is_triangle(whole.T if lower else whole):
                return Factors(whole, is_lower=lower)
    if m >= n:
        factors = from_gram(matrix.gram_dense())
        if factors is not None and (factors.basis is None or m * n > FEW_ENTRIES):
            return factors
        triangle = qr_triangle(matrix.to_dense())
        if has_full_rank(triangle):
            return Factors(triangle)
        values, right = _spectrum(triangle)
    else:
        basis, triangle = thin_qr(matrix.to_dense().T)
        if has_full_rank(triangle):
            return Factors(qr_triangle(triangle.T), basis)
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


IMPLICIT_TOLERANCE = 1e-5
"""Relative distance to the row space that row Grams can tell from rounding."""

PRODUCTS = 4e10
"""Operations a second of the reference machine in matrix products."""

FACTORED = 8e-11
"""Seconds of the reference machine to factorise inner products of rows, for each of their cube."""

LONGEST = 300.0
"""Seconds that a factorisation of inner products of rows may take."""

BEARABLE = 5.0
"""The same where every row can be answered by its own answer alone."""

MOST_BITS = 500
"""Bits of the number of cells over which inner products of rows are taken."""


def error_trace(workload: Operator, matrix: Operator) -> float:
    """Return ``||W A⁺||_F² = tr(WᵀW (AᵀA)⁺)``.

    Parameters
    ----------
    workload : Operator of shape (q, n)
    matrix : Operator of shape (m, n)

    Raises
    ------
    RowSpaceError
        If a row of the workload lies outside the row space of the matrix.
    MemoryCapError
        If the structures offer no rule and explicit matrices exceed the memory cap. For a
        strategy that is the workload itself the trace is its rank, and a bound on it is
        returned instead.
    """
    check_columns(workload, matrix)
    value = matrix.error_trace(workload)
    if value is not None:
        return value
    try:
        q, n = workload.shape
        if q > n and fits((n, n), 16) and is_explicit(matrix):
            return factored_trace(workload, factorise(matrix), workload.gram_dense())
        return float(row_errors(workload, matrix).sum())
    except MemoryCapError:
        if workload is matrix:  # then W A⁺ is a projection, and its trace the rank
            return float(min(workload.shape))
        raise


def factored_trace(workload: Operator, factors: Factors, gram: Array) -> float:
    """Return ``||W A⁺||_F²`` from a Gram where it keeps its digits, else from rows that fit."""
    if factors.keeps_digits or not (workload.prefers_sparse or fits(workload.shape)):
        return factors.gram_trace(gram)
    return float(explicit_row_errors(workload, factors).sum())


def row_errors(workload: Operator, matrix: Operator) -> Array:
    """Return ``||(W A⁺)_r||²`` of every row of the workload, shape (q,)."""
    check_columns(workload, matrix)
    values = matrix.row_errors(workload)
    if values is not None:
        return values
    if is_explicit(matrix) and (workload.prefers_sparse or fits(workload.shape)):
        return explicit_row_errors(workload, factorise(matrix))
    rows, measured = coordinates(workload, matrix)
    return Factors(qr_triangle(measured)).row_errors(rows)


def errors_of_determined_rows(workload: Operator, matrix: Operator) -> Array:
    """Return ``||(W A⁺)_r||²`` of every row, infinity where the matrix does not determine it.

    Raises
    ------
    RowSpaceError
        If a row is not determined, and matrix or workload is too large to tell which.
    """
    try:
        return row_errors(workload, matrix)
    except RowSpaceError:
        if not (is_explicit(matrix) and fits(workload.shape)):
            raise
    factors, rows = factorise(matrix), workload.to_dense()
    known, errors = factors.is_determined(rows), np.full(len(rows), np.inf)
    errors[known] = factors.row_errors(rows[known])
    return errors


def estimate(workload: Operator, matrix: Operator, answers: Array) -> Array:
    """Return ``W A⁺ @ answers``: the estimate of every row of the workload."""
    check_columns(workload, matrix)
    answers = matrix.checked_answers(answers)
    values = matrix.estimate(workload, answers)
    if values is not None:
        return values
    if is_explicit(matrix) or matrix.has_cheap_inverse:
        return workload.matmat(matrix.least_squares(answers))
    rows, measured = coordinates(workload, matrix)
    return rows @ least_squares(measured, answers)


def is_explicit(matrix: Operator) -> bool:
    m, n = matrix.shape
    return fits((min(m, n), n), 32) and (matrix.prefers_sparse or fits((m, n), 16))


def check_columns(workload: Operator, matrix: Operator) -> None:
    if workload.shape[1] != matrix.shape[1]:
        raise ValueError(
            f"{STRATEGY_MATRIX} has {matrix.shape[1]} columns: expected {workload.shape[1]}, one "
            f"for each column of the workload."
        )


def explicit_row_errors(workload: Operator, factors: Factors) -> Array:
    """Return ``||(W A⁺)_r||²`` of every row, a band of rows at a time."""
    return np.concatenate([factors.row_errors(band) for band in row_bands(workload)])


def row_bands(workload: Operator) -> Iterator[Array]:
    """Yield the rows of a workload in dense bands."""
    step = max(1, BAND // workload.shape[1])
    form = workload.compact()
    for start in range(0, workload.shape[0], step):
        yield as_dense(form[start : start + step])


def coordinates(workload: Operator, matrix: Operator) -> tuple[Array, Array]:
    """Return W and A on one orthonormal basis of A's row space, without anything of length n.

    With A's rows scaled to length one, a pivoted Cholesky factor ``A Aᵀ = L Lᵀ`` (m x r) holds
    their coordinates, however faint a row is beside the others; those of W follow from ``W Aᵀ``
    at the r pivot rows. Containment is checked by the norms of W's rows.

    Refused where ``A Aᵀ`` or ``W Aᵀ`` does not fit, or doubles cannot count the cells.
    """
    lengths, chosen, corner, measured = _row_basis(matrix)
    if workload is matrix:
        return measured, measured
    cross = cross_gram(workload, matrix)[:, chosen] / lengths[chosen]
    rows = linalg.solve_triangular(corner, cross.T, lower=True).T
    squares = workload.row_squares()
    check_rows_contained(squares - np.sum(rows**2, axis=1), squares, IMPLICIT_TOLERANCE)
    return np.asarray(rows), measured


@cached_per_value
def _row_basis(matrix: Operator) -> tuple[Array, Longs, Array, Array]:
    """Factorise ``A Aᵀ``, once for as long as the matrix lives.

    Returns the norms of the rows (m,), r rows that are independent, their coordinates at length
    one, lower triangular, and the coordinates of all rows (m, r).
    """
    check_countable(matrix)
    check_seconds(
        f"factorising the inner products of {matrix.shape[0]} rows",
        factorisation_seconds(matrix.shape[0]),
        f"at most {int(np.cbrt(LONGEST / FACTORED))} rows (fewer or shallower trees)",
    )
    gram = matrix.row_gram()
    lengths = np.sqrt(np.diagonal(gram))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    tolerance = 4 * len(gram) * np.finfo(float).eps
    unit = inverse[:, None] * gram * inverse
    factor, pivots, rank, _ = linalg.lapack.dpstrf(unit, tol=tolerance, lower=1)
    pivots, lower = pivots - 1, np.tril(factor)[:, :rank]
    measured = np.empty_like(lower)
    measured[pivots] = lower
    measured *= lengths[:, None]
    measured.flags.writeable = False
    return lengths, pivots[:rank], lower[:rank], measured


def factorisation_seconds(rows: int) -> float:
    return FACTORED * float(rows) ** 3


def takes_long(matrix: Operator, more: float = 0.0) -> bool:
    """Tell whether rows over no enumerable cells are many to solve with; `more`: seconds beside."""
    return factorisation_seconds(matrix.shape[0]) + more > BEARABLE and not is_explicit(matrix)


def check_seconds(step: str, seconds: float, expected: str) -> None:
    """Refuse a step over rows that cannot be enumerated where it would take unbearably long."""
    if seconds > LONGEST:
        raise MemoryCapError(
            f"{step} over a domain that cannot be enumerated takes about {seconds:.0f} s. Expected "
            f"{expected}, or a strategy with a rule of its own: the workload itself, Marginals, "
            f"Kronecker."
        )


def check_countable(matrix: Operator) -> None:
    """Refuse a domain whose cells, squared, a double cannot hold."""
    n = matrix.shape[1]
    if n.bit_length() > MOST_BITS:
        raise MemoryCapError(
            f"a domain of about 2**{n.bit_length() - 1} cells: inner products of rows over it "
            f"exceed a double. Expected at most 2**{MOST_BITS} cells, or a strategy with a rule "
            f"of its own: Marginals, Kronecker."
        )
