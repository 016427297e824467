"""Strategies found by others, and the workload's rows beside the cells, with every entry set free.

A start of full column rank descends over all matrices with columns of L1 norm 1
(`strategies.methods.descents`). A start of lower rank, such as marginals,
keeps to few dimensions: its rows descend beside identity rows of at most a three-thousandth of
their weight, which keep the systems regular and move the row space only as far as it pays; they
are left out at the end where the loss is less without them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest

import numpy as np

from strategies.methods.descents import (
    FILL,
    TOTAL,
    ErrorNorm,
    descend,
    descend_columns,
    descent_target,
    own_rows,
    p_identity_matrix,
    scaled_rows,
    squared_rows,
    step_seconds,
)
from strategies.methods.family import (
    BOTH_OBJECTIVES,
    Family,
    Search,
    explicit_seconds,
    factory,
    has_few_cells,
    is_unordered,
    require,
)
from strategies.operators import Array, Dense, Identity, Operator, RowSpaceError
from strategies.operators.base.recovery import factorise
from strategies.problem.problem import Problem

LARGEST = 1000
"""Merged cells up to which every entry can be a variable."""
ROW_WEIGHTS = (3e3, 1e4, 3e4)
"""Weights of a low-rank start's rows in units of the identity rows beside it."""
MOST_STARTS = 3
ENOUGH_STEPS = 150
"""Steps that a second start must be able to have."""
FEWEST_STEPS = 12
"""Below this a descent is not worth its start."""
MOST_STEPS = 500
PASSES = 3
"""How often the norms rise for the worst row: zeros of one pass are stirred in the next."""
REFILL = 3e-2
"""Share of a row's largest entry to which they are raised then."""
NEAR = 1e-3
"""Relative distance from the Identity's loss at which a start is taken to be the Identity."""


def best_free_entries(problem: Problem, search: Search) -> Operator:
    factor, errors = require(descent_target(problem))
    ordered = descents_in_order(problem, factor, errors, search.starts)
    found = affordable_descents(ordered, search.work)
    best: Operator = search.starts[0] if search.starts else Identity(factor.shape[1])
    lowest = float("inf")
    for descent in found:
        matrix = descent.run(search.work / len(found), search.generator)
        loss = direct_loss(factor, matrix, errors)
        if loss < lowest:
            best, lowest = Dense(matrix), loss
    return best


def descents_in_order(
    problem: Problem, factor: Array, errors: ErrorNorm, starts: tuple[Operator, ...]
) -> Iterator["EntryDescent"]:
    """Yield what to descend from: the best found so far in turn with structured starts."""
    known, structured = improvable_starts(factor, errors, starts), row_starts(problem)
    for first, second in zip_longest(islice(known, MOST_STARTS), structured):
        for matrix in (first, second):
            if matrix is not None:
                yield EntryDescent(factor, matrix, errors)


def improvable_starts(
    factor: Array, errors: ErrorNorm, starts: tuple[Operator, ...]
) -> Iterator[Array]:
    """Yield the starts, best first, without those that stand at the Identity's local minimum."""
    whole = errors.value(np.sum(factor**2, axis=1))
    for start in starts:
        if not isinstance(start, Identity):
            matrix = start.to_dense()
            if abs(direct_loss(factor, matrix, errors) / whole - 1.0) > NEAR:
                yield matrix


def row_starts(problem: Problem) -> Iterator[Array]:
    """Yield the Identity with the workload's own rows beside it, lightly and heavily."""
    own = own_rows(problem)
    if own is not None:
        yield p_identity_matrix(scaled_rows(squared_rows(own), 1.5))
        yield p_identity_matrix(scaled_rows(squared_rows(own), 6.0))


def affordable_descents(descents: Iterator["EntryDescent"], work: float) -> list["EntryDescent"]:
    """Return as many of the first as the work gives enough steps, and at least one."""
    taken: list[EntryDescent] = []
    for descent in descents:
        price = sum(one.step_cost for one in [*taken, descent]) * ENOUGH_STEPS
        if taken and price > work:
            break
        taken.append(descent)
    return taken


@dataclass(frozen=True, eq=False)
class EntryDescent:
    """A start and the workload's factor, or its rows, both over the merged cells."""

    factor: Array
    start: Array
    errors: ErrorNorm = TOTAL

    def run(self, work: float, generator: np.random.Generator) -> Array:
        """Return a matrix where a descent ends, or the start where it would be too short."""
        rounds = self.errors.rounds
        steps = min(MOST_STEPS * (PASSES if len(rounds) > 1 else 1), int(work / self.step_cost))
        if steps < FEWEST_STEPS:
            return self.start
        if self.is_regular:
            return self.descend_on_columns(steps, generator)
        ends = []
        for weight in ROW_WEIGHTS:
            rows = scaled_rows(self.start, weight)
            for errors in rounds:
                share = max(1, steps // len(ROW_WEIGHTS) // len(rounds))
                end = descend(self.factor, rows, share, 0.0, warmup=0, errors=errors)
                rows = end.rows
            ends.append(end)
        best = min(ends, key=lambda end: end.loss).rows
        return without_identity(self.factor, best, self.errors)

    def descend_on_columns(self, steps: int, generator: np.random.Generator) -> Array:
        """Return the best end of descents over all entries, one after another on rising norms.

        A pass begins with entries near zero moved away from it. Where steps are few there is one
        pass, over the last of the norms.
        """
        best, lowest = self.start, float("inf")
        affordable = max(1, steps // FEWEST_STEPS)
        rounds = self.errors.rounds[-affordable:]
        passes = min(PASSES, affordable // len(rounds)) if len(rounds) > 1 else 1
        share = steps // (passes * len(rounds))
        for turn in range(passes):
            matrix, warmup, fill = best, share // 3, FILL if turn == 0 else REFILL
            for errors in rounds:
                matrix = descend_columns(
                    self.factor, matrix, warmup, share - warmup, generator, errors, fill
                )
                loss = direct_loss(self.factor, matrix, self.errors)
                if loss < lowest:
                    best, lowest = matrix, loss
                warmup, fill = 0, 0.0
        return best

    @cached_property
    def is_regular(self) -> bool:
        """Whether the start has full column rank, well within rounding."""
        if self.start.shape[0] < self.start.shape[1]:
            return False
        values = np.linalg.eigvalsh(self.start.T @ self.start)
        return bool(values[0] > 1e-10 * values[-1])

    @property
    def step_cost(self) -> float:
        (r, g), m = self.factor.shape, len(self.start)
        if self.is_regular:
            return step_seconds(2.0 * m * g * g + 2.0 * g**3 + 2.0 * r * g * (g + 2 * m), m * g)
        entries = int(np.count_nonzero(self.start)) + m * g // 8
        return step_seconds(2.0 * g * m * m + m**3 + 6.0 * r * g * m, entries)


def without_identity(factor: Array, rows: Array, errors: ErrorNorm = TOTAL) -> Array:
    """Return the rows alone, columns at most 1, where they determine the workload well enough."""
    whole = p_identity_matrix(rows)
    alone = rows / np.abs(rows).sum(axis=0).max()
    losses = direct_loss(factor, alone, errors), direct_loss(factor, whole, errors)
    return alone if losses[0] < losses[1] else whole


def direct_loss(factor: Array, matrix: Array, errors: ErrorNorm) -> float:
    """Return the loss for "l1" by QR, infinite where W is not determined."""
    try:
        solved = factorise(Dense(matrix)).row_errors(factor)
    except RowSpaceError:
        return float("inf")
    return float(np.abs(matrix).sum(axis=0).max() ** 2 * errors.value(solved))


def applies(problem: Problem) -> bool:
    few = has_few_cells(problem, LARGEST, 64, fewest=2)
    return few and (problem.is_total or problem.distinct_rows is not None)


@factory
def free_entries() -> Family:
    """Descend on every entry of the best strategies of other families: few cells, Laplace noise."""
    return Family(
        "free_entries",
        "merged",
        frozenset({"l1"}),
        applies,
        best_free_entries,
        polishes=True,
        least=explicit_seconds,
        worthwhile=lambda problem: is_unordered(problem, 128),
        objectives=BOTH_OBJECTIVES,
    )
