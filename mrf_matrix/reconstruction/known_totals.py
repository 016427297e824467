"""Least squares under totals that are public anyway.

The estimate of the total is ``1ᵀx = sᵀy`` with ``s = (A⁺)ᵀ1``. Of all linear estimates that meet
the constraint, the least variance has ``u + g (N - sᵀy)`` with ``g = W A⁺ s / sᵀs``: what the noise
of the total says about the noise of each answer.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsqr

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from mrf_matrix.mechanisms.measurement.measure import (
    check_determined,
    checked_workload,
    determined_estimate,
)
from mrf_matrix.reconstruction.estimate import (
    Estimate,
    PooledReleases,
    combine,
    exact_counts,
    exact_where_near,
    pool_releases,
)
from strategies.operators import RowSpaceError, cross_gram, fits
from strategies.operators.base.recovery import check_countable

TOLERANCE = 1e-6  # relative residual above which the total lies outside the strategies' row space


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


def total_weights(pool: PooledReleases) -> Array | None:
    """Return the least s with ``sᵀA = 1ᵀ``, shape (m,), or None where there is none."""
    m, n = pool.matrix.shape
    if fits((n, 8)):
        weights = _solve_by_lsqr(pool, m, n)
        if np.linalg.norm(pool.matrix.rmatmat(weights) - 1.0) <= TOLERANCE * np.sqrt(n):
            return weights
        try:
            check_determined(pool.total_row, pool.matrix)
        except RowSpaceError:
            return None
        if fits((m, n), 16):
            return np.asarray(linalg.lstsq(pool.matrix.to_dense().T, np.ones(n), cond=1e-12)[0])
    check_countable(pool.matrix)
    cross = cross_gram(pool.matrix, pool.total_row)[:, 0]
    weights = np.asarray(linalg.lstsq(pool.matrix.row_gram(), cross, cond=1e-12)[0])
    # |sᵀA - 1ᵀ|² = n - sᵀA1, over n
    return weights if 1 - float(weights @ cross) / n <= 1e-9 else None


def _solve_by_lsqr(pool: PooledReleases, m: int, n: int) -> Array:
    """Solve ``Aᵀs = 1`` by LSQR, whose limit is the least solution (Paige and Saunders, 1982)."""
    transpose = LinearOperator(
        (n, m), matvec=pool.matrix.rmatmat, rmatvec=pool.matrix.matmat, dtype=np.float64
    )
    solved = lsqr(transpose, np.ones(n), atol=1e-14, btol=1e-14, iter_lim=8 * min(m, n) + 100)
    return np.asarray(solved[0], dtype=np.float64)
