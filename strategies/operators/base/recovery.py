"""What a strategy's answers say about a workload: ``W A⁺``, its errors and its estimates.

Each function asks the structure first, then works with explicit matrices where they fit the
memory cap, then with row Grams, which need nothing of length n.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array, Integers
from strategies.operators.base.cross_gram import cross_gram
from strategies.operators.base.explicit_forms import densified
from strategies.operators.base.memory import MemoryCapError, fits
from strategies.operators.base.operator import Operator
from strategies.operators.base.pseudo_inverse import (
    Factors,
    RowSpaceError,
    check_rows_contained,
    factorised,
)
from strategies.operators.base.qr import least_squares, triangular

IMPLICIT_TOLERANCE = 1e-5
"""Relative distance to the row space that row Grams can tell from rounding."""

PRODUCTS = 4e10
"""Operations a second of the reference machine in matrix products."""

FACTORED = 8e-11
"""Seconds of the reference machine to factorise inner products of rows, for each of their cube."""

LONGEST = 300.0
"""Seconds that a factorisation of inner products of rows may take."""

BEARABLE = 5.0
"""The same where every row has an answer of its own."""

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
        return general_error_trace(workload, matrix)
    except MemoryCapError:
        if workload is matrix:  # then W A⁺ is a projection, and its trace the rank
            return float(min(workload.shape))
        raise


def general_error_trace(workload: Operator, matrix: Operator) -> float:
    """Return ``||W A⁺||_F²`` where the strategy's structure has no rule for it."""
    q, n = workload.shape
    if q > n and fits((n, n), 16) and is_explicit(matrix):
        return factored_trace(workload, factorised(matrix), workload.gram_dense())
    return float(row_errors(workload, matrix).sum())


def factored_trace(workload: Operator, factors: Factors, gram: Array) -> float:
    """Return ``||W A⁺||_F²`` from a Gram; from rows where some may lie outside the row space."""
    if factors.basis is None or not (workload.prefers_sparse or fits(workload.shape)):
        return factors.gram_trace(gram)
    return float(explicit_row_errors(workload, factors).sum())


def row_errors(workload: Operator, matrix: Operator) -> Array:
    """Return ``||(W A⁺)_r||²`` of every row of the workload, shape (q,)."""
    check_columns(workload, matrix)
    values = matrix.row_errors(workload)
    if values is not None:
        return values
    if is_explicit(matrix) and (workload.prefers_sparse or fits(workload.shape)):
        return explicit_row_errors(workload, factorised(matrix))
    rows, measured = coordinates(workload, matrix)
    return Factors(triangular(measured)).row_errors(rows)


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
    factors, rows = factorised(matrix), workload.to_dense()
    known, errors = factors.determined(rows), np.full(len(rows), np.inf)
    errors[known] = factors.row_errors(rows[known])
    return errors


def estimate(workload: Operator, matrix: Operator, answers: Array) -> Array:
    """Return ``W A⁺ @ answers``: what the answers say about every row of the workload."""
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
    """Tell whether the matrix's factors fit the memory cap."""
    m, n = matrix.shape
    return fits((min(m, n), n), 32) and (matrix.prefers_sparse or fits((m, n), 16))


def check_columns(workload: Operator, matrix: Operator) -> None:
    """Refuse a matrix over other cells than the workload's."""
    if workload.shape[1] != matrix.shape[1]:
        raise ValueError(
            f"matrix has {matrix.shape[1]} columns: expected {workload.shape[1]}, one for each "
            f"column of the workload."
        )


def explicit_row_errors(workload: Operator, factors: Factors) -> Array:
    """Return ``||(W A⁺)_r||²`` of every row, a band of rows at a time."""
    step = max(1, 2**23 // workload.shape[1])
    form = workload.compact()
    bands = range(0, workload.shape[0], step)
    return np.concatenate([factors.row_errors(densified(form[s : s + step])) for s in bands])


def coordinates(workload: Operator, matrix: Operator) -> tuple[Array, Array]:
    """Return W and A on one orthonormal basis of A's row space, without anything of length n.

    With A's rows scaled to length one, a pivoted Cholesky factor ``A Aᵀ = L Lᵀ`` (m x r) holds
    their coordinates, however faint a row is beside the others; those of W follow from ``W Aᵀ``
    at the r pivot rows. Containment is checked by the norms of W's rows.

    Raises
    ------
    RowSpaceError
        If rows of the workload lie outside the row space.
    MemoryCapError
        If ``A Aᵀ`` or ``W Aᵀ`` has no rule or does not fit, or the domain has so many cells that
        doubles cannot count them.
    """
    basis = _row_basis(matrix)
    chosen = basis.chosen
    if workload is matrix:
        return basis.measured, basis.measured
    cross = cross_gram(workload, matrix)[:, chosen] / basis.lengths[chosen]
    rows = linalg.solve_triangular(basis.corner, cross.T, lower=True).T
    squares = workload.row_squares()
    check_rows_contained(squares - np.sum(rows**2, axis=1), squares, IMPLICIT_TOLERANCE)
    return np.asarray(rows), basis.measured


@dataclass(frozen=True, eq=False)
class _RowBasis:
    """Coordinates of a matrix's rows, and what finds those of others.

    Attributes
    ----------
    lengths : ndarray of shape (m,)
        Norms of the rows.
    chosen : ndarray of shape (r,)
        Rows that are independent.
    corner : ndarray of shape (r, r)
        Their coordinates at length one, lower triangular.
    measured : ndarray of shape (m, r)
        Coordinates of all rows.
    """

    lengths: Array
    chosen: Integers
    corner: Array
    measured: Array


_BASES: "WeakKeyDictionary[Operator, _RowBasis]" = WeakKeyDictionary()


def _row_basis(matrix: Operator) -> _RowBasis:
    """Factorise ``A Aᵀ`` once for as long as the matrix lives: it is asked many times."""
    known = _BASES.get(matrix)
    if known is not None:
        return known
    check_countable(matrix)
    check_rows(matrix)
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
    return _BASES.setdefault(matrix, _RowBasis(lengths, pivots[:rank], lower[:rank], measured))


def factorisation_seconds(rows: int) -> float:
    """Return the seconds that the inner products of some rows take to be factorised."""
    return FACTORED * float(rows) ** 3


def takes_long(matrix: Operator, more: float = 0.0) -> bool:
    """Tell whether rows are many to be solved with together, where cells cannot be enumerated.

    `more`: seconds of their inner products, where those are dear.
    """
    return factorisation_seconds(matrix.shape[0]) + more > BEARABLE and not is_explicit(matrix)


def check_rows(matrix: Operator) -> None:
    """Refuse more rows than can be factorised in a bearable time."""
    rows = matrix.shape[0]
    most = int(np.cbrt(LONGEST / FACTORED))
    check_seconds(
        f"factorising the inner products of {rows} rows",
        factorisation_seconds(rows),
        f"at most {most} rows (fewer or shallower trees)",
    )


def check_seconds(step: str, seconds: float, expected: str) -> None:
    """Refuse a step over rows that cannot be enumerated where it would take unbearably long.

    Raises MemoryCapError, before anything is computed.
    """
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
