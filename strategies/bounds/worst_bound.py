"""A certified lower bound on the largest error of a row, or of a group of rows, for both norms.

For tables of marginals: the weights of `strategies.bounds.closed_bounds`. Over other enumerable
cells: those of `strategies.bounds.joint_weights`, for prefix sums of any number of them
`strategies.bounds.prefix_weights`. Beyond them, what holds for any weights: the
largest of K sums is at least the total over K, and one row's error is at least its largest entry
squared, since ``w_ij = (w_i A⁺) a_j <= ||w_i A⁺|| ||a_j||``.
"""

from math import prod

import numpy as np

from strategies.bounds.climbs import WORK, climbable_rows, joint_dual, sampled_gram, uniform_bound
from strategies.bounds.closed_bounds import table_dual
from strategies.bounds.joint_weights import certified_joint_bound
from strategies.bounds.path_climb import paths_bound
from strategies.bounds.prefix_weights import long_prefix_rows, prefix_bound, prefix_dual
from strategies.bounds.unions.joint_tables import joint_bound
from strategies.bounds.unions.pinched_union import tables_bound
from strategies.operators import Marginals, Operator, RowScaled, fits
from strategies.operators.base.arrays import Bools
from strategies.operators.kronecker import kronecker_blocks
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.problem.distinct_rows import DistinctRows
from strategies.problem.objective import Aim
from strategies.problem.problem import Problem


def worst_bound(problem: Problem, work: float = WORK) -> float:
    """Return a bound that the largest error of no strategy can be below; 0 where none is known."""
    tables = table_dual(problem)
    if tables is not None:
        return max(tables.bound, largest_entries(problem.workload, problem.aim))
    prefix = long_prefix_rows(problem)
    if prefix is not None:
        return prefix_bound(prefix, prefix_dual(problem, prefix))
    product = product_bound(problem, work)
    if product is not None:
        return product
    rows, union = climbable_rows(problem), tables_bound(problem, work)
    if rows is not None:
        return max(
            union, certified_joint_bound(rows, joint_dual(problem, rows, work)), row_bound(rows)
        )
    count = problem.aim.n_groups(problem.workload.shape[0])
    entries = largest_entries(problem.workload, problem.aim)
    if union:
        return max(union, entries)
    return float(max(total_bound(problem, work) / count, entries))


def product_bound(problem: Problem, work: float = WORK) -> float | None:
    """Return the product of the bounds of a Kronecker product's factors, None where it is none.

    Products of weights of rows and of cells make the nuclear norm, a bound for both norms, one.
    """
    blocks = kronecker_blocks(problem.workload) or []
    if len(blocks) != 1 or problem.aim.groups is not None or len(blocks[0][1].factors) < 2:
        return None
    (weight, block), *_ = blocks
    each = work / len(block.factors)
    bounds = (worst_bound(Problem.of(one, "l2", "max"), each) for one in block.factors)
    return float(weight**2 * prod(bounds))


def row_bound(rows: DistinctRows) -> float:
    """Return the largest group's sum of squared largest entries of rows.

    >>> row_bound(DistinctRows(np.array([[1.0, 2.0]]), np.array([0]), np.array([0])))
    4.0
    """
    return rows.value(np.asarray(np.abs(rows.rows).max(axis=1) ** 2))


def total_bound(problem: Problem, work: float = WORK) -> float:
    """Return a bound on the total error of all rows: of tables, or at uniform weights of cells."""
    known = joint_bound(problem.summed(), work)
    if known:
        return known
    if problem.merging is not None and fits((problem.merging.n_groups,) * 2, 16):
        return uniform_bound(sampled_gram(problem))
    return paths_bound(problem.workload, work / 2) or 0.0


def largest_entries(workload: Operator, aim: Aim) -> float:
    """Return the largest sum of squared largest entries where the rows show them, else 0."""
    if isinstance(workload, Marginals):
        return max(workload.weights) ** 2 if aim.groups is None else 0.0
    inner = workload.inner if isinstance(workload, RowScaled) else workload
    scales = workload.weights if isinstance(workload, RowScaled) else np.ones(workload.shape[0])
    rows = mask_rows(inner)
    if rows is None or rows.mix is not None:
        return 0.0
    return aim.value(np.where(nonempty(rows), scales.astype(np.float64) ** 2, 0.0))


def nonempty(rows: MaskRows) -> Bools:
    """Tell which rows of masks have a cell."""
    return np.asarray(np.all([mask.any(axis=1) for mask in rows.masks], axis=0))
