"""Expected cost of a release: seconds by counts of operations, and the sizes of its arrays.

Seconds are an order of magnitude, no promise: over the eleven shapes that the prices below were
fitted to, 0.6 to 1.9 times the time taken; on six others 0.5 to 1.2 times. Take them as right to a
factor of 2 or 3 on that machine; a first release loads OpenDP besides. The search for a strategy is
not part of it. Nothing is allocated.

The reference machine is one core of a cloud server with one thread of BLAS; another shifts all by
its speed. "fit" is a least-squares fit to the clock over eleven releases, of 300 to 65 000 draws
and 1400 to 30 000 records; `tests/benchmarks/test_release_time.py` holds it against the clock.
Prices are seconds, if nothing else is said.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import singledispatch
from math import ceil, prod
from typing import Any, NamedTuple

from mrf_matrix.forests import Forest
from mrf_matrix.labels import LabelPlan
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.mechanisms.measurement.measure import PROBES
from mrf_matrix.planning.plans.block_design import block_arrays
from mrf_matrix.planning.plans.part import PlannedParts, PlanPart
from mrf_matrix.release.curator import StrategyStep
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.residual.sequence import largest_pair
from strategies.operators import (
    Grouping,
    Identity,
    JointMarginals,
    Marginals,
    MemoryCapError,
    ObliqueResiduals,
    Operator,
    Product,
    ProductMarginals,
    RowKronecker,
    RowScaled,
    Scaled,
    Stack,
    TableStack,
    check_allocation,
)
from strategies.operators.base.arrays import REMEDY, current_cap, readable_bytes
from strategies.operators.base.recovery import LONGEST, is_explicit

START = 0.01
"""A release of nothing. Source: fit."""

LAPLACE_DRAW = 4.5e-6
"""One exact discrete Laplace draw by OpenDP. Source: fit."""

GAUSSIAN_DRAW = 8e-6
"""The same for discrete Gaussian noise. Source: fit."""

COUNTED = 9e-8
"""One entry of the strategy's columns at the occupied cells, in counting. Source: fit."""

COMPILED = 2.5e-6
"""One path: its masks, its value, its containment. Source: fit."""

MET = 1e-9
"""Meeting eight packed rows of paths with one code of one record. Source: fit."""

MULTIPLIED = 2e-11
"""One multiplication in dense linear algebra. Source: fit."""

COMPARED = 5e-10
"""One multiplication of masks, in the inner products of two paths. Source: fit."""

NEWTON_STEPS = 20
"""Steps to the posterior mode of a block: a count. Source: fit."""

NEWTON_STEP, NEWTON_CLASS = 4e-4, 1e-5
"""A step, and one class in it, of small tables. Source: fits of posteriors, timed."""

SOLVED, SUMMED = 2e-10, 3e-7
"""One class in a step, per cube of its terms (solving) and per cell and square of them (summing
their information); and per square of them. Source: fits of posteriors of 10 to 900 terms, timed."""

VISIT, VISITED = 2e-3, 5e-10
"""A visit of a residual forest in one column, and in it each cube of the codes. Source: timed."""

SCORED = 1.5e-7
"""One record of a visit, in one column. Source: timed."""

WEIGHED = 4e-6
"""One count above several cuts, in a tree of labels. Source: timed."""


ANSWERS_HELD, CODES_HELD = 4, 3
"""How often a fit holds the answers, and the codes of occupied cells, at once. Source: peaks of
whole fits."""
EFFECTS_HELD, SCORES_HELD, COUNTS_HELD = 30, 10, 14
"""How often a fit holds, at once: arrays of the size of a covariance in a visit of a residual
forest; scores; counts above cuts. Source: peaks of whole fits."""


@singledispatch
def release_seconds(plan: Any) -> float:
    """Return the seconds that counting, measuring and learning are expected to take, once paid.

    Of a plan of one's own those of its draws.

    Raises TypeError if it is no plan of strategies that are known.
    """
    rows = sum(one.known.rounded.matrix.shape[0] for one in known_steps(plan))
    draw = LAPLACE_DRAW if isinstance(plan.budget, PureDP) else GAUSSIAN_DRAW
    seconds: float = START + draw * float(rows) * plan.domain.n_classes
    return seconds


def known_steps(plan: object) -> list[StrategyStep]:
    """Return the steps of a plan whose strategies are all known; refuse others."""
    steps = list(getattr(plan, "steps", ()))
    if not steps or not all(isinstance(one, StrategyStep) for one in steps):
        raise TypeError(
            f"plan is of type {type(plan).__name__}: expected a plan of ours, one of StrategySteps "
            f"alone, or one that array_sizes and release_seconds of mrf_matrix.planning.plans.cost "
            f"are registered for."
        )
    return steps


@release_seconds.register
def _(plan: PlannedParts) -> float:
    seconds, n_classes = START, plan.n_classes
    for part in plan.parts:
        budget, matrix = part.mechanism.budget, part.mechanism.rounded.matrix
        draw = 0.0
        if not budget.is_infinite:
            draw = LAPLACE_DRAW if isinstance(budget, PureDP) else GAUSSIAN_DRAW
        occupied = min(plan.n_records or 0, matrix.shape[1])
        seconds += draw * part.n_measurements * n_classes
        seconds += COUNTED * occupied * column_entries(matrix)
        seconds += MET * occupied * packed_bytes(matrix)
        seconds += COMPILED * part.workload.shape[0]
        seconds += algebra_seconds(part, n_classes)
        seconds += posterior_seconds(part.fitted_blocks, n_classes)
    return seconds


def posterior_seconds(blocks: Sequence[Sequence[int]], n_classes: int) -> float:
    """Return the seconds of fitting the posterior of blocks, given as their attributes' codes."""
    sides = ((float(prod(block)), 1.0 + sum(block)) for block in blocks)
    each = (NEWTON_CLASS + (SOLVED * (cells + terms) + SUMMED) * terms**2 for cells, terms in sides)
    return NEWTON_STEPS * (NEWTON_STEP * len(blocks) + n_classes * sum(each))


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
    if isinstance(matrix, ProductMarginals):
        return float(matrix.shape[0])  # at most: its tables are met in turn
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
    framed = ObliqueResiduals | ProductMarginals | JointMarginals | TableStack
    known = isinstance(matrix, framed | Identity | Grouping)
    if known or matrix.has_cheap_inverse:
        return 0.0
    (m, n), q = matrix.shape, part.workload.shape[0]
    if is_explicit(matrix):
        return MULTIPLIED * float(m * n * min(m, n) + 16 * min(m, n) * n * n_classes)
    width = sum(part.workload.sizes or ())
    return COMPARED * float(2 * (m + q) * m * width) + MULTIPLIED * 8 * float(m) ** 3


class ArraySize(NamedTuple):
    """An array to come, or several of one shape: their number is the first length."""

    name: str
    shape: tuple[int, ...]
    itemsize: int = 8

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.itemsize

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "bytes": self.nbytes}


Sizes = tuple[ArraySize, ...]


@singledispatch
def array_sizes(plan: Any) -> Sizes:
    """Return the large arrays that a fit of a plan holds at once, largest first.

    Of a plan of one's own those of its counts and answers.

    Raises TypeError if it is no plan of strategies that are known.
    """
    found: list[ArraySize] = []
    for one in known_steps(plan):
        k = plan.domain.n_classes
        rows, cells = one.known.rounded.matrix.shape
        found += [
            ArraySize(f"exact and noisy answers, {one.measured}", (ANSWERS_HELD, rows, k)),
            ArraySize(f"cells, {one.measured}", (cells, k)),
        ]
    return largest_first(found)


def peak_bytes(plan: object) -> int:
    """Return the bytes that a fit of a plan of any kind is expected to hold at its peak.

    The sum of `array_sizes`, from public numbers alone, the stated number of records among them;
    of a private forest, of the plan of the forest that it takes (``mrf-matrix plan`` tells it).
    Beside it stand the interpreter with its libraries (about 200 MB), the records as they were
    given, and the search for a strategy, which is over by then.

    Raises TypeError if it is no plan.

    Examples
    --------
    >>> from mrf_matrix import Domain, plan
    >>> wide = Domain.from_sizes([1000, 4], n_classes=2)
    >>> for kind in ("naive_bayes", "tables"):
    ...     print(f"{peak_bytes(plan(wide, kind, epsilon=1)) / 1e6:.1f} MB")
    0.2 MB
    208.6 MB
    """
    return sum(one.nbytes for one in array_sizes(plan))


SIGNAL_CHECK: ContextVar[Callable[[Any], None] | None] = ContextVar("weigh_signals", default=None)
"""The check of signal against noise of every plan before it is charged, see `weigh_signals`."""


@contextmanager
def weigh_whole(plan: Callable[[], object]) -> Iterator[None]:
    """Weigh a plan where that is asked, as a whole: plans of its parts inside are not."""
    if (weigh := SIGNAL_CHECK.get()) is not None:
        weigh(plan())
    token = SIGNAL_CHECK.set(None)
    try:
        yield
    finally:
        SIGNAL_CHECK.reset(token)


def check_cost(plan: object, time_limit: float = 0.0) -> None:
    """Refuse a plan of any kind whose fit would exhaust memory, or hardly end.

    By public numbers alone: nothing private is told, and nothing spent. `time_limit`: seconds that
    a user allows, where they are more than `LONGEST`.

    Raises MemoryCapError: it names the largest array, or the seconds, and a remedy.
    """
    sizes = array_sizes(plan)
    if (peak := sum(one.nbytes for one in sizes)) > (cap := current_cap()):
        largest = sizes[0]
        lengths = " x ".join(map(str, largest.shape))
        raise MemoryCapError(
            f"A fit needs {readable_bytes(peak)} at its peak, above the memory cap of "
            f"{readable_bytes(cap)}. Most of it are {largest.name} of shape {lengths}, "
            f"{readable_bytes(largest.nbytes)}. {REMEDY}"
        )
    searches = isinstance(plan, PlannedParts) and plan.kind.chooses_strategies
    if (seconds := release_seconds(plan)) > (most := max(LONGEST, time_limit)):
        raise MemoryCapError(
            f"A fit is expected to take {seconds:,.0f} s once it is paid for: expected at most "
            f"{most:g} s. Take fewer or coarser attributes, fewer trees or less depth"
            + (f", or allow it with time_limit={ceil(seconds)}." if searches else ".")
        )


@array_sizes.register
def _(plan: PlannedParts) -> Sizes:
    found, k = [], plan.n_classes
    for number, part in enumerate(plan.parts, start=1):
        where = f" of ensemble {number}" * (len(plan.parts) > 1)
        rows, forest = part.workload.shape[0], part.forest
        if not isinstance(part.workload, Marginals):
            masks = (MASKS_HELD, forest.n_leaves, sum(forest.domain.sizes))
            found.append(ArraySize(f"masks of the paths T{where}", masks, 1))
        found += [
            ArraySize(f"exact and noisy answers y{where}", (ANSWERS_HELD, part.n_measurements, k)),
            ArraySize(f"answers to the workload{where}", (rows, ANSWERS_HELD * k + PROBES)),
        ]
        found += [ArraySize(name + where, shape) for name, shape in _posterior_arrays(part, k)]
        if plan.n_records is not None:
            cells, d = min(plan.n_records, forest.domain.size), forest.domain.n_attributes
            found.append(ArraySize(f"occupied cells{where}, at most", (cells, k + CODES_HELD * d)))
    return largest_first(found)


def _posterior_arrays(part: PlanPart, k: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return what fitting the models of blocks takes: one after the other, each one is kept."""
    if not part.fitted_blocks:
        return []
    each = [block_arrays(block, tuple(range(len(block))), k) for block in part.fitted_blocks]
    largest = [(f"{what}, largest block", max(one[what] for one in each)) for what in each[0]]
    kept = sum((1 + sum(block)) ** 2 for block in part.fitted_blocks)
    return [*largest, ("covariances of the effects of all blocks", (k, kept))]


def largest_first(found: Iterable[ArraySize]) -> Sizes:
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


# Residual forests and trees of labels ------------------------------------------------------------


@release_seconds.register
def _(plan: ResidualPlan) -> float:
    """Return the seconds of visits: their linear algebra, and a pass over the records."""
    sizes, columns = sorted(plan.domain.sizes, reverse=True), plan.first.visits[0].n_columns
    visits = [*sizes, *(size for one in plan.passes for size in sizes[: len(one.visits)])]
    if plan.pairs is not None:
        visits += [largest_pair(plan.n_classes)] * len(plan.pairs.residuals)
    records = len(visits) * float(plan.n_records or 0)
    draws = 0 if plan.budget.is_infinite else plan.most_measurements
    each = sum(VISIT + VISITED * float(size) ** 3 for size in visits)
    return START + columns * (each + SCORED * records) + GAUSSIAN_DRAW * draws


@release_seconds.register
def _(plan: LabelPlan) -> float:
    """Return the seconds of weighing all trees, and of counting the records above cuts."""
    seconds = START
    for one in plan.rounds:
        trees = float(len(plan.cuts_of(one))) ** one.depth
        seconds += trees * (WEIGHED * plan.n_classes + MULTIPLIED * (plan.n_records or 0))
    return seconds


@array_sizes.register
def _(plan: ResidualPlan) -> tuple[ArraySize, ...]:
    sizes, columns = plan.domain.sizes, plan.first.visits[0].n_columns
    largest = max(sizes)
    found = [
        ArraySize("covariances of the effects of one attribute", (EFFECTS_HELD, largest, largest)),
        ArraySize("covariances of the effects of all", (1 + columns, sum(n * n for n in sizes))),
    ]
    if plan.n_records is not None:
        held = 2 * len(sizes) + SCORES_HELD * columns
        found.append(ArraySize("codes and scores of the records", (plan.n_records, held)))
    return largest_first(found)


@array_sizes.register
def _(plan: LabelPlan) -> tuple[ArraySize, ...]:
    found = []
    for one in plan.rounds:
        cuts = (COUNTS_HELD, *(len(plan.cuts_of(one)),) * one.depth, plan.n_classes)
        found.append(ArraySize("counts above several cuts at once", cuts))
    if plan.n_records is not None:
        held = plan.n_records, plan.n_classes + len(plan.attributes)
        found.append(ArraySize("occupied cells, at most", held))
    return largest_first(found)
