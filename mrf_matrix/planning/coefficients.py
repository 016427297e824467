"""What each noise draw contributes to each answer: the coefficients ``W Ã⁺``, without data."""

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.mechanisms.least_squares import estimated_cells
from strategies.operators import Grouping, Identity, Operator, Product, Scaled, fits, over_groups
from strategies.operators.recovery import is_explicit

Array = NDArray[np.float64]


def answer_coefficients(
    workload: Operator, matrix: Operator, rows: NDArray[np.intp]
) -> Array | None:
    """Return rows of ``W Ã⁺``: the weight of every noise draw in an answer.

    Parameters
    ----------
    workload : Operator of shape (q, n)
    matrix : Operator of shape (m, n)
        What answers are recovered with, see `RoundedStrategy.recovery`.
    rows : ndarray of int, shape (r,)
        Which answers.

    Returns
    -------
    ndarray of shape (r, m), or None
        None where neither structure nor memory allows: then only the variances are known.
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
    return _solved(workload, matrix, rows)


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
