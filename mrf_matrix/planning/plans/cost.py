"""How long a release will take, from counts of operations: an order of magnitude, no promise.

Constants were fitted to the clock on one machine (one core of a cloud server, one thread of BLAS)
over eleven shapes, from 300 to 65 000 draws and 1400 to 30 000 records: the estimate was 0.6 to 1.9
times the time taken. On six shapes that played no part in it was 0.5 to 1.2 times
(`tests/benchmarks/test_release_time.py`). Take it as right to a factor of 2 or 3 there; another
machine shifts everything by its speed, and a first release loads OpenDP besides. The search for a
strategy is not part of it.
"""

from collections.abc import Sequence

from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning.plans.part import PlanPart
from strategies.operators import (
    Grouping,
    Identity,
    Marginals,
    Operator,
    Product,
    ResidualMarginals,
    RowKronecker,
    RowScaled,
    Scaled,
    Stack,
)
from strategies.operators.base.recovery import is_explicit

START = 0.01
"""Seconds of a release of nothing."""

LAPLACE_DRAW = 4.5e-6
"""Seconds of one exact discrete Laplace draw by OpenDP."""

GAUSSIAN_DRAW = 8e-6
"""The same for discrete Gaussian noise."""

COUNTED = 9e-8
"""Seconds of one entry of the strategy's columns at the occupied cells, in counting."""

COMPILED = 2.5e-6
"""Seconds of one path: its masks, its value, its containment."""

MET = 1e-9
"""Seconds of meeting eight packed rows of paths with one code of one record."""

MULTIPLIED = 2e-11
"""Seconds of one multiplication in dense linear algebra."""

NEWTON_STEPS = 20
"""Steps to the posterior mode of a block."""

NEWTON_STEP, NEWTON_CLASS = 4e-4, 1e-5
"""Seconds of a step, and of one class in it, of small tables."""

SOLVED = 1e-9
"""Seconds of one class in a step, per cube of its terms (solving) and per cell and square of them
(summing their information)."""

COMPARED = 5e-10
"""Seconds of one multiplication of masks, in the inner products of two paths."""


def release_seconds(parts: Sequence[PlanPart], n_classes: int, n_records: int | None) -> float:
    """Return the seconds that counting, measuring and reconstructing are expected to take."""
    seconds = START
    for part in parts:
        budget, matrix = part.mechanism.budget, part.mechanism.rounded.matrix
        draw = 0.0
        if not budget.is_infinite:
            draw = LAPLACE_DRAW if isinstance(budget, PureDP) else GAUSSIAN_DRAW
        occupied = min(n_records or 0, matrix.shape[1])
        seconds += draw * part.n_measurements * n_classes
        seconds += COUNTED * occupied * column_entries(matrix)
        seconds += MET * occupied * packed_bytes(matrix)
        seconds += COMPILED * part.workload.shape[0]
        seconds += algebra_seconds(part, n_classes)
        seconds += posterior_seconds(part.fitted_tables, n_classes)
    return seconds


def posterior_seconds(tables: Sequence[tuple[int, int]], n_classes: int) -> float:
    """Return the seconds of fitting the posterior of blocks of so many cells and terms a class."""
    each = (NEWTON_CLASS + SOLVED * float(cells + terms) * terms**2 for cells, terms in tables)
    return NEWTON_STEPS * (NEWTON_STEP * len(tables) + n_classes * sum(each))


def column_entries(matrix: Operator) -> float:
    """Return the entries of a typical column of what is measured."""
    if isinstance(matrix, Scaled | RowScaled):
        return column_entries(matrix.inner)
    if isinstance(matrix, Product) and isinstance(matrix.right, Grouping):
        return column_entries(matrix.left)
    if isinstance(matrix, Stack):
        return sum(column_entries(block) for block in matrix.blocks)
    if isinstance(matrix, Marginals):
        return float(len(matrix.weights))
    if isinstance(matrix, ResidualMarginals):
        return float(matrix.shape[0])
    return matrix.entries / matrix.shape[1]


def packed_bytes(matrix: Operator) -> float:
    """Return the bytes of packed masks that are met for one record."""
    if isinstance(matrix, Scaled | RowScaled):
        return packed_bytes(matrix.inner)
    if isinstance(matrix, Stack):
        return sum(packed_bytes(block) for block in matrix.blocks)
    if isinstance(matrix, RowKronecker):
        return matrix.shape[0] * len(matrix.sizes) / 8
    return 0.0


def algebra_seconds(part: PlanPart, n_classes: int) -> float:
    """Return the seconds of linear algebra, once to check containment and once to answer.

    Structures with a rule of their own cost little. Explicit matrices are factorised and solved
    with; over domains too large for that, inner products of rows are formed instead.
    """
    if part.strategy is None:
        return 0.0
    matrix = part.mechanism.rounded.recovery
    while isinstance(matrix, Scaled) or (
        isinstance(matrix, Product) and isinstance(matrix.right, Grouping)
    ):
        matrix = matrix.inner if isinstance(matrix, Scaled) else matrix.left
    if isinstance(matrix, Identity | Grouping) or matrix.has_cheap_inverse:
        return 0.0
    (m, n), q = matrix.shape, part.workload.shape[0]
    if is_explicit(matrix):
        return MULTIPLIED * float(m * n * min(m, n) + 16 * min(m, n) * n * n_classes)
    width = sum(part.workload.sizes or ())
    return COMPARED * float(2 * (m + q) * m * width) + MULTIPLIED * 8 * float(m) ** 3
