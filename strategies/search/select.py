"""The best strategy for a workload: one family, or a portfolio of all that can serve it."""

from collections.abc import Sequence
from contextlib import nullcontext
from numbers import Real
from reprlib import repr as short

import numpy as np

from strategies.bounds.climbs import LARGEST, climbable_rows, joint_update_seconds
from strategies.bounds.prefix_weights import long_prefix_rows
from strategies.methods.family import Family
from strategies.methods.gaussian_optimal import least_seconds
from strategies.methods.kronecker_selections import searched_factors
from strategies.methods.ordered.ordered_cells import DENSE_SECONDS, LARGEST_DENSE
from strategies.methods.paths.path_optimal import good_seconds
from strategies.methods.registry import requested_families
from strategies.operators import Kronecker, Norm, memory_cap
from strategies.operators.base.threads import one_thread
from strategies.problem.objective import Objective
from strategies.problem.problem import Problem
from strategies.problem.strategy import Strategy
from strategies.problem.units import out_of_unit
from strategies.search.portfolio import Portfolio
from strategies.search.progress import Report, reporting

DEFAULT_TIME_LIMIT = 6.0  # seconds of work where the cells can be enumerated
DEFAULT_BEYOND_CELLS = 4.0
"""The same over larger domains, where few families serve and soon level off."""
DEFAULT_PATHS = 20.0
"""Most seconds that the optimum for paths and Gaussian noise may take it to."""
DEFAULT_PER_ORDERED_CELL = 4e-3
"""The same for every ordered cell, where that is more, up to `DEFAULT_ORDERED` seconds."""
DEFAULT_PER_CELL_OF_RANGES = 2e-3
DEFAULT_ORDERED = 28.0
WORST_UPDATES = 16
"""Updates of the weights that the default allows for the largest error and Gaussian noise."""
DEFAULT_WORST = 24.0
"""Most seconds that they, and the optimum for the total over many cells, may take it to."""
BEFORE = 1.4  # that optimum's own price and what comes before it, as a multiple of the first


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
        Seconds to spend, on one core of the reference machine; 6 by default, more over
        thousands of ordered cells, for the largest error with Gaussian noise over more than a
        thousand cells, and for each further factor of a Kronecker product, 4 over domains too
        large to enumerate. It is turned into fixed numbers of iterations: it sets the amount of
        work, and no clock decides the result. A family whose shortest search is dearer than what
        is left is not tried, and `Strategy.candidates` says so. Should the portfolio take ten
        times as long, it starts no further family and the strategy says ``truncated``.
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
        limit = default_limit(problem) if given is None else given
        with reporting(progress) as report, one_thread():
            found = Portfolio(problem, able, generator, limit, report, method == "auto").run()
    return out_of_unit(found, problem.power)


def default_limit(problem: Problem) -> float:
    """Return the seconds of work for a problem when the user names none."""
    if isinstance(problem.workload, Kronecker) and problem.aim.groups is None:
        factors = searched_factors(problem.workload)  # they get what each would get alone
        alone = [Problem.of(one, problem.norm, problem.aim.objective) for one in factors]
        return max((len(alone) * default_limit(one) for one in alone), default=DEFAULT_TIME_LIMIT)
    paths = min(DEFAULT_PATHS, BEFORE * good_seconds(problem))
    if problem.merging is None:
        return max(DEFAULT_BEYOND_CELLS, paths)
    if paths > DEFAULT_TIME_LIMIT:
        return paths
    rows = climbable_rows(problem) if problem.norm == "l2" else None
    if rows is not None and long_prefix_rows(problem) is None:
        climb = WORST_UPDATES * joint_update_seconds(rows)
        return max(DEFAULT_TIME_LIMIT, min(DEFAULT_WORST, climb))
    large = problem.ranges is not None and problem.ranges.n > LARGEST
    if problem.ordered is None and not large and problem.norm == "l2" and problem.is_total:
        return max(DEFAULT_TIME_LIMIT, min(DEFAULT_WORST, BEFORE * least_seconds(problem)))
    ordered = problem.ordered or problem.ranges
    if ordered is None:
        return DEFAULT_TIME_LIMIT
    n = min(ordered.n, LARGEST_DENSE)
    if problem.norm == "l2":
        return max(DEFAULT_TIME_LIMIT, 0.0 if problem.ordered else DENSE_SECONDS * n**3)
    each = DEFAULT_PER_ORDERED_CELL if problem.ordered else DEFAULT_PER_CELL_OF_RANGES
    return max(DEFAULT_TIME_LIMIT, min(DEFAULT_ORDERED, each * n))


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
