"""The optimum for Gaussian noise, with its distance from optimal known.

``A = M^(-1/4) F`` at the best weights of `strategies.bounds.dual_weights`: r rows, one per
dimension of the workload's row space. For "l2" its loss over the lower bound is the certified gap;
for "l1" it is a start for the families that descend.
"""

from strategies.bounds.dual_weights import ascend, gaussian_strategy
from strategies.bounds.joint_weights import joint_strategy
from strategies.bounds.lower_bound import steps_within
from strategies.bounds.worst_bound import climbable_rows, joint_dual
from strategies.methods.family import BOTH_NORMS, BOTH_OBJECTIVES, Family, Search
from strategies.operators import Dense, Operator, fits
from strategies.problem.problem import Problem

TOLERANCE = 1e-6
LEAST_WORK = 4.0
"""Seconds of the reference machine that "l2" gets at least: here is the certified optimum."""
LARGEST = 2600
"""Merged cells up to which the eigenvalue problems stay within seconds."""


def gaussian_optimal(problem: Problem, search: Search) -> Operator:
    """Return the strategy of least loss for "l2", over the merged cells."""
    rows = climbable_rows(problem)
    if rows is not None:
        return Dense(joint_strategy(rows, joint_dual(problem, rows)))
    factor = problem.factor
    if factor is None:
        raise ValueError("workload is too large to enumerate: expected merged cells.")
    work = max(search.work, LEAST_WORK) if problem.norm == "l2" else search.work
    dual = ascend(factor, TOLERANCE, steps_within(factor, work))
    return Dense(gaussian_strategy(factor, dual))


def applies(problem: Problem) -> bool:
    """Tell whether the merged cells are few enough for a spectrum of their Gram."""
    if problem.merging is None:
        return False
    if not problem.is_total and climbable_rows(problem) is None:
        return False
    g = problem.merging.n_groups
    return g <= LARGEST and fits((g, g), 32)


FAMILY = Family(
    "gaussian_optimal",
    "merged",
    BOTH_NORMS,
    applies,
    gaussian_optimal,
    share=0.5,
    largest_for_l1=500,
    largest_if_ordered=64,
    objectives=BOTH_OBJECTIVES,
)
