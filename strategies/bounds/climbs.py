"""Weights of a problem's cells: climbed once for searches and certificate, or uniform.

Work allowances are in seconds of the reference machine. A climb is taken up again where it ended
once more work is allowed.
"""

from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse

from strategies.bounds.dual_weights import MARGIN, Climb, Dual, root_traces, uniform_climb
from strategies.bounds.joint_weights import JointDual, joint_climb
from strategies.operators import Array, Gram, Operator
from strategies.operators.base.validation import densified
from strategies.problem.distinct_rows import DistinctRows
from strategies.problem.problem import Problem

WORK = 4.0  # seconds that a bound may cost
LARGEST = 2600  # merged cells, or rows, up to which weights are climbed
MOST_STEPS = 400
JOINT_GAPS = ((5e-4, 1e-7), (0.1, 1e-4), (float("inf"), 5e-4))
"""Seconds of one step, and the gap at which a joint climb stops where it takes no longer."""
MOST_CELLS = 3500  # cells that carry weight where there are more
LONGEST = 60.0
"""Seconds that the first weights of a bound may cost. Two updates for 5 000 rows over 11 135 cells
prove 8 352 in 489 s, weights by length 8 400 in 13 s."""
SPEED = 6e10  # operations a second of the reference machine in matrix products

_TOTAL: "WeakKeyDictionary[Problem, Climb[Dual]]" = WeakKeyDictionary()
_JOINT: "WeakKeyDictionary[Problem, Climb[JointDual]]" = WeakKeyDictionary()


def total_dual(problem: Problem, factor: Array, tolerance: float, work: float) -> Dual:
    """Return the weights of the cells for the total error, F the factor of the problem's Gram."""
    climb = _TOTAL.get(problem)
    if climb is None:
        climb = _TOTAL[problem] = uniform_climb(factor)
    return climb.to(tolerance, steps_within(update_seconds(factor), work))


def joint_dual(problem: Problem, rows: DistinctRows, work: float) -> JointDual:
    """Return the weights of a problem's groups of rows and cells for the worst error."""
    climb = _JOINT.get(problem)
    if climb is None:
        climb = _JOINT[problem] = joint_climb(rows)
    seconds = joint_update_seconds(rows, len(rows.factor))
    tolerance = next(gap for most, gap in JOINT_GAPS if seconds <= most)
    return climb.to(tolerance, min(MOST_STEPS, steps_within(seconds, work)))


def climbable_rows(problem: Problem) -> DistinctRows | None:
    """Return the rows of a problem whose joint weights can be climbed, else None."""
    merging = problem.merging
    if problem.is_total or merging is None or merging.n_groups > LARGEST:
        return None
    rows = problem.distinct_rows
    return rows if rows is not None and len(rows.rows) <= 4 * LARGEST else None


def is_bearable(problem: Problem, g: int) -> bool:
    """Tell whether weights of g cells were climbed by a search, or are begun in bearable time."""
    r = min(problem.workload.shape[0], g)
    return problem in _TOTAL or factor_seconds(r, g) + 2.0 * moment_seconds(r, g) <= LONGEST


def steps_within(seconds: float, work: float) -> int:
    """Return how many updates of some seconds a work allowance covers, at least two."""
    return max(2, int(work / seconds))


def update_seconds(factor: Array) -> float:
    """Return the seconds of one update of the cells' weights on the reference machine."""
    return moment_seconds(*factor.shape)


def moment_seconds(r: int, g: int) -> float:
    """Return the seconds of one spectrum of ``F diag(y) Fᵀ`` for F of shape (r, g)."""
    return float(1e-4 + (4.0 * r**2 * g + 25.0 * r**3) / SPEED)


def factor_seconds(r: int, g: int) -> float:
    """Return the seconds of a factor (r, g) of a workload's Gram on the reference machine."""
    return float((10.0 * r**2 * g + 25.0 * r**3) / SPEED)


def joint_update_seconds(rows: DistinctRows, rank: int | None = None) -> float:
    """Return the seconds of one update of both weights on the reference machine.

    For a rank of the rows, the largest possible by default: their factor takes as long again.
    """
    k, g = rows.rows.shape
    r = min(k, g) if rank is None else rank
    return float(1e-4 + r * r * (6.0 * (g + k) + 25.0 * r) / SPEED)


def uniform_bound(gram: Array) -> float:
    """Return the bound for uniform weights, rounded down: the SVD bound ``||W||_*² / g``.

    One spectrum of the Gram ``WᵀW`` (g, g), without eigenvectors.
    """
    return float(root_traces(gram) ** 2 / len(gram) * (1.0 - MARGIN))


def heavy_bound(merged: Operator) -> float:
    """Return the bound for weights of cells that go by their columns' lengths to the fourth power.

    One spectrum of the rows' inner products: for few rows, whose cells are too many to climb on.
    """
    form, weights = merged.compact(), merged.column_norms("l2") ** 4
    gram = densified(form @ sparse.diags_array(weights / weights.sum()) @ form.T)
    return float(root_traces(gram, merged.shape[1]) ** 2 * (1.0 - MARGIN))


def sampled_gram(problem: Problem) -> Array:
    """Return the Gram over evenly spaced merged cells, at most `MOST_CELLS` of them.

    Weights on some of the cells only prove a bound too, at the price of a smaller spectrum.
    """
    merged, merging = problem.merged_workload, problem.merging
    if merged is None or merging is None:
        raise ValueError("workload is too large to enumerate: expected merged cells.")
    g = merging.n_groups
    if g <= MOST_CELLS and problem.gram is not None:
        return problem.gram
    cells = np.unique(np.linspace(0, g - 1, min(g, MOST_CELLS)).astype(np.int64))
    if isinstance(merged, Gram):
        return np.asarray(merged.array[np.ix_(cells, cells)])
    part = merged.columns(cells)
    return densified(part.T @ part)
