"""The best strategy for a workload, and the smallest budget that keeps errors below targets.

Row i has the root mean squared error ``√(2 e_i)/ε`` under Laplace noise and ``√(e_i/2ρ)`` under
Gaussian noise, with ``e_i = ||A||² ||(W A⁺)_i||²``. So all targets r hold exactly when
``max_i e_i/r_i²`` is at most ε²/2, or 2ρ: the smallest budget is that of the worst row of
``diag(1/r) W``, and a lower bound on the latter is a budget that no strategy can go below.

References
----------
Xiao, Ding, Wang, Zhang, Kifer: Optimizing fitness-for-use of differentially private linear
queries (2021).
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Real
from reprlib import repr as short
from typing import Any

import numpy as np

from strategies.methods.family import Family, requested_families
from strategies.methods.kronecker_selections import searched_factors
from strategies.methods.registry import FAMILIES
from strategies.operators import Array, Kronecker, Norm, as_operator, memory_cap
from strategies.operators.base.arrays import one_thread, plain_array, real_array
from strategies.problem.problem import Objective, Problem
from strategies.problem.strategy import Strategy
from strategies.search.assessment import from_unit
from strategies.search.portfolio import Portfolio, Report, progress_report

DEFAULT_TIME_LIMIT = 6.0  # seconds of work where the cells can be enumerated
DEFAULT_BEYOND_CELLS = 4.0
"""The same over larger domains, where few families serve and soon level off."""
DEFAULT_MOST = 24.0
"""Most seconds that a family which takes long to be good may take it to."""


def select(
    workload: object,
    norm: Norm = "l1",
    method: str | Family | Sequence[str | Family] = "auto",
    random_state: int | np.random.Generator | None = None,
    *,
    objective: Objective = "total",
    weights: object = None,
    groups: object = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    progress: bool | Report | None = None,
) -> Strategy:
    """Return the best strategy found for a workload, with a certificate beside it.

    Parameters
    ----------
    workload : ndarray, scipy sparse, Operator or Gram, of shape (q, n)
        Every row a query over the n cells. Implicit workloads over domains too large to
        enumerate get the families that can serve them.
    norm : {"l1", "l2"}, default="l1"
        "l1" for Laplace noise (pure differential privacy), "l2" for Gaussian noise (zCDP).
    method : str, Family, or sequence of them, default="auto"
        One of `families` or a `Family` of one's own; several share the work as a portfolio, as in
        ``(*families(), mine)``. "auto" takes the families that are worth their time.
    random_state : int, numpy.random.Generator or None, default=None
        The same seed gives the same strategy, however busy the machine is.
    objective : {"total", "max"}, default="total"
        "total" makes the sum of all rows' errors small, "max" the largest error of a row.
    weights : array-like of shape (q,), optional
        Weight of every row's error, 1 when not given; a row of weight 0 needs no answer. The
        workload's structure is kept.
    groups : array-like of int, shape (q,), optional
        For "max": a label for every row; errors are summed within a group, and the worst group
        counts.
    time_limit : float, optional
        Seconds to spend, on one core of the reference machine; by default 6, or 4 over domains too
        large to enumerate, more where a family asks for it (`Family.good`), up to 24, and for each
        further factor of a Kronecker product. It is turned into fixed numbers of iterations: it
        sets the amount of work, and no clock decides the result. A family whose shortest search is
        dearer than what is left is not tried, and `Strategy.candidates` says so. Should the
        portfolio take ten times as long, it starts no further family and the strategy says
        ``truncated``.
    memory_limit : int, optional
        Bytes that one array may take, 2 GiB when not given.
    progress : bool or callable, optional
        True shows a progress bar, a function is called with a `Progress` before each search.

    Returns
    -------
    Strategy
        Its loss is recomputed from the matrix by another route than the search's own, with a
        check that the matrix determines the workload; `Strategy.candidates` tells what every
        family reached.

    Raises
    ------
    ValueError, TypeError
        If the workload is empty, all zeros, not finite or not real, an argument is out of
        range, or the method cannot serve the workload.
    MemoryCapError
        If a method needs an array above the memory limit.

    Examples
    --------
    >>> import numpy as np
    >>> strategy = select(np.tri(8), method="identity")
    >>> strategy.loss, strategy.method
    (36.0, 'identity')
    """
    given = None if time_limit is None else checked_time_limit(time_limit)
    generator = checked_generator(random_state)
    with nullcontext() if memory_limit is None else memory_cap(memory_limit):
        problem = Problem.of(workload, norm, objective, weights, groups).with_attributes()
        able = requested_families(method, problem, FAMILIES)
        named = None if method == "auto" else able
        limit = default_limit(problem, named) if given is None else given
        with progress_report(progress) as report, one_thread():
            found = Portfolio(problem, able, generator, limit, report, method == "auto").run()
    return from_unit(found, problem.power)


def default_limit(problem: Problem, able: Sequence[Family] | None = None) -> float:
    """Return the seconds of work of families, or of "auto", when the user names none.

    What the family that takes longest to be good asks for; for products, what each factor would
    get alone, or more where a family that is asked for by name needs it.
    """
    usual = DEFAULT_TIME_LIMIT if problem.merging is not None else DEFAULT_BEYOND_CELLS
    if isinstance(problem.workload, Kronecker) and problem.aim.groups is None:
        factors = searched_factors(problem.workload)
        alone = [Problem.of(one, problem.norm, problem.aim.objective) for one in factors]
        usual = max((len(alone) * default_limit(one) for one in alone), default=DEFAULT_TIME_LIMIT)
        if able is None:
            return usual
    families = requested_families("auto", problem, FAMILIES) if able is None else able
    asked = max(family.good(problem) for family in families)
    return max(usual, min(DEFAULT_MOST, asked))


def checked_time_limit(seconds: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0:
        raise ValueError(f"time_limit={short(seconds)}: expected a positive number of seconds.")
    return float(seconds)


def checked_generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state={short(random_state)}: expected None, a non-negative integer or a "
            f"numpy.random.Generator ({error})."
        ) from None


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
