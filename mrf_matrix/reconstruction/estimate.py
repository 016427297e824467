"""Estimates of a workload's answers, and least squares over several releases."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array, plain_floats
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.integer_entries import is_integral
from mrf_matrix.mechanisms.measurement.least_squares import (
    checked_workload,
    determined_estimate,
    recovered_squares,
)
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.reconstruction.pooling import pool_releases
from strategies.operators import Dense, Operator, RowSpaceError


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Estimate:
    """Estimated answers of a workload, from releases alone.

    Parameters
    ----------
    values : ndarray of shape (q, k)
        A row for each query, a column for each class, in records.
    variances : ndarray of shape (q,) or None
        Expected squared error of every row in each class: exact, whatever the data are. None
        where it depends on the data; then `note` says so.
    method : str
        The estimator's name.
    note : str
        What a reader of the values must know. Required where there are no variances.
    claim : Claim, optional
        Of the releases behind the answers, see `claim_of`; where it is none of privacy the display
        says so. None where no release is known.
    """

    values: Array
    variances: Array | None
    method: str
    note: str = ""
    claim: Claim | None = None

    def __post_init__(self) -> None:
        values = _read_only("values", self.values, None)
        if values.ndim != 2:
            raise ValueError(f"values has shape {values.shape}: expected (q, k).")
        object.__setattr__(self, "values", values)
        if self.variances is not None:
            kept = _read_only("variances", self.variances, len(values))
            object.__setattr__(self, "variances", kept)
        if self.variances is None and not self.note:
            raise ValueError("note is empty: expected why there are no variances.")

    @property
    def expected_error(self) -> float | None:
        """Expected squared error summed over rows and classes; None where it has none."""
        if self.variances is None:
            return None
        return float(self.values.shape[1] * self.variances.sum())

    @property
    def row_rms(self) -> Array | None:
        """Root-mean-square error of every row, in records; None where it has none."""
        return None if self.variances is None else np.sqrt(self.variances)

    def __repr__(self) -> str:
        rows, classes = self.values.shape
        error = self.expected_error
        known = "no expected error" if error is None else f"expected_error={error:.6g}"
        said = [f"{rows} x {classes}, {self.method}, {known}", self.note.rstrip(".")]
        if self.claim is not None and not self.claim.is_private:
            said.append(self.claim.statement.rstrip("."))
        return f"{type(self).__name__}({'. '.join(filter(None, said))})"


def _read_only(name: str, given: Array, length: int | None) -> Array:
    """Return a read-only view of finite floats of the expected length."""
    array = plain_floats(name, given)
    if length is not None and array.shape != (length,):
        raise ValueError(f"{name} has shape {array.shape}: expected ({length},), one for each row.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds numbers that are not finite: expected finite estimates.")
    view = array.view()
    view.flags.writeable = False
    return view


NEAR = 1e-6  # relative difference from a count that is rounding where there is no noise


def exact_counts(queries: Operator, matrix: Operator, answers: Array) -> Array:
    """Return ``W A⁺ y`` for answers without noise, rounded where W is of integers.

    Raises RowSpaceError if rows of the workload are no combination of the matrix's rows.
    """
    values = determined_estimate(queries, matrix, answers)
    return np.rint(values) if is_integral(queries) else values


def agree_with_totals(
    matrix: Operator, answers: Array, class_totals: object, total: object
) -> bool:
    """Tell whether answers without noise determine the totals that are claimed, and meet them.

    `matrix` (m, g); `answers` (m, k); `class_totals` (k,); `total`: of all classes together.
    """
    if class_totals is None and total is None:
        return True
    try:
        sums = exact_counts(Dense(np.ones((1, matrix.shape[1]))), matrix, answers)[0]
    except RowSpaceError:
        return False
    found, known = (sums, class_totals) if total is None else (sums.sum(), total)
    return bool(np.allclose(found, np.asarray(known), rtol=NEAR, atol=NEAR))


def exact_where_near(values: Array, exact: Array) -> Array:
    """Return estimates without noise, exact wherever they are that up to rounding."""
    return np.where(np.isclose(values, exact, rtol=NEAR, atol=NEAR), exact, values)


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
