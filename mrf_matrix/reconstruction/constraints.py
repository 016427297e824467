"""Least squares under public constraints: the plain estimators where they do, else a conic solver.

The constraints are a user's own, so they meet a general solver: Clarabel, through cvxpy.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.base.arrays import plain_floats
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import check_determined, checked_workload
from mrf_matrix.reconstruction.estimate import Estimate, combine, exact_counts, exact_where_near
from mrf_matrix.reconstruction.known_totals import checked_totals, with_known_totals
from mrf_matrix.reconstruction.nonnegative import nonnegative_least_squares
from mrf_matrix.reconstruction.pooling import pool_releases
from strategies.allocation.conic import checked_affine, solve_conic
from strategies.operators import MemoryCapError, check_allocation
from strategies.problem.merging import can_merge

if TYPE_CHECKING:
    import cvxpy as cp

CountConstraint = Callable[["cp.Variable"], object]

NOTE = (
    "Unbiased only as far as constraints are equalities that hold: what an inequality cuts off "
    "depends on the data, and so does the expected error."
)


def least_squares(
    releases: Release | Sequence[Release],
    workload: object,
    constraints: CountConstraint | Sequence[CountConstraint] = (),
    *,
    nonnegative: bool = False,
    class_totals: object = None,
    total: float | None = None,
) -> Estimate:
    """Answer a workload by least squares over tables of counts that meet public constraints.

    Minimises ``Σ ||A_i X - y_i||² / v_i`` over the tables X (n, k), and answers ``W X``. Without
    constraints of one's own this is `nonnegative_least_squares`, `with_known_totals` or `combine`.

    Parameters
    ----------
    releases : Release or sequence of Release
        Of the same records. All share one table, so what one release says of a query is what
        every other one says.
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    constraints : callable or sequence of callable, optional
        Each takes the counts, a cvxpy variable of shape (n, k), and returns affine constraints;
        `rising` and `equal_to` make such. They must be public, or come from releases.
    nonnegative : bool, default=False
        Whether no count is negative.
    class_totals : array-like of shape (k,), optional
    total : float, optional
        Public records of each class, or of all together.

    Returns
    -------
    Estimate
        Without variances where there are constraints of one's own or no count is negative.

    Raises
    ------
    RowSpaceError
        If the releases do not determine the workload.
    MemoryCapError
        If the cells cannot be enumerated.
    ValueError
        If no table meets the constraints.
    TypeError
        If a constraint is not affine.
    RuntimeError
        If the solver fails.

    Notes
    -----
    The solver's gap of 1e-8 of the misfit leaves answers within about a thousandth of the noise.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(1), noise="research", random_state=0)
    >>> release.values.ravel()
    array([ 2., -1.,  0.])
    >>> least_squares(release, np.eye(3), rising(np.eye(3)), total=3).values.round(6).ravel()
    array([1., 1., 1.])
    """
    asked = [constraints] if callable(constraints) else list(constraints)
    if not asked and nonnegative:
        return nonnegative_least_squares(releases, workload, class_totals=class_totals, total=total)
    if not asked and class_totals is None and total is None:
        return combine(releases, workload)
    if not asked:
        return with_known_totals(releases, workload, class_totals=class_totals, total=total)
    return _conic(releases, workload, asked, nonnegative, class_totals, total)


def _conic(
    releases: Release | Sequence[Release],
    workload: object,
    asked: Sequence[CountConstraint],
    nonnegative: bool,
    class_totals: object,
    total: float | None,
) -> Estimate:
    import cvxpy as cp

    queries, pool = checked_workload(workload), pool_releases(releases)
    n, k = pool.matrix.shape[1], pool.n_classes
    if not can_merge(pool.matrix):
        raise MemoryCapError(f"releases over {n} cells: expected cells that can be enumerated.")
    check_determined(queries, pool.matrix)
    check_allocation("counts and their residuals", (n + pool.matrix.shape[0], 4 * k))
    counts = cp.Variable((n, k), nonneg=nonnegative)
    known = [] if class_totals is None and total is None else [(class_totals, total)]
    sums = [checked_totals(k, *one) for one in known]
    met = [
        (cp.sum(counts) if shared else cp.sum(counts, axis=0)) == totals for totals, shared in sums
    ]
    for one in asked:
        met += checked_affine(one(counts))
    misfit = cp.sum_squares(pool.matrix.compact() @ counts - pool.answers)
    solve_conic(cp.Problem(cp.Minimize(misfit / (pool.variance or 1.0)), met))
    found = np.maximum(counts.value, 0.0) if nonnegative else counts.value
    values = queries.matmat(found)
    if pool.variance == 0:
        values = exact_where_near(values, exact_counts(queries, pool.matrix, pool.answers))
    return Estimate(
        values=values,
        variances=None,
        method="least squares under constraints",
        note=NOTE,
        claim=pool.claim,
    )


def rising(queries: object) -> CountConstraint:
    """Return the constraint that answers never fall from a query to the next, in every class.

    Parameters
    ----------
    queries : ndarray, scipy sparse or Operator of shape (q, n)
        In order. For answers that never rise, give them in the other order.
    """
    rows = checked_workload(queries).compact()
    return lambda counts: [(rows[1:] - rows[:-1]) @ counts >= 0]


def equal_to(queries: object, values: object) -> CountConstraint:
    """Return the constraint that queries have given answers: those of another release, say.

    Parameters
    ----------
    queries : ndarray, scipy sparse or Operator of shape (q, n)
    values : array-like of shape (q, k)
        Public, or released before.
    """
    rows, answers = checked_workload(queries), plain_floats("values", values)
    if answers.ndim != 2 or len(answers) != rows.shape[0] or not np.isfinite(answers).all():
        raise ValueError(
            f"values has shape {answers.shape}: expected finite answers of shape "
            f"({rows.shape[0]}, k), a row for each query."
        )
    return lambda counts: [rows.compact() @ counts == answers]
