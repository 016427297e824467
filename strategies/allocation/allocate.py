r"""Budgets: the best for given rows under a user's constraints, the smallest for targets of errors.

Rows N are measured with budgets s, and ``W = B N`` recovers the workload. Under Laplace noise row j
has the weight ``w_j = s_j`` and variance ``2/s_j²``, and a cell pays ``Σ_j |N_ji| s_j``; under
Gaussian noise ``w_j² = s_j``, variance ``1/(2 s_j)``, and a cell pays ``Σ_j N_ji² s_j``. Within the
recovery B errors are convex in s, so one conic programme finds the optimum, and its duals prove it.
Answered by least squares instead, no row has a larger error (Aitken, 1935).

Where the rows are still to be found: row i has the root mean squared error ``√(2 e_i)/ε`` under
Laplace noise and ``√(e_i/2ρ)`` under Gaussian noise, with ``e_i = ||A||² ||(W A⁺)_i||²``. So all
targets r hold exactly when ``max_i e_i/r_i²`` is at most ε²/2, or 2ρ: the smallest budget is that
of the worst row of ``diag(1/r) W``, and a lower bound on the latter is a budget that no strategy
can go below.

References
----------
Li, Miklau, Hay, McGregor, Rastogi: The matrix mechanism (2015). Yuan, Yang, Zhang, Hao: Convex
optimization for linear query processing under approximate differential privacy (2016). Xiao, Ding,
Wang, Zhang, Kifer: Optimizing fitness-for-use of differentially private linear queries (2021).
"""

from __future__ import annotations  # help() shows the names of types, not all they stand for

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from strategies.allocation.conic import Constraints, Programme
from strategies.operators import (
    Array,
    Gram,
    MatrixLike,
    MemoryCapError,
    Norm,
    Operator,
    RowScaled,
    as_operator,
    check_allocation,
)
from strategies.operators.base.arrays import plain_array, real_array
from strategies.operators.base.recovery import check_contained
from strategies.problem.merging import can_merge, merge_columns
from strategies.problem.problem import Problem, checked_weights
from strategies.problem.strategy import Strategy
from strategies.search.assessment import assess, from_unit
from strategies.search.select import select

Minimised = Literal["total", "max", "budget"]
APART = 1e3  # ratio of the rows' largest entries up to which least squares takes them as they are
FAINT = 1e-12
"""Share of the largest entry of B below which one is rounding."""
CLOSE = 1e-8
"""Share of the value by which a bound may exceed it: the rounding of both."""


@dataclass(frozen=True, eq=False)
class Allocation:
    """Budgets of rows, what they reach, and what no other budgets can.

    Attributes
    ----------
    spent : ndarray of shape (m,)
        Budget of every row: ε for "l1", ρ for "l2".
    budget : float
        Of all together: 1, less where the constraints leave some, or the least one found.
    value : float
        What is minimised, within the recovery: the loss, or the budget.
    bound : float
        No budgets that keep the constraints reach less within the recovery.
    strategy : Strategy
        The rows with their weights. Its loss is that of least squares, at most `value`; its own
        lower bound is that of all strategies, without constraints.
    objective : {"total", "max", "budget"}
    """

    spent: Array
    budget: float
    value: float
    bound: float
    strategy: Strategy
    objective: Minimised

    @property
    def certified_ratio(self) -> float:
        """``value / bound``; infinite where nothing is proved."""
        return self.value / self.bound if self.bound > 0 else float("inf")

    def __str__(self) -> str:
        """Say what was reached, what cannot be, and what least squares makes of it."""
        each = f"{len(self.spent)} rows of {self.spent.min():.3g} to {self.spent.max():.3g}"
        return (
            f"{self.objective} {self.value:.6g}, none below {self.bound:.6g}: {each}, together "
            f"{self.budget:.4g}; by least squares {self.strategy}"
        )


def allocate(
    workload: MatrixLike,
    rows: MatrixLike,
    norm: Norm = "l1",
    objective: Minimised = "total",
    targets: ArrayLike | None = None,
    *,
    constraints: Constraints | None = None,
    recovery: MatrixLike | None = None,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Allocation:
    """Return the best budgets of given rows for a workload, with a certificate.

    Parameters
    ----------
    workload : ndarray, scipy sparse or Operator, of shape (q, n)
    rows : ndarray, scipy sparse or Operator, of shape (m, n)
        What may be measured: nodes of a tree, tables, cells.
    norm : {"l1", "l2"}, default="l1"
        "l1" for Laplace noise and ε, "l2" for Gaussian noise and ρ.
    objective : {"total", "max", "budget"}, default="total"
        The sum of all rows' errors, the largest, both at budget 1; or the least budget that keeps
        the targets.
    targets : float or array-like of shape (q,), optional
        Largest root mean squared error of every row, infinity for any: at budget 1, or with
        objective "budget" at the budget found.
    constraints : callable, optional
        ``constraints(spent, total)`` returns affine cvxpy constraints on the rows' budgets, shape
        (m,), and on the budget of all together.
    recovery : ndarray or scipy sparse of shape (q, m), optional
        B with ``W = B N``; ``W N⁺`` when not given. Rows whose largest entries are over a thousand
        times apart are taken over them first, for N⁺ would follow the large ones alone.
    weights, groups : array-like of shape (q,), optional
        As in `strategies.evaluate`; not for "budget".

    Returns
    -------
    Allocation

    Raises
    ------
    RowSpaceError
        If a row of the workload is no combination of the rows.
    ValueError, TypeError
        If an argument does not fit, nothing meets the constraints, or one is not affine.
    MemoryCapError
        If W, N and B, over the cells that N tells apart, exceed the memory cap.
    RuntimeError
        If the solver fails, or leaves constraints missed.

    Notes
    -----
    Dense arrays of (q + m) times the merged cells, and q times m. The total over 2000 nodes of a
    tree takes some 3 seconds; largest errors and targets have a dense row each, and take longer.

    Examples
    --------
    A total beside two cells, with half of the budget at least:

    >>> rows = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> found = allocate(np.eye(2), rows, constraints=lambda spent, total: [spent[0] >= 0.5])
    >>> found.spent.round(3), round(found.certified_ratio, 6)
    (array([0.5, 0.5, 0.5]), 1.0)
    """
    least = objective == "budget"
    if objective not in get_args(Minimised):
        raise ValueError(f"objective={objective!r}: expected 'total', 'max' or 'budget'.")
    if least and (targets is None or weights is not None or groups is not None):
        raise ValueError("objective='budget': expected targets=, and neither weights= nor groups=.")
    asked, measured = as_operator(workload, "workload"), as_operator(rows, "rows")
    limits = None if targets is None else checked_targets(targets, asked.shape[0])
    if isinstance(asked, Gram):
        raise ValueError("workload is a Gram, which has no rows: expected the rows.")
    if least and limits is not None:
        weights = (limits.min() / limits) ** 2
    problem = Problem.of(asked, norm, "total" if objective == "total" else "max", weights, groups)
    squares, costs = recovered_squares(asked, measured, recovery)
    costs = np.unique(costs if norm == "l1" else costs**2, axis=0)
    programme = Programme.of(
        np.zeros((0, squares.shape[1])) if least else _group_sums(problem, squares, weights),
        _target_rows(squares, limits, norm),
        costs,
        norm,
        constraints,
    )
    spent, value, bound = programme.solve()
    roots = spent if norm == "l1" else np.sqrt(spent)
    return Allocation(
        spent=spent,
        budget=value if least else float((costs @ spent).max()),
        value=value,
        bound=min(bound, value) if bound <= value * (1 + CLOSE) else bound,
        strategy=from_unit(assess(problem, RowScaled(roots, measured), "allocated"), problem.power),
        objective=objective,
    )


def recovered_squares(
    workload: Operator, rows: Operator, recovery: MatrixLike | None
) -> tuple[Array, Array]:
    """Return the squares of B (q, m), and ``|N|`` over the cells that it tells apart (g, m)."""
    q, m = workload.shape[0], rows.shape[0]
    if workload.shape[1] != rows.shape[1]:
        raise ValueError(
            f"rows has {rows.shape[1]} columns: expected {workload.shape[1]}, one for each cell."
        )
    if not can_merge(rows):
        raise MemoryCapError(f"rows over {rows.shape[1]} cells: expected cells to enumerate.")
    merging = merge_columns(rows)
    check_allocation("rows, workload and recovery", (q + m, merging.n_groups + m), 2)
    over, wanted = (merging.apply(one).to_dense() for one in (rows, workload))
    largest = np.abs(over).max(axis=1, initial=0.0)
    if not largest.min() > 0:
        raise ValueError("rows has a row of zeros: expected every row to measure something.")
    over = over / largest[:, None]
    if recovery is None:
        unit = largest / (largest.max() if largest.max() <= APART * largest.min() else largest)
        found = linalg.lstsq((unit[:, None] * over).T, wanted.T, cond=1e-12)[0].T * unit
    else:
        found = as_operator(recovery, "recovery").to_dense()
        if found.shape != (q, m):
            raise ValueError(f"recovery has shape {found.shape}: expected {(q, m)}.")
        found = found * largest
    found = np.where(np.abs(found) > FAINT * np.abs(found).max(initial=0.0), found, 0.0)
    check_contained(
        float(np.sum((wanted - found @ over) ** 2)), float(np.sum(wanted**2)), which=" rows"
    )
    return np.asarray((found / largest) ** 2), np.asarray(np.abs(over).T * largest)


def _group_sums(problem: Problem, squares: Array, weights: ArrayLike | None) -> Array:
    omega = np.ones(len(squares)) if weights is None else checked_weights(weights, len(squares))
    labels = problem.aim.groups
    if labels is None:
        labels = np.arange(len(squares)) * (not problem.is_total)
    sums = np.zeros((int(labels.max()) + 1, squares.shape[1]))
    np.add.at(sums, labels, omega[:, None] * squares)
    return np.asarray(sums[sums.any(axis=1)])


def _target_rows(squares: Array, limits: Array | None, norm: Norm) -> Array:
    """Return variances over squared targets, one row for each finite one."""
    if limits is None:
        return np.zeros((0, squares.shape[1]))
    finite = np.isfinite(limits)
    constant = 2.0 if norm == "l1" else 0.5
    return np.asarray(constant * squares[finite] / limits[finite, None] ** 2)


@dataclass(frozen=True, eq=False)
class SmallestBudget:
    """A budget, the strategy that meets the targets with it, and what no strategy can beat.

    Attributes
    ----------
    amount : float
        ε for "l1", ρ of zero-concentrated privacy for "l2", under continuous noise.
    bound : float
        No strategy meets the targets with less.
    strategy : Strategy
        Of objective "max" with weights 1/r².
    targets : ndarray, shape (q,)
        Largest root mean squared error of every row.
    """

    amount: float
    bound: float
    strategy: Strategy
    targets: Array

    @property
    def parameter(self) -> str:
        """What `amount` is: "epsilon" or "rho"."""
        return "epsilon" if self.strategy.norm == "l1" else "rho"


def smallest_budget(
    workload: object, targets: object, norm: Norm = "l1", **options: Any
) -> SmallestBudget:
    """Return the smallest budget found for targets on every row's error.

    Parameters
    ----------
    workload : ndarray, scipy sparse or Operator, of shape (q, n)
    targets : float or array-like of shape (q,)
        Largest root mean squared error of every row, in records; infinity for a row that may
        have any.
    norm : {"l1", "l2"}, default="l1"
        "l1" for Laplace noise and ε, "l2" for Gaussian noise and ρ.
    **options
        Passed on to `select`: method, random_state, time_limit, memory_limit, progress.

    Returns
    -------
    SmallestBudget

    Raises
    ------
    ValueError
        If a target is not positive or none is finite, their number is not the rows', or the
        workload cannot be served.

    Examples
    --------
    >>> found = smallest_budget(np.eye(2), targets=[1.0, 2.0], norm="l2")
    >>> round(found.amount, 6), found.parameter
    (0.5, 'rho')
    """
    operator = as_operator(workload, "workload")
    limits = checked_targets(targets, operator.shape[0])
    weights = (limits.min() / limits) ** 2
    strategy = select(operator, norm, objective="max", weights=weights, **options)
    unit = float(limits.min()) ** 2
    return SmallestBudget(
        budget_for(strategy.loss / unit, norm),
        budget_for(strategy.lower_bound / unit, norm),
        strategy,
        limits,
    )


def budget_for(error: float, norm: Norm) -> float:
    """Return ε or ρ at which a row of error e (before the noise constant) has variance 1.

    >>> budget_for(8.0, "l1"), budget_for(8.0, "l2")
    (4.0, 4.0)
    """
    return float(np.sqrt(2.0 * error)) if norm == "l1" else error / 2.0


def checked_targets(targets: object, rows: int) -> Array:
    given = plain_array("targets", targets)
    if given.ndim == 0:
        given = np.full(rows, given)
    finite = np.where(np.isposinf(given), 0.0, given) if given.dtype.kind == "f" else given
    values = real_array("targets", finite, 1).astype(np.float64)
    if len(values) != rows:
        raise ValueError(
            f"targets has {len(values)} entries: expected one for each of {rows} rows."
        )
    limits = np.where(np.isposinf(given), np.inf, values) if given.dtype.kind == "f" else values
    if not limits.min() > 0 or not np.isfinite(limits).any():
        raise ValueError("targets: expected positive errors, at least one of them finite.")
    return np.asarray(limits, dtype=np.float64)
