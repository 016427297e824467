"""Estimates of the cells from a strategy's answers, with factors kept for the next release.

A study draws noise many times for one strategy, so a strategy's factorisation is kept for as long
as the strategy lives.
"""

from functools import singledispatch
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg

from mrf_matrix.base.arrays import Array
from strategies.operators import Grouping, Operator, Product, Scaled, fits, over_groups
from strategies.operators.base.pseudo_inverse import Factors, factorised
from strategies.operators.base.recovery import explicit_row_errors, is_explicit, row_errors

_FACTORS: "WeakKeyDictionary[Operator, Factors]" = WeakKeyDictionary()


@singledispatch
def estimated_cells(matrix: Operator, answers: Array) -> Array | None:
    """Return X (n, k) with ``W X = W A⁺ @ answers`` for every W in the row space.

    Explicit matrices go by their factors and one step of refinement (the corrected seminormal
    equations of Björck, 1987), which is as accurate as an orthogonal factorisation here.

    Returns
    -------
    ndarray of shape (n, k), or None where neither structure nor memory allows
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
        factors = _FACTORS.setdefault(matrix, factorised(matrix))
    return factors


def _gram_solve(factors: Factors, right: Array) -> Array:
    """Return ``(AᵀA)⁺ @ right`` from ``AᵀA = V RᵀR Vᵀ``."""
    inner = right if factors.basis is None else factors.basis.T @ right
    if factors.triangle.ndim == 1:
        inner = inner / (factors.triangle**2)[:, None]
    else:
        half = linalg.solve_triangular(factors.triangle, inner, trans="T")
        inner = linalg.solve_triangular(factors.triangle, half)
    return np.asarray(inner if factors.basis is None else factors.basis @ inner)
