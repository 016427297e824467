"""The optimum for Gaussian noise, with its distance from optimal known.

``A = M^(-1/4) F`` at the best weights of `strategies.bounds.dual_weights`: r rows, one per
dimension of the workload's row space. For "l2" its loss over the lower bound is the certified gap;
for "l1" it is a start for the families that descend.
"""

from strategies.bounds.climbs import (
    LARGEST,
    climbable_rows,
    factor_seconds,
    joint_dual,
    joint_update_seconds,
    moment_seconds,
    total_dual,
)
from strategies.bounds.dual_weights import gaussian_strategy
from strategies.bounds.joint_weights import joint_strategy
from strategies.bounds.ordered_dual import NODES
from strategies.bounds.path_climb import has_weighable_cells
from strategies.bounds.prefix_weights import long_prefix_rows, prefix_dual
from strategies.methods.family import (
    BEFORE,
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    Family,
    Search,
    enumerated,
    evaluation_seconds,
    factory,
    is_unordered,
)
from strategies.methods.ordered.streams import prefix_root
from strategies.operators import Dense, Operator, fits
from strategies.problem.problem import Problem

TOLERANCE = 1e-6
LARGEST_START = 500  # rank up to which it is a start for Laplace noise, seldom good above
MOST_OF_ALL = 0.7  # of the whole search's work for Gaussian noise, where nothing is better
WORST_UPDATES = 16  # of the weights of rows and cells, for the largest error
BRIEFLY = 0.6
"""Share of the prices of climbs, which are cautious, that the shortest one takes."""


def optimal_rows(problem: Problem, search: Search) -> Operator:
    """Return the strategy of least loss for "l2", over the merged cells."""
    prefix = long_prefix_rows(problem)
    if prefix is not None:
        return prefix_root(prefix, prefix_dual(problem, prefix))
    work = search.work if problem.norm == "l1" else max(search.work, MOST_OF_ALL * search.limit)
    rows = climbable_rows(problem)
    if rows is not None:
        return Dense(joint_strategy(rows, joint_dual(problem, rows, work)))
    factor = enumerated(problem.factor)
    return Dense(gaussian_strategy(factor, total_dual(problem, factor, TOLERANCE, work)))


def applies(problem: Problem) -> bool:
    """Tell whether cells are few, or many of few explicit rows, those for "l2" alone."""
    if problem.merging is None:
        return False
    if long_prefix_rows(problem) is not None:
        return fits((problem.merging.n_groups, NODES), 32)
    if not problem.is_total and climbable_rows(problem) is None:
        return False
    few = problem.merging.n_groups <= LARGEST
    return (few or problem.norm == "l2") and has_weighable_cells(problem)


def least_seconds(problem: Problem) -> float:
    """Return the seconds of two updates of the weights and of one evaluation."""
    if long_prefix_rows(problem) is not None:
        return 0.0
    rows = climbable_rows(problem)
    if rows is not None:
        return 3.0 * joint_update_seconds(rows)
    if problem.merging is None:
        return 0.0
    g = problem.merging.n_groups
    r = min(problem.workload.shape[0], g)
    begin = factor_seconds(r, g) + 2.0 * moment_seconds(r, g)
    return BRIEFLY * begin + evaluation_seconds(problem, r)


def good_seconds(problem: Problem) -> float:
    """Return the seconds of a search for Gaussian noise that ends near the optimum.

    Some updates of both weights for the largest error, more than the shortest climb for the total.
    """
    known = problem.ordered is not None or long_prefix_rows(problem) is not None
    if problem.norm == "l1" or known:
        return 0.0
    rows = climbable_rows(problem)
    if rows is not None:
        return WORST_UPDATES * joint_update_seconds(rows)
    return BEFORE * least_seconds(problem) if problem.is_total else 0.0


@factory
def gaussian_optimal() -> Family:
    """Measure the certified optimum for Gaussian noise: few enough cells for a spectrum."""
    return Family(
        "gaussian_optimal",
        "merged",
        BOTH_NORMS,
        applies,
        optimal_rows,
        share=0.5,
        least=least_seconds,
        good=good_seconds,
        worthwhile=lambda problem: is_unordered(problem, rank=LARGEST_START),
        objectives=BOTH_OBJECTIVES,
    )
