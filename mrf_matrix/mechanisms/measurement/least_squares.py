"""Answers from a release by least squares, and whether its strategy determines a workload.

That is asked before anything is spent or answered. A study draws noise many times for one
strategy, so a strategy's factorisation is kept for as long as the strategy lives.
"""

from functools import singledispatch
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms.measurement.release import Release, checked_release
from mrf_matrix.mechanisms.rounding import is_integral
from strategies.operators import (
    Gram,
    Grouping,
    Identity,
    MemoryCapError,
    Operator,
    Product,
    RowSpaceError,
    Scaled,
    as_operator,
    check_allocation,
    estimate,
    fits,
    over_groups,
)
from strategies.operators.base.recovery import (
    Factors,
    explicit_row_errors,
    factorise,
    format_rows,
    is_explicit,
    row_errors,
)

_FACTORS: "WeakKeyDictionary[Operator, Factors]" = WeakKeyDictionary()


@singledispatch
def estimated_cells(matrix: Operator, answers: Array) -> Array | None:
    """Return X (n, k) with ``W X = W A⁺ @ answers`` for every W in the row space.

    Explicit matrices go by their factors and one step of refinement (the corrected seminormal
    equations of Björck, 1987), which is as accurate as an orthogonal factorisation here.

    Of shape (n, k).
    """
    if matrix.has_cheap_inverse:
        return matrix.least_squares(answers)
    if not is_explicit(matrix):
        return None
    factors = factors_of(matrix)
    cells = _gram_solve(factors, matrix.rmatmat(answers))
    rest = answers - matrix.matmat(cells)
    return cells + _gram_solve(factors, matrix.rmatmat(rest))


@estimated_cells.register
def _(matrix: Scaled, answers: Array) -> Array | None:
    cells = estimated_cells(matrix.inner, answers)
    return None if cells is None else cells / matrix.weight


@estimated_cells.register
def _(matrix: Product, answers: Array) -> Array | None:
    grouping = matrix.right
    if not isinstance(grouping, Grouping):
        return estimated_cells.dispatch(Operator)(matrix, answers)
    groups = estimated_cells(matrix.left, answers)
    if groups is None:
        return None
    spread: Array = (groups / grouping.counts[:, None])[grouping.labels]
    return spread


def recovered_squares(workload: Operator, matrix: Operator) -> Array:
    """Return ``||(W A⁺)_r||²`` of every row: its error for noise of variance one, shape (q,).

    Raises RowSpaceError if the matrix does not determine the workload.
    """
    if isinstance(matrix, Scaled):
        return recovered_squares(workload, matrix.inner) / matrix.weight**2
    if isinstance(matrix, Product) and isinstance(matrix.right, Grouping):
        return recovered_squares(over_groups(workload, matrix.right), matrix.left)
    values = matrix.row_errors(workload)
    if values is not None:
        return values
    if is_explicit(matrix) and (workload.prefers_sparse or fits(workload.shape)):
        return explicit_row_errors(workload, factors_of(matrix))
    return row_errors(workload, matrix)


def factors_of(matrix: Operator) -> Factors:
    """Return a matrix's factors, computed once for as long as it lives."""
    factors = _FACTORS.get(matrix)
    if factors is None:
        factors = _FACTORS.setdefault(matrix, factorise(matrix))
    return factors


def _gram_solve(factors: Factors, right: Array) -> Array:
    """Return ``(AᵀA)⁺ @ right`` from ``AᵀA = V RᵀR Vᵀ``."""
    inner = right if factors.basis is None else factors.basis.T @ right
    if factors.triangle.ndim == 1:
        inner = inner / (factors.triangle**2)[:, None]
    else:
        lower = factors.is_lower
        half = linalg.solve_triangular(factors.triangle, inner, trans="T", lower=lower)
        inner = linalg.solve_triangular(factors.triangle, half, lower=lower)
    return np.asarray(inner if factors.basis is None else factors.basis @ inner)


PROBES = 4
TOLERANCE = 1e-6
"""Relative distance of a row from the row space that counts as inside."""
ROUNDED = 1e-4
"""The same where a strategy was rounded entry by entry: rows that need lost digits are outside."""


def checked_workload(workload: object) -> Operator:
    queries = as_operator(workload, "workload")
    if isinstance(queries, Gram):
        raise TypeError(
            "workload is a Gram: its rows are not known, so they have no answers. Expected the "
            "workload itself."
        )
    return queries


def check_determined(
    workload: Operator, matrix: Operator, measured: Operator | None = None
) -> None:
    """Refuse a workload with rows outside the row space of a matrix, naming them.

    Raises RowSpaceError if ``w_r A⁺ Ã`` is not ``w_r`` for some row r. `measured`: Ã, A itself by
    default; see `RoundedStrategy`.

    A structure that decides it by a rule of its own (marginals: by attribute sets) estimates
    nothing, so its price does not depend on the cells.
    """
    _check_columns(workload, matrix)
    if not matrix.has_rule_for(workload):
        nothing = np.zeros((matrix.shape[0], 0))
        determined_estimate(workload, matrix, nothing, measured)


def determined_estimate(
    workload: Operator, matrix: Operator, answers: Array, measured: Operator | None = None
) -> Array:
    """Return ``W A⁺ @ answers``, refusing rows of W outside the row space of A by number.

    A row is inside if ``w A⁺ Ã z = w z`` for random vectors z, carried along as more answers. For
    a row at a relative distance δ from the row space the difference is normal with deviation
    ``δ |w|`` for each of `PROBES` vectors, so a distance of 1000 times the tolerance passes with
    a probability below 1e-11. A structure's own rule goes first; where n is out of reach and
    there is none, its estimate checks.

    Raises RowSpaceError if a row lies outside; ValueError if workload and matrix have different
    columns.
    """
    _check_columns(workload, matrix)
    check_allocation("answers to the workload", (workload.shape[0], answers.shape[1] + PROBES))
    n = matrix.shape[1]
    ruled = isinstance(matrix, Identity) or not fits((n, 4 * PROBES))
    if ruled or matrix.has_rule_for(workload):
        return _estimate(workload, matrix, answers)
    probes = np.random.default_rng(0).standard_normal((n, PROBES))
    is_rounded = measured is not None and measured is not matrix
    probed = (measured if measured is not None else matrix).matmat(probes)
    results = _estimate(workload, matrix, np.hstack([answers, probed]))
    differences = results[:, answers.shape[1] :] - workload.matmat(probes)
    _check_rows(workload, differences, ROUNDED if is_rounded else TOLERANCE)
    return results[:, : answers.shape[1]]


def _check_columns(workload: Operator, matrix: Operator) -> None:
    if workload.shape[1] != matrix.shape[1]:
        raise ValueError(
            f"workload has {workload.shape[1]} columns: expected {matrix.shape[1]}, the cells "
            f"of the strategy's domain."
        )


def _estimate(workload: Operator, matrix: Operator, answers: Array) -> Array:
    result = matrix.estimate(workload, answers)
    if result is not None:
        return result
    cells = estimated_cells(matrix, answers)
    return estimate(workload, matrix, answers) if cells is None else workload.matmat(cells)


def _check_rows(workload: Operator, differences: Array, tolerance: float) -> None:
    distance = np.abs(differences).max(axis=1, initial=0.0)
    outside = np.flatnonzero(distance > tolerance * np.sqrt(_row_squares(workload)))
    if len(outside):
        raise RowSpaceError(
            f"the strategy does not determine {len(outside)} of the workload's {workload.shape[0]} "
            f"rows ({format_rows(outside)}): expected combinations of the strategy's rows only. "
            f"Measure a strategy selected for this workload, or drop those rows."
        )


def _row_squares(workload: Operator) -> Array:
    try:
        return workload.row_squares()
    except MemoryCapError:  # a product known by its action alone: one scale for all rows
        probe = workload.matmat(np.random.default_rng(1).standard_normal(workload.shape[1]))
        return np.full(workload.shape[0], float(np.mean(probe**2)))


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
