"""The largest error of a row, or of a group of rows, and a total error near it.

The error is recomputed from the matrix itself. With λ the weights of the groups at the optimum for
Gaussian noise, the total of errors weighted by λ has the same optimum. For Laplace noise it is a
start near it. Every row keeps some weight, so that the strategy determines it.
"""

from dataclasses import replace

import numpy as np

from strategies.bounds.climbs import climbable_rows, joint_dual, joint_update_seconds
from strategies.bounds.closed_bounds import table_dual
from strategies.bounds.prefix_weights import prefix_dual, prefix_rows
from strategies.operators import (
    Array,
    Identity,
    JointMarginals,
    Kronecker,
    Marginals,
    Operator,
    Partition,
    Semiseparable,
    Toeplitz,
    row_errors,
)
from strategies.operators.explicit import Dense
from strategies.operators.masks.components import mask_rows, table_components
from strategies.operators.product import Product
from strategies.operators.tables.weighted_tables import ProductTables, WeightedTables
from strategies.problem.objective import Aim
from strategies.problem.problem import Problem

EVEN = 0.1  # part of the weight that all groups share evenly
LEAST_STEPS = 3  # updates of the weights below which they stay even


def worst_error(problem: Problem, matrix: Operator) -> float:
    """Return the largest ``Σ_{i in G} ||(W A⁺)_i||²`` over the groups G of rows.

    Raises RowSpaceError if the matrix does not determine a row.
    """
    tables = table_errors(problem, matrix)
    if tables is not None:
        return float(tables.max())
    merging, distinct = problem.merging, None
    lifted = matrix_over_groups(problem, matrix)
    if merging is not None and lifted is not None:
        distinct = problem.distinct_rows
    if distinct is not None and lifted is not None:
        return distinct.value(row_errors(Dense(distinct.rows), lifted))
    return problem.aim.value(row_errors(problem.workload, matrix))


def matrix_over_groups(problem: Problem, matrix: Operator) -> Operator | None:
    """Return a matrix over the merged cells where that is what it is, else None."""
    merging = problem.merging
    if merging is None:
        return None
    if merging.is_trivial:
        ruled = (WeightedTables, JointMarginals, Partition, Kronecker, Identity)
        by_rules = isinstance(matrix, (*ruled, Semiseparable, Toeplitz))
        return None if by_rules else matrix
    if matrix is merging.grouping or (
        isinstance(matrix, Product) and matrix.right is merging.grouping
    ):
        return merging.average(matrix)
    return None


def table_errors(problem: Problem, matrix: Operator) -> Array | None:
    """Return one row's error of every table of a workload of marginals too large to list.

    All rows of a table have the same error under marginals. None where rows can be listed, or are
    grouped by the user.
    """
    workload = problem.workload
    if not (isinstance(workload, Marginals) and isinstance(matrix, ProductTables)):
        return None
    if not matrix.is_diagonal:
        return None
    if problem.aim.groups is not None or mask_rows(workload) is not None:
        return None
    if workload.sizes != matrix.sizes:
        return None
    parts = table_components(workload.domain_sizes, workload.attribute_sets, workload.weights)
    return matrix.errors_of(parts)


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
        prefix = prefix_rows(problem)
        if prefix is None:
            return problem.summed()
        shares = prefix_dual(problem, prefix).groups
        mixed = (1 - EVEN) * shares + EVEN / len(shares)
        return problem.summed(mixed[prefix.origin] * len(shares))
    shares = joint_dual(problem, rows, work).groups
    mixed = (1 - EVEN) * shares + EVEN / len(shares)
    weights = mixed[rows.groups][rows.origin]
    if problem.aim.groups is None:  # equal rows share one weight
        weights = weights / np.bincount(rows.origin[rows.origin >= 0])[rows.origin]
    weights = np.where(rows.origin < 0, 1.0, weights * rows.n_groups)
    return problem.summed(weights)
