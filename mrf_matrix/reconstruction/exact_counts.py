"""Answers where no noise was added: the counts themselves, to the last digit."""

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms.measurement.least_squares import determined_estimate
from mrf_matrix.mechanisms.rounding.entries import is_integral
from strategies.operators import Dense, Operator, RowSpaceError

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
