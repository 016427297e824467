"""Least squares under what is public: totals, signs of counts, and constraints of a user's own.

The estimate of the total is ``1ᵀx = sᵀy`` with ``s = (A⁺)ᵀ1``. Of all linear estimates that meet
a total, the least variance has ``u + g (N - sᵀy)`` with ``g = W A⁺ s / sᵀs``: what the noise of the
total says about the noise of each answer. A user's constraints meet Clarabel, through cvxpy.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import estimated_cells, recovered_squares
from mrf_matrix.mechanisms.measurement.measure import (
    check_determined,
    checked_workload,
    determined_estimate,
)
from mrf_matrix.reconstruction.estimate import (
    Estimate,
    PooledReleases,
    agree_with_totals,
    combine,
    exact_counts,
    exact_estimate,
    exact_where_near,
    pool_releases,
    total_weights,
)
from mrf_matrix.reconstruction.feasible_tables import (
    FeasibleTables,
    constrained_least_squares,
    nearest,
)
from strategies.allocation.conic import checked_affine, solve_conic
from strategies.operators import Identity, MemoryCapError, Operator, check_allocation, over_groups
from strategies.operators.base.arrays import plain_floats
from strategies.problem.merging import can_merge, merge_columns


def with_known_totals(
    releases: Release | Sequence[Release],
    workload: object,
    *,
    class_totals: object = None,
    total: float | None = None,
) -> Estimate:
    """Answer a workload by least squares under public totals.

    **Public means known from elsewhere**: under add/remove neighbours the number of records is
    private, and under replace-one the number of each class is. Totals counted from the private
    records break the guarantee.

    Parameters
    ----------
    releases : Release or sequence of Release
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    class_totals : array-like of shape (k,), optional
        Records of each class.
    total : float, optional
        Records of all classes together. Exactly one of the two.

    Returns
    -------
    Estimate
        Unbiased if the totals are right. With u the estimate without constraint, of variance
        ``v_r``, and ``τ²`` the variance of a class's estimated total, row r has variance
        ``v_r - g_r² τ²`` under class totals and ``v_r - g_r² τ²/k`` under one total.

    Raises
    ------
    RowSpaceError
        If rows of the workload are no combination of the strategies' rows.
    TypeError, ValueError
        If an argument is not of the kind described.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(1), noise="research", random_state=0)
    >>> fitted = with_known_totals(release, np.eye(3), class_totals=[3])
    >>> round(fitted.values.sum(), 9), (fitted.variances / release.variance).round(4)
    (np.float64(3.0), array([0.6667, 0.6667, 0.6667]))
    """
    queries = checked_workload(workload)
    pool = pool_releases(releases)
    known, shared = checked_totals(pool.n_classes, class_totals, total)
    weights = total_weights(pool)
    if weights is None:
        return replace(
            combine(releases, queries),
            note="The strategies do not determine the total, so knowing it changes nothing.",
        )
    both = determined_estimate(queries, pool.matrix, np.column_stack([pool.answers, weights]))
    gain = both[:, -1] / (weights @ weights)
    missing = (
        known - weights @ pool.answers
        if not shared
        else np.full(pool.n_classes, (known[0] - (weights @ pool.answers).sum()) / pool.n_classes)
    )
    free = recovered_squares(queries, pool.matrix)
    removed = gain**2 * (weights @ weights) / (pool.n_classes if shared else 1)
    values = both[:, :-1] + np.outer(gain, missing)
    if pool.variance == 0:
        values = exact_where_near(values, exact_counts(queries, pool.matrix, pool.answers))
    return Estimate(
        values=values,
        variances=pool.variance * np.maximum(free - removed, 0.0),
        method=f"least squares under {'a public total' if shared else 'public class totals'}",
        claim=pool.claim,
    )


def checked_totals(n_classes: int, class_totals: object, total: object) -> tuple[Array, bool]:
    """Return the totals, and whether it is one for all classes together, or refuse."""
    if (class_totals is None) == (total is None):
        raise ValueError(
            f"class_totals={class_totals!r} and total={total!r}: expected exactly one of them."
        )
    shared = class_totals is None
    name, length = ("total", 1) if shared else ("class_totals", n_classes)
    given = np.atleast_1d(np.asarray(total if shared else class_totals, dtype=np.float64))
    if given.shape != (length,) or not np.isfinite(given).all() or given.min() < 0:
        raise ValueError(
            f"{name}={total if shared else class_totals!r}: expected {length} finite number"
            f"{'s' if length > 1 else ''}, not negative."
        )
    return given, shared


if TYPE_CHECKING:
    import cvxpy as cp


Per = Literal["class", "cell"]

BIASED = (
    "Biased upward where cells are empty, for negative noise is cut off: the expected error "
    "depends on the data and is not known. The biases of many cells add up in their sum, unless "
    "totals are known."
)


def nonnegative_least_squares(
    releases: Release | Sequence[Release],
    workload: object,
    *,
    class_totals: object = None,
    total: float | None = None,
) -> Estimate:
    """Answer a workload by least squares over tables without negative counts.

    Minimises ``Σ ||A_i X - y_i||² / v_i`` over ``X >= 0``, the counts of the cells that the
    releases tell apart, and answers ``W X``. Under totals the columns of X, or all of X, sum to
    them.

    Parameters
    ----------
    releases : Release or sequence of Release
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    class_totals : array-like of shape (k,), optional
        Public records of each class.
    total : float, optional
        Public records of all classes together.

    Returns
    -------
    Estimate
        Without variances; without noise, the counts themselves.

    Raises
    ------
    RowSpaceError
        If the releases do not determine the workload.
    MemoryCapError
        If the cells cannot be enumerated.
    RuntimeError
        If the strategy is too badly conditioned for the descent.

    Notes
    -----
    Single cells of sparse data gain. Sums of many cells that were measured one by one lose: each
    empty cell adds a positive bias. Totals, public or measured themselves, hold it down.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(0.1), noise="research", random_state=2)
    >>> nonnegative_least_squares(release, np.eye(3)).values.min() >= 0
    np.True_
    """
    pool, queries = merged_cells(releases, workload)
    known = class_totals is not None or total is not None
    sums = checked_totals(pool.n_classes, class_totals, total) if known else (None, False)
    method = "non-negative least squares"
    if _are_exact(pool, class_totals, total):
        return exact_estimate(queries, pool, method)
    deviation = float(np.sqrt(pool.variance))
    tables = FeasibleTables(*sums)
    counts = constrained_least_squares(pool.matrix, pool.answers, tables, deviation)
    return _biased_estimate(queries, pool, counts, method)


def nearest_on_simplex(
    releases: Release | Sequence[Release],
    workload: object,
    *,
    per: Per = "class",
    class_totals: object = None,
) -> Estimate:
    """Answer a workload from least-squares counts of the cells, projected onto simplices.

    Cheaper than `nonnegative_least_squares`, and the same where each cell was measured once. Counts
    of each class over the cells (``per="class"``), or of each cell over the classes
    (``per="cell"``), become non-negative with the sum that they had, or 0 where that is negative.

    Parameters
    ----------
    releases : Release or sequence of Release
        Must determine every group of cells they tell apart.
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    per : {"class", "cell"}, default="class"
    class_totals : array-like of shape (k,), optional
        Public records of each class, in place of estimated ones; for ``per="class"`` only.

    Returns
    -------
    Estimate
        Without variances; without noise, the counts themselves.

    Raises
    ------
    RowSpaceError, MemoryCapError
        If the releases do not determine workload or cells, or these cannot be enumerated.
    """
    if per not in get_args(Per):
        raise ValueError(f"per={per!r}: expected 'class' or 'cell'.")
    if class_totals is not None and per == "cell":
        raise ValueError("class_totals was given with per='cell': expected per='class'.")
    pool, queries = merged_cells(releases, workload)
    check_determined(Identity(pool.matrix.shape[1]), pool.matrix)
    method = f"simplex projection per {per}"
    if class_totals is not None:
        class_totals, _ = checked_totals(pool.n_classes, class_totals, None)
    if _are_exact(pool, class_totals, None):
        return exact_estimate(queries, pool, method)
    counts = estimated_cells(pool.matrix, pool.answers)
    if counts is None:
        counts = pool.matrix.least_squares(pool.answers)
    vectors = counts if per == "class" else counts.T
    sums = np.maximum(vectors.sum(axis=0), 0.0)
    if class_totals is not None:
        sums = class_totals
    projected = nearest(vectors, sums, np.ones(len(vectors)))
    counts = projected if per == "class" else projected.T
    return _biased_estimate(queries, pool, counts, method)


def _are_exact(pool: PooledReleases, class_totals: object, total: object) -> bool:
    """Tell whether the answers are counts, which no constraint that they meet can improve."""
    if pool.variance > 0:
        return False
    return agree_with_totals(pool.matrix, pool.answers, class_totals, total)


def _biased_estimate(
    queries: Operator, pool: PooledReleases, counts: Array, method: str
) -> Estimate:
    values = queries.matmat(counts)
    return Estimate(values=values, variances=None, method=method, note=BIASED, claim=pool.claim)


def merged_cells(
    releases: Release | Sequence[Release], workload: object
) -> tuple[PooledReleases, Operator]:
    """Bring releases and workload to the groups of cells that the releases tell apart.

    Raises RowSpaceError if the releases do not determine the workload; MemoryCapError if the
    domain's cells cannot be enumerated.
    """
    queries = checked_workload(workload)
    pool = pool_releases(releases)
    if not can_merge(pool.matrix):
        raise MemoryCapError(
            f"releases: {pool.matrix.shape[1]} cells are too many to estimate one by one within "
            f"the memory cap. Expected a smaller domain; combine(...) needs no cells."
        )
    check_determined(queries, pool.matrix)
    merging = merge_columns(pool.matrix)
    matrix = merging.apply(pool.matrix)
    reduced = queries if merging.is_trivial else over_groups(queries, merging.grouping)
    return replace(pool, matrix=matrix), reduced


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
