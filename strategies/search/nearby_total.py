"""A problem of total error whose best strategies are good for the worst row as well.

With λ the weights of the groups at the optimum for Gaussian noise, the total of errors weighted by
λ has the same optimum. For Laplace noise it is a start near it. Every row keeps some weight, so
that the strategy determines it.
"""

from dataclasses import replace

import numpy as np

from strategies.bounds.climbs import climbable_rows, joint_dual, joint_update_seconds
from strategies.bounds.closed_bounds import table_dual
from strategies.operators import Marginals
from strategies.problem.objective import Aim
from strategies.problem.problem import Problem

EVEN = 0.1  # part of the weight that all groups share evenly
LEAST_STEPS = 3  # updates of the weights below which they stay even


def total_near(problem: Problem, work: float) -> Problem:
    """Return the problem of a weighted total error; unweighted where weights cost too much.

    They are climbed within a work allowance in seconds of the reference machine. Tables of
    marginals are weighted at any size, and for Gaussian noise to the optimum itself.
    """
    dual, tables = table_dual(problem), problem.workload
    if dual is not None and isinstance(tables, Marginals):
        each = dual.weights / np.array([float(count) for count in tables.rows])
        scales = (np.asarray(tables.weights) * np.sqrt(each)).tolist()
        scaled = Marginals(tables.domain_sizes, tables.attribute_sets, scales)
        return replace(problem, workload=scaled, aim=Aim())
    rows = climbable_rows(problem)
    if rows is None or LEAST_STEPS * joint_update_seconds(rows) > work:
        return problem.summed()
    shares = joint_dual(problem, rows, work).groups
    mixed = (1 - EVEN) * shares + EVEN / len(shares)
    weights = mixed[rows.groups][rows.origin]
    if problem.aim.groups is None:  # equal rows share one weight
        weights = weights / np.bincount(rows.origin[rows.origin >= 0])[rows.origin]
    weights = np.where(rows.origin < 0, 1.0, weights * rows.n_groups)
    return problem.summed(weights)
