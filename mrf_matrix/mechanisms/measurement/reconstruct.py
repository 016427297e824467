"""From noisy answers to a workload's answers: post-processing, at no cost in privacy."""

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms.measurement.least_squares import (
    check_determined,
    checked_workload,
    determined_estimate,
    recovered_squares,
)
from mrf_matrix.mechanisms.measurement.release import Release, checked_release
from mrf_matrix.mechanisms.rounding.entries import is_integral


def reconstruct(release: Release, workload: object) -> Array:
    """Answer a workload from a release by least squares: ``W A⁺ y``.

    The estimates are unbiased, of covariance ``variance * (W A⁺)(W A⁺)ᵀ`` in each class (Li, Hay,
    Rastogi, Miklau and McGregor, 2010). Where no noise was added, the answers of a workload of
    integers are the exact counts.

    Parameters
    ----------
    release : Release
    workload : ndarray, scipy sparse or Operator of shape (q, n)
        Any workload in the strategy's row space, not only the one it was selected for.

    Returns
    -------
    ndarray of shape (q, k)
        A column for each class. Estimates may be negative or fractional.

    Raises
    ------
    RowSpaceError
        If rows of the workload are no combination of the strategy's rows; it names them.
    ValueError
        If the workload is not a matrix over the cells of the release's domain.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(float("inf")))
    >>> reconstruct(release, [[1, 1, 0], [1, 1, 1]]).ravel()
    array([1., 3.])
    """
    checked_release(release)
    queries = checked_workload(workload)
    answers = release.answers.astype(np.float64)
    rounded = release.mechanism.rounded
    estimates = determined_estimate(queries, rounded.recovery, answers, rounded.matrix)
    if release.noise == "none" and is_integral(queries):
        return np.rint(estimates)
    return estimates


def row_variances(release: Release, workload: object) -> Array:
    """Return the expected squared error of every answer of a workload in each class.

    ``variance * ||(W A⁺)_r||²`` with the exact variance of the discrete noise, in records squared,
    shape (q,). Where the strategy had to be rounded (`RoundedStrategy.recovery`), the rounding
    error is not in it: at most half a unit a record, where the sensitivity is 2**30 units.

    Parameters
    ----------
    release : Release
    workload : ndarray, scipy sparse or Operator of shape (q, n)

    Raises
    ------
    RowSpaceError
        If rows of the workload are no combination of the strategy's rows; it names them.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> release = measure(np.eye(3), counts, PureDP(1), noise="research", random_state=0)
    >>> row_variances(release, [[1, 1, 0], [1, 1, 1]]) / release.variance
    array([2., 3.])
    """
    checked_release(release)
    queries, rounded = checked_workload(workload), release.mechanism.rounded
    # row by row: sums over all rows would pass a faint one outside beside the others
    check_determined(queries, rounded.recovery, rounded.matrix)
    return release.variance * recovered_squares(queries, rounded.recovery)
