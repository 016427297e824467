"""The best strategy for a workload: one family, or a portfolio of all that can serve it."""

from collections.abc import Sequence
from contextlib import nullcontext
from numbers import Real
from reprlib import repr as short

import numpy as np

from strategies.methods.family import Family
from strategies.methods.kronecker_selections import searched_factors
from strategies.methods.registry import requested_families
from strategies.operators import Kronecker, Norm, memory_cap
from strategies.operators.base.arrays import one_thread
from strategies.problem.objective import Objective
from strategies.problem.problem import Problem
from strategies.problem.strategy import Strategy
from strategies.problem.units import out_of_unit
from strategies.search.portfolio import Portfolio
from strategies.search.progress import Report, reporting

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
        able = requested_families(method, problem)
        named = None if method == "auto" else able
        limit = default_limit(problem, named) if given is None else given
        with reporting(progress) as report, one_thread():
            found = Portfolio(problem, able, generator, limit, report, method == "auto").run()
    return out_of_unit(found, problem.power)


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
    families = requested_families("auto", problem) if able is None else able
    asked = max(family.good(problem) for family in families)
    return max(usual, min(DEFAULT_MOST, asked))


def checked_time_limit(seconds: float) -> float:
    """Return the time limit as a positive float, or refuse."""
    if isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0:
        raise ValueError(f"time_limit={short(seconds)}: expected a positive number of seconds.")
    return float(seconds)


def checked_generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    """Return a generator from a seed, a generator or None, or refuse."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"random_state={short(random_state)}: expected None, a non-negative integer or a "
            f"numpy.random.Generator ({error})."
        ) from None
