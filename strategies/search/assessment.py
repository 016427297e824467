"""The loss of a strategy, always recomputed from the matrix itself.

``loss(W, A) = ||A||² * ||W A⁺||_F²``, with ``||A||`` the largest column norm (L1 for Laplace, L2
for Gaussian noise). Twice the loss over ε², or the loss over 2ρ, is the expected total squared
error over the rows of W when ``y = A D + noise`` is answered by ``W A⁺ y`` (Li, Hay, Rastogi,
Miklau, McGregor 2010).

How a structure plugs in
------------------------
`strategies.operators.base.recovery` dispatches, in this order:

1. ``matrix.error_trace(workload)`` and ``matrix.row_errors(workload)``: a rule of the strategy's
   structure, for any workload it recognises, or None. It returns ``||W A⁺||_F²`` (its rows'
   shares), raises `RowSpaceError` when W is not in the row space, subtracts no traces, and may
   work for domains of any size. Marginals, Kronecker products and groupings have rules. The
   estimate ``W A⁺ y`` has the same hook, ``matrix.estimate(workload, answers)``.
2. Explicit matrices within the memory cap: triangular solves with the R factor of A at full
   column rank, singular values otherwise, with a check of ``W = W A⁺ A``.
3. Row Grams ``A Aᵀ`` and ``W Aᵀ``, which need nothing of length n.
"""

import numpy as np

from strategies.bounds.lower_bound import Certificate
from strategies.operators import Norm, Operator, RowSpaceError, as_operator, error_trace
from strategies.operators.base.recovery import factored_trace, factorised
from strategies.operators.explicit import Dense
from strategies.operators.identity import Identity
from strategies.operators.ordered.ranges import Ranges, ranges_error
from strategies.operators.product import Product
from strategies.problem.objective import Objective
from strategies.problem.problem import Problem
from strategies.problem.strategy import Strategy
from strategies.problem.units import in_unit, is_float, out_of_unit, times
from strategies.search.worst_error import worst_error

BY_TRIANGLE = 1000
"""Cells of ranges from which a dense strategy's error is taken from the inverse of one triangle."""


def evaluate(
    workload: object,
    matrix: object,
    norm: Norm = "l1",
    objective: Objective = "total",
    weights: object = None,
    groups: object = None,
) -> Strategy:
    """Return any matrix as a strategy for a workload: its sensitivity, loss and certificate.

    Parameters
    ----------
    workload : ndarray, scipy sparse, Operator or Gram, of shape (q, n)
        Every row a query over the n cells.
    matrix : ndarray, scipy sparse or Operator, of shape (m, n)
        What would be measured.
    norm : {"l1", "l2"}, default="l1"
        "l1" for Laplace noise, "l2" for Gaussian noise.
    objective : {"total", "max"}, default="total"
        Whether errors are summed over all rows, or the worst row or group of rows counts.
    weights : array-like of shape (q,), optional
        Weight of every row's error, 1 when not given; a row of weight 0 needs no answer.
    groups : array-like of int, shape (q,), optional
        For "max": a label for every row; errors are summed within a group.

    Returns
    -------
    Strategy
        With ``method="given"``.

    Raises
    ------
    RowSpaceError
        If a row of the workload is no combination of the matrix's rows.
    ValueError, TypeError
        If the workload is empty, all zeros, not finite or not real, or the shapes disagree.
    MemoryCapError
        If no structural rule applies and the explicit matrices exceed the memory cap.

    Examples
    --------
    >>> import numpy as np
    >>> strategy = evaluate(np.tri(4), np.eye(4))
    >>> strategy.sensitivity, strategy.loss
    (1.0, 10.0)
    """
    problem = Problem.of(workload, norm, objective, weights, groups)
    operator = as_operator(matrix, "matrix")
    return out_of_unit(assess(problem, operator, "given"), problem.power)


def assess(
    problem: Problem, matrix: Operator, method: str, certificate: Certificate | None = None
) -> Strategy:
    """Return a matrix over the domain as a `Strategy` for a problem, with its certificate.

    The loss is that of every multiple of the matrix, so it is computed of one near 1.

    Raises RowSpaceError if the matrix does not determine the workload, or so faintly that its loss
    is no float.
    """
    unit, power = in_unit(matrix)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sensitivity = unit.sensitivity(problem.norm)
        if not sensitivity > 0:
            raise ValueError("matrix is all zeros: expected a strategy that measures something.")
        loss = sensitivity * sensitivity * error(problem, unit)
    if not is_float(loss):
        raise RowSpaceError(
            f"matrix has the loss {loss} for the workload, which is no positive float: expected "
            f"entries whose ratios have squares below 1e308."
        )
    return Strategy(
        matrix=matrix,
        norm=problem.norm,
        sensitivity=times(sensitivity, power),
        loss=loss,
        method=method,
        certificate=certificate or Certificate(problem),
        objective=problem.aim.objective,
    )


def error(problem: Problem, matrix: Operator) -> float:
    """Return ``||W A⁺||_F²``, over the merged cells where the matrix is lifted from them.

    For the worst row or group, its share.
    """
    if not problem.is_total:
        return worst_error(problem, matrix)
    merged, merging = problem.merged_workload, problem.merging
    if merged is None or merging is None or matrix.shape[1] != problem.workload.shape[1]:
        return error_trace(problem.workload, matrix)
    if merging.is_trivial:
        return merged_error(problem, matrix)
    if matrix is merging.grouping:
        return problem.merged_total
    if isinstance(matrix, Product) and matrix.right is merging.grouping:
        return merged_error(problem, matrix.left)
    return error_trace(problem.workload, matrix)


def merged_error(problem: Problem, matrix: Operator) -> float:
    """Return ``||W' A'⁺||_F²`` for a matrix over the merged cells, reusing their Gram."""
    merged = problem.merged_workload
    if merged is None:
        raise ValueError("problem has no merged cells: expected a domain within the memory cap.")
    if isinstance(matrix, Identity):
        return problem.merged_total
    if not isinstance(matrix, Dense):
        return error_trace(merged, matrix)
    if merged.shape[1] >= BY_TRIANGLE and isinstance(merged, Ranges):
        return ranges_error(factorised(matrix), merged)
    gram = problem.gram if merged.shape[0] > merged.shape[1] else None
    if gram is not None:
        return factored_trace(merged, factorised(matrix), gram)
    return error_trace(merged, matrix)
