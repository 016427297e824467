"""Least squares through a strategy: cells, and the rows of ``W A⁺``, which weigh noise in answers.

A study draws noise many times for one strategy, so a strategy's factorisation is kept for as long
as the strategy lives.
"""

from functools import singledispatch
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mrf_matrix.base.arrays import Array
from strategies.operators import (
    Grouping,
    Identity,
    Marginals,
    MemoryCapError,
    Operator,
    Product,
    RowKronecker,
    Scaled,
    Sparse,
    estimate,
    fits,
    over_groups,
)
from strategies.operators.base.qr import qr_triangle
from strategies.operators.base.recovery import (
    Factors,
    coordinates,
    explicit_row_errors,
    factorise,
    is_explicit,
    row_errors,
)

_FACTORS: "WeakKeyDictionary[Operator, Factors]" = WeakKeyDictionary()


@singledispatch
def estimated_cells(matrix: Operator, answers: Array) -> Array | None:
    """Return X (n, k) with ``W X = W A⁺ @ answers`` for every W in the row space.

    Explicit matrices go by their factors and one step of refinement (the corrected seminormal
    equations of Björck, 1987), which is as accurate as an orthogonal factorisation here.

    Of shape (n, k).
    """
    if matrix.has_cheap_inverse:
        return matrix.least_squares(answers)
    if not is_explicit(matrix):
        return None
    factors = factors_of(matrix)
    cells = _gram_solve(factors, matrix.rmatmat(answers))
    rest = answers - matrix.matmat(cells)
    return cells + _gram_solve(factors, matrix.rmatmat(rest))


@estimated_cells.register
def _(matrix: Scaled, answers: Array) -> Array | None:
    cells = estimated_cells(matrix.inner, answers)
    return None if cells is None else cells / matrix.weight


@estimated_cells.register
def _(matrix: Product, answers: Array) -> Array | None:
    grouping = matrix.right
    if not isinstance(grouping, Grouping):
        return estimated_cells.dispatch(Operator)(matrix, answers)
    groups = estimated_cells(matrix.left, answers)
    if groups is None:
        return None
    spread: Array = (groups / grouping.counts[:, None])[grouping.labels]
    return spread


def recovered_squares(workload: Operator, matrix: Operator) -> Array:
    """Return ``||(W A⁺)_r||²`` of every row: its error for noise of variance one, shape (q,).

    Raises RowSpaceError if the matrix does not determine the workload.
    """
    if isinstance(matrix, Scaled):
        return recovered_squares(workload, matrix.inner) / matrix.weight**2
    if isinstance(matrix, Product) and isinstance(matrix.right, Grouping):
        return recovered_squares(over_groups(workload, matrix.right), matrix.left)
    values = matrix.row_errors(workload)
    if values is not None:
        return values
    if is_explicit(matrix) and (workload.prefers_sparse or fits(workload.shape)):
        return explicit_row_errors(workload, factors_of(matrix))
    return row_errors(workload, matrix)


def factors_of(matrix: Operator) -> Factors:
    """Return a matrix's factors, computed once for as long as it lives."""
    factors = _FACTORS.get(matrix)
    if factors is None:
        factors = _FACTORS.setdefault(matrix, factorise(matrix))
    return factors


def _gram_solve(factors: Factors, right: Array) -> Array:
    """Return ``(AᵀA)⁺ @ right`` from ``AᵀA = V RᵀR Vᵀ``."""
    inner = right if factors.basis is None else factors.basis.T @ right
    if factors.triangle.ndim == 1:
        inner = inner / (factors.triangle**2)[:, None]
    else:
        lower = factors.is_lower
        half = linalg.solve_triangular(factors.triangle, inner, trans="T", lower=lower)
        inner = linalg.solve_triangular(factors.triangle, half, lower=lower)
    return np.asarray(inner if factors.basis is None else factors.basis @ inner)


UNIT_ENTRIES = 2**22  # entries of the unit answers that are estimated from at a time

MOST_UNIT_ENTRIES = 2**26
"""Entries of all unit answers, m², up to which answers are estimated from them: about 10 s.

One takes 0.7 to 2.1e-7 s on the reference machine (marginals of 4 to 40 attributes, timed).
"""


def answer_coefficients(
    workload: Operator, matrix: Operator, rows: NDArray[np.intp]
) -> Array | None:
    """Return rows of ``W Ã⁺``: the weight of every noise draw in an answer.

    `workload` (q, n); `matrix` (m, n): what answers are recovered with, see
    `RoundedStrategy.recovery`; `rows` (r,): which answers.

    Of shape (r, m); None where neither structure, memory nor time allows, which is told before
    any of it is spent: then only the variances are known.
    """
    if isinstance(matrix, Scaled):
        inner = answer_coefficients(workload, matrix.inner, rows)
        return None if inner is None else inner / matrix.weight
    if isinstance(matrix, Product) and isinstance(matrix.right, Grouping):
        return answer_coefficients(over_groups(workload, matrix.right), matrix.left, rows)
    if isinstance(matrix, Grouping):
        return _rows(over_groups(workload, matrix), rows)
    if isinstance(matrix, Identity):
        return _rows(workload, rows)
    found = _dense_coefficients(workload, matrix, rows)
    return _implicit_coefficients(workload, matrix, rows) if found is None else found


def _rows(matrix: Operator, rows: NDArray[np.intp]) -> Array | None:
    """Return rows of a matrix, a vector product each: nothing larger than the rows is made."""
    if not fits((len(rows) + 1, matrix.shape[1]), 8) or not fits((matrix.shape[0], len(rows))):
        return None
    picked = np.zeros((matrix.shape[0], len(rows)))
    picked[rows, np.arange(len(rows))] = 1.0
    return np.ascontiguousarray(matrix.rmatmat(picked).T)


def _dense_coefficients(
    workload: Operator, matrix: Operator, rows: NDArray[np.intp]
) -> Array | None:
    m, n = matrix.shape
    if not (matrix.has_cheap_inverse or is_explicit(matrix)) or not fits((n, m), 24):
        return None
    cells = estimated_cells(matrix, np.eye(m))
    asked = None if cells is None else _rows(workload, rows)
    return None if cells is None or asked is None else asked @ cells


def _implicit_coefficients(
    workload: Operator, matrix: Operator, rows: NDArray[np.intp]
) -> Array | None:
    """Return rows of ``W A⁺`` where nothing may have length n."""
    m = matrix.shape[0]
    if not fits((len(rows), m), 16):
        return None
    asked = take_rows(workload, rows)
    try:
        if isinstance(matrix, Marginals):
            return matrix.coefficients(asked)
        return (
            _unit_coefficients(asked, matrix)
            if matrix.has_cheap_inverse
            else _gram_coefficients(asked, matrix)
        )
    except MemoryCapError:
        return None


def _unit_coefficients(asked: Operator, matrix: Operator) -> Array | None:
    """Return ``W A⁺`` as the estimates from unit answers, None where these are too many."""
    m = matrix.shape[0]
    if m * m > MOST_UNIT_ENTRIES:
        return None
    step = max(1, UNIT_ENTRIES // m)
    bands = (np.arange(first, min(first + step, m)) for first in range(0, m, step))
    return np.concatenate([estimate(asked, matrix, _units(m, band)) for band in bands], axis=1)


def _gram_coefficients(asked: Operator, matrix: Operator) -> Array:
    """Return ``W A⁺ = W (AᵀA)⁺ Aᵀ`` in coordinates of A's row space, with one refinement."""
    rows, measured = coordinates(asked, matrix)
    triangle = qr_triangle(measured)

    def solve(right: Array) -> Array:
        half = linalg.solve_triangular(triangle, right, trans="T")
        return np.asarray(measured @ linalg.solve_triangular(triangle, half))

    weights = solve(rows.T)
    weights += solve(rows.T - measured.T @ weights)
    return np.ascontiguousarray(weights.T)


def _units(m: int, band: NDArray[np.intp]) -> Array:
    units = np.zeros((m, len(band)))
    units[band, np.arange(len(band))] = 1.0
    return units


def take_rows(workload: Operator, rows: NDArray[np.intp]) -> Operator:
    """Return some rows of a workload over a domain that is too large to enumerate."""
    if isinstance(workload, RowKronecker):
        return workload.take_rows(rows)
    if isinstance(workload, Product):
        return Product(take_rows(workload.left, rows), workload.right)
    return Sparse(workload.to_sparse()[rows])
