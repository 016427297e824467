"""A certified lower bound on the largest error of a row, or of a group of rows, for both norms.

Over enumerable cells: the weights of `strategies.bounds.joint_weights`. Beyond them, what holds
for any weights: the largest of K sums is at least the total over K, and one row's error is at least
its largest entry squared, since ``w_ij = (w_i A⁺) a_j <= ||w_i A⁺|| ||a_j||``.
"""

from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg

from strategies.bounds.dual_weights import MARGIN
from strategies.bounds.implicit_bound import implicit_bound
from strategies.bounds.joint_weights import JointDual, certified_joint_bound, climb
from strategies.operators import Marginals, Norm, Operator, RowScaled
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.problem.distinct_rows import DistinctRows
from strategies.problem.objective import Aim
from strategies.problem.problem import Problem

TOLERANCE = 1e-4
"""Gap at which the climb stops."""
COARSE = 5e-4
"""The same where one step takes longer than `COSTLY` seconds."""
COSTLY = 0.1
WORK: dict[Norm, float] = {"l1": 4.0, "l2": 24.0}
"""Seconds of the reference machine that a climb may cost: for "l2" it is the search itself."""
LARGEST = 2600
"""Merged cells, or rows, up to which the weights are climbed."""
MOST_STEPS = 400
SPEED = 6e10
"""Operations a second of the reference machine in matrix products."""

_DUALS: "WeakKeyDictionary[DistinctRows, JointDual]" = WeakKeyDictionary()


def worst_bound(problem: Problem) -> float:
    """Return a bound that the largest error of no strategy can be below; 0 where none is known."""
    rows = climbable_rows(problem)
    if rows is not None:
        return max(certified_joint_bound(rows, joint_dual(problem, rows)), row_bound(rows))
    count = problem.aim.n_groups(problem.workload.shape[0])
    return float(max(total_bound(problem) / count, entry_bound(problem.workload, problem.aim)))


def climbable_rows(problem: Problem) -> DistinctRows | None:
    """Return the rows of a problem whose joint weights can be climbed, else None."""
    merging = problem.merging
    if problem.is_total or merging is None or merging.n_groups > LARGEST:
        return None
    rows = problem.distinct_rows
    return rows if rows is not None and len(rows.rows) <= 4 * LARGEST else None


def joint_dual(problem: Problem, rows: DistinctRows) -> JointDual:
    """Return the joint weights of a problem's rows, climbed once for as long as the rows live."""
    known = _DUALS.get(rows)
    if known is None:
        tolerance = TOLERANCE if step_cost(rows) < COSTLY else COARSE
        known = climb(rows, tolerance, steps_within(rows, WORK[problem.norm]))
        _DUALS[rows] = known
    return known


def steps_within(rows: DistinctRows, work: float) -> int:
    """Return how many updates of the weights a work allowance covers, at least two."""
    return max(2, min(MOST_STEPS, int(work / step_cost(rows))))


def step_cost(rows: DistinctRows) -> float:
    """Return the seconds of one update on the reference machine."""
    (k, g), r = rows.rows.shape, len(rows.factor)
    return float(1e-4 + r * r * (6.0 * (g + k) + 25.0 * r) / SPEED)


def row_bound(rows: DistinctRows) -> float:
    """Return the largest group's sum of squared largest entries of rows.

    Examples
    --------
    >>> row_bound(DistinctRows(np.array([[1.0, 2.0]]), np.array([0]), np.array([0])))
    4.0
    """
    return rows.value(np.asarray(np.abs(rows.rows).max(axis=1) ** 2))


def total_bound(problem: Problem) -> float:
    """Return a bound on the total error of all rows, for uniform weights of the cells."""
    gram = None if problem.merging is None else problem.gram
    if gram is not None:
        values = linalg.eigvalsh(gram, check_finite=False)
        error = 8.0 * len(gram) * np.finfo(float).eps * values[-1]
        root = np.sqrt(np.maximum(values - error, 0.0)).sum()
        return float(root**2 / len(gram) * (1.0 - MARGIN))
    found = implicit_bound(problem.workload)
    return 0.0 if found is None else found.value


def entry_bound(workload: Operator, aim: Aim) -> float:
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
