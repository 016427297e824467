"""What each noise draw contributes to each answer: the coefficients ``W Ã⁺``, without data."""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms.measurement.least_squares import estimated_cells
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
    fits,
    over_groups,
)
from strategies.operators.base.qr import triangular
from strategies.operators.base.recovery import coordinates, estimate, is_explicit

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
    found = _solved(workload, matrix, rows)
    return _implicit(workload, matrix, rows) if found is None else found


def _rows(matrix: Operator, rows: NDArray[np.intp]) -> Array | None:
    """Return rows of a matrix, a vector product each: nothing larger than the rows is made."""
    if not fits((len(rows) + 1, matrix.shape[1]), 8) or not fits((matrix.shape[0], len(rows))):
        return None
    picked = np.zeros((matrix.shape[0], len(rows)))
    picked[rows, np.arange(len(rows))] = 1.0
    return np.ascontiguousarray(matrix.rmatmat(picked).T)


def _solved(workload: Operator, matrix: Operator, rows: NDArray[np.intp]) -> Array | None:
    m, n = matrix.shape
    if not (matrix.has_cheap_inverse or is_explicit(matrix)) or not fits((n, m), 24):
        return None
    cells = estimated_cells(matrix, np.eye(m))
    asked = None if cells is None else _rows(workload, rows)
    return None if cells is None or asked is None else asked @ cells


def _implicit(workload: Operator, matrix: Operator, rows: NDArray[np.intp]) -> Array | None:
    """Return rows of ``W A⁺`` where nothing may have length n."""
    m = matrix.shape[0]
    if not fits((len(rows), m), 16):
        return None
    asked = taken(workload, rows)
    try:
        if isinstance(matrix, Marginals):
            return matrix.coefficients(asked)
        return _by_units(asked, matrix) if matrix.has_cheap_inverse else _by_gram(asked, matrix)
    except MemoryCapError:
        return None


def _by_units(asked: Operator, matrix: Operator) -> Array | None:
    """Return ``W A⁺`` as the estimates from unit answers, None where these are too many."""
    m = matrix.shape[0]
    if m * m > MOST_UNIT_ENTRIES:
        return None
    step = max(1, UNIT_ENTRIES // m)
    bands = (np.arange(first, min(first + step, m)) for first in range(0, m, step))
    return np.concatenate([estimate(asked, matrix, _units(m, band)) for band in bands], axis=1)


def _by_gram(asked: Operator, matrix: Operator) -> Array:
    """Return ``W A⁺ = W (AᵀA)⁺ Aᵀ`` in coordinates of A's row space, with one refinement."""
    rows, measured = coordinates(asked, matrix)
    triangle = triangular(measured)

    def solved(right: Array) -> Array:
        half = linalg.solve_triangular(triangle, right, trans="T")
        return np.asarray(measured @ linalg.solve_triangular(triangle, half))

    weights = solved(rows.T)
    weights += solved(rows.T - measured.T @ weights)
    return np.ascontiguousarray(weights.T)


def _units(m: int, band: NDArray[np.intp]) -> Array:
    units = np.zeros((m, len(band)))
    units[band, np.arange(len(band))] = 1.0
    return units


def taken(workload: Operator, rows: NDArray[np.intp]) -> Operator:
    """Return some rows of a workload over a domain that is too large to enumerate."""
    if isinstance(workload, RowKronecker):
        return workload.take_rows(rows)
    if isinstance(workload, Product):
        return Product(taken(workload.left, rows), workload.right)
    return Sparse(workload.to_sparse()[rows])
