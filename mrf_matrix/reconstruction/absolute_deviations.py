"""Least absolute deviations, exactly, as a linear programme."""

import numpy as np
from scipy.optimize import linprog

from mrf_matrix.base.arrays import Array

AGREEMENT = 1e-6  # relative gap between the primal and the dual optimum that counts as solved


def least_absolute_deviations(matrix: Array, answers: Array, *, nonnegative: bool = False) -> Array:
    """Return β that minimises ``Σ |y_i - (B β)_i|``, for every column of answers.

    Solved through its dual, ``max yᵀd`` over ``-1 <= d <= 1`` with ``Bᵀd = 0`` (``<= 0`` where β
    must not be negative), which has one constraint a coefficient; β are its multipliers. Where
    several β are optimal, one of them is returned.

    `matrix` (m, p); `answers` (m, k); `nonnegative`: require ``β >= 0``.

    Of shape (p, k). Raises RuntimeError if the solver fails, or primal and dual optimum differ.

    >>> least_absolute_deviations(np.ones((3, 1)), np.array([[1.0], [9.0], [2.0]]))
    array([[2.]])
    """
    widths = np.abs(matrix).max(axis=0)
    widths[widths == 0] = 1.0
    scaled = matrix / widths
    columns = [_solved(scaled, column, nonnegative) for column in answers.T]
    return np.asarray(np.column_stack(columns) / widths[:, None])


def _solved(matrix: Array, answers: Array, nonnegative: bool) -> Array:
    unit = max(float(np.abs(answers).max(initial=0.0)), 1.0)
    cost, zeros = -answers / unit, np.zeros(matrix.shape[1])
    if nonnegative:
        found = linprog(cost, A_ub=matrix.T, b_ub=zeros, bounds=(-1.0, 1.0), method="highs")
    else:
        found = linprog(cost, A_eq=matrix.T, b_eq=zeros, bounds=(-1.0, 1.0), method="highs")
    if found.status != 0:
        raise RuntimeError(f"least absolute deviations: the solver says {found.message!r}.")
    slopes = found.ineqlin.marginals if nonnegative else found.eqlin.marginals
    beta = -unit * np.asarray(slopes, dtype=np.float64)
    if nonnegative:
        beta = np.maximum(beta, 0.0)
    reached, bound = (
        float(np.abs(answers - matrix @ beta).sum()),
        float(answers @ np.asarray(found.x)),
    )
    if reached - bound > AGREEMENT * (unit + bound):
        raise RuntimeError(
            f"least absolute deviations: the solution found has {reached:.6g} and the bound is "
            f"{bound:.6g}. Expected equal; the model's columns may be nearly dependent."
        )
    return beta
