"""Generalised least squares: every release counts by how little noise it carries."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import (
    checked_workload,
    determined_estimate,
    recovered_squares,
)
from mrf_matrix.reconstruction.estimate import Estimate
from mrf_matrix.reconstruction.exact_counts import exact_counts
from mrf_matrix.reconstruction.pooling import pool_releases


def combine(releases: Release | Sequence[Release], workload: object) -> Estimate:
    """Answer a workload from one or several releases by generalised least squares.

    With strategies ``A_i``, answers ``y_i`` and noise variances ``v_i``, and ``A`` and ``y`` the
    stacks of ``A_i / √v_i`` and ``y_i / √v_i``, the answers are ``W A⁺ y``: of all unbiased linear
    estimates the one with the least variance, ``||(W A⁺)_r||²`` (Aitken, 1935).

    Parameters
    ----------
    releases : Release or sequence of Release
        Measurements of the same records over the same domain, with strategies, budgets and
        noises of their own. That the records are the same cannot be checked.
    workload : ndarray, scipy sparse or Operator of shape (q, n)
        Queries in the row space of the strategies *together*.

    Returns
    -------
    Estimate
        Unbiased, with exact variances.

    Raises
    ------
    RowSpaceError
        If rows of the workload are no combination of the strategies' rows; it names them.
    TypeError, ValueError
        If releases or workload are not of the kind described.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> cells = measure(np.eye(3), counts, PureDP(1), noise="research", random_state=0)
    >>> total = measure(np.ones((1, 3)), counts, PureDP(1), noise="research", random_state=1)
    >>> alone, both = combine(cells, np.ones((1, 3))), combine([cells, total], np.ones((1, 3)))
    >>> round(both.expected_error / alone.expected_error, 12)
    0.25
    """
    queries = checked_workload(workload)
    pool = pool_releases(releases)
    if pool.variance == 0:
        values = exact_counts(queries, pool.matrix, pool.answers)
        return Estimate(
            values=values,
            variances=np.zeros(len(values)),
            method="least squares, no noise",
            claim=pool.claim,
        )
    values = determined_estimate(queries, pool.matrix, pool.answers)
    variances = pool.variance * recovered_squares(queries, pool.matrix)
    return Estimate(
        values=values, variances=variances, method="generalised least squares", claim=pool.claim
    )
