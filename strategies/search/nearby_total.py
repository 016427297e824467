"""A problem of total error whose best strategies are good for the worst row as well.

With λ the weights of the groups at the optimum for Gaussian noise, the total of errors weighted by
λ has the same optimum. For Laplace noise it is a start near it. Every row keeps some weight, so
that the strategy determines it.
"""

import numpy as np

from strategies.bounds.worst_bound import climbable_rows, joint_dual
from strategies.problem.problem import Problem

EVEN = 0.1
"""Part of the weight that all groups share evenly."""


def total_near(problem: Problem) -> Problem:
    """Return the problem of a weighted total error; unweighted beyond enumerable cells."""
    rows = climbable_rows(problem)
    if rows is None:
        return problem.summed()
    shares = joint_dual(problem, rows).groups
    mixed = (1 - EVEN) * shares + EVEN / len(shares)
    weights = mixed[rows.groups][rows.origin]
    if problem.aim.groups is None:  # equal rows share one weight
        weights = weights / np.bincount(rows.origin[rows.origin >= 0])[rows.origin]
    weights = np.where(rows.origin < 0, 1.0, weights * rows.n_groups)
    return problem.summed(weights)
