"""The smallest budget that keeps errors below targets.

Row i has the root mean squared error ``√(2 e_i)/ε`` under Laplace noise and ``√(e_i/2ρ)`` under
Gaussian noise, with ``e_i = ||A||² ||(W A⁺)_i||²``. So all targets r hold exactly when
``max_i e_i/r_i²`` is at most ε²/2, or 2ρ: the smallest budget is that of the worst row of
``diag(1/r) W``, and a lower bound on the latter is a budget that no strategy can go below.

References
----------
Xiao, Ding, Wang, Zhang, Kifer: Optimizing fitness-for-use of differentially private linear
queries (2021).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from strategies.operators import Array, Norm, as_operator
from strategies.operators.base.arrays import plain_array, real_array
from strategies.problem.strategy import Strategy
from strategies.search.select import select


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
