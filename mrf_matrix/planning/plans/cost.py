"""What a release will take: seconds by counts of operations, and the sizes of its arrays.

Seconds are an order of magnitude, no promise: over the eleven shapes that `prices` was fitted to,
0.6 to 1.9 times the time taken; on six that played no part in it, 0.5 to 1.2 times. Take them as
right to a factor of 2 or 3 on that machine; a first release loads OpenDP besides. The search for a
strategy is not part of it. Nothing is allocated.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.prices import (
    COMPARED,
    COMPILED,
    COUNTED,
    GAUSSIAN_DRAW,
    LAPLACE_DRAW,
    MET,
    MULTIPLIED,
    NEWTON_CLASS,
    NEWTON_STEP,
    NEWTON_STEPS,
    SOLVED,
    START,
)
from strategies.operators import (
    Grouping,
    Identity,
    Marginals,
    ObliqueResiduals,
    Operator,
    Product,
    ResidualMarginals,
    RowKronecker,
    RowScaled,
    Scaled,
    Stack,
    TableStack,
    check_allocation,
)
from strategies.operators.base.recovery import is_explicit


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
    if isinstance(matrix, ResidualMarginals | ObliqueResiduals):
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
    if part.stands_alone:
        return 0.0
    matrix = part.mechanism.rounded.recovery
    while isinstance(matrix, Scaled) or (
        isinstance(matrix, Product) and isinstance(matrix.right, Grouping)
    ):
        matrix = matrix.inner if isinstance(matrix, Scaled) else matrix.left
    known = Identity | Grouping | ObliqueResiduals | TableStack
    if isinstance(matrix, known) or matrix.has_cheap_inverse:
        return 0.0
    (m, n), q = matrix.shape, part.workload.shape[0]
    if is_explicit(matrix):
        return MULTIPLIED * float(m * n * min(m, n) + 16 * min(m, n) * n * n_classes)
    width = sum(part.workload.sizes or ())
    return COMPARED * float(2 * (m + q) * m * width) + MULTIPLIED * 8 * float(m) ** 3


class ArraySize(NamedTuple):
    """One array to come."""

    name: str
    shape: tuple[int, ...]
    nbytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {"name": self.name, "shape": list(self.shape), "bytes": self.nbytes}


def array_sizes(
    parts: Sequence[PlanPart],
    n_classes: int,
    n_records: int | None,
    n_queries: int,
    *,
    leaves: bool,
) -> tuple[ArraySize, ...]:
    """Return the large arrays of a release to come, largest first.

    `leaves`: whether leaf values are released; else the queries' votes.
    """
    found = []
    for number, part in enumerate(parts, start=1):
        forest = part.forest
        width = sum(forest.domain.sizes)
        where = f" of ensemble {number}" if len(parts) > 1 else ""
        found += [
            _array(f"paths T{where}, packed", (forest.n_leaves, -(-width // 8)), 1),
            _array(f"noisy answers y{where}", (part.n_measurements, n_classes), 8),
        ]
        if leaves:
            found.append(_array(f"leaf values{where}", (forest.n_leaves, n_classes), 8))
        if order := max((terms for _, terms in part.fitted_tables), default=0):
            shape = (n_classes, order, order)
            found.append(_array("covariances of a block's effects, largest", shape, 8))
        if n_records is not None:
            cells = min(n_records, forest.domain.size)
            found.append(_array(f"occupied cells{where}, at most", (cells, n_classes), 8))
    if not leaves:
        found.append(_array("votes", (n_queries, n_classes), 8))
    return tuple(sorted(found, key=lambda one: -one.nbytes))


MASKS_HELD = 6
"""Bytes for each leaf and code that compiling a forest, choosing its strategy, its release, its
noise and its file hold at once, at most. Source: peaks of whole fits of 0.1 to 3 million leaves."""


def check_forest(forest: Forest) -> None:
    """Refuse a forest that would not fit in memory, by public sizes, before it is compiled.

    Whatever its budget: so whether it can be planned does not depend on that, and what can be
    planned can be paid for, learned from and saved.

    Raises MemoryCapError.
    """
    codes = sum(forest.domain.sizes)
    check_allocation(
        f"a forest of {forest.n_leaves:,} leaves over attributes of {codes:,} codes in all, masks",
        (MASKS_HELD, forest.n_leaves, codes),
        1,
    )


def _array(name: str, shape: tuple[int, ...], itemsize: int) -> ArraySize:
    return ArraySize(name, shape, prod(shape) * itemsize)
