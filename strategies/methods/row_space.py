"""Strategies in the row space of W, for Laplace noise: few dimensions, dense columns.

Wins where W has low rank, such as few test records in batch prediction: m rows, the rank or twice
it, descended (`strategies.methods.descents.row_space_descent`) from rotations of the optimum for
Gaussian noise. Sparse strategies leave the row space, and belong to
`strategies.methods.p_identity`.
"""

from collections.abc import Iterator

import numpy as np

from strategies.methods.descents.descent import step_seconds
from strategies.methods.descents.row_space_descent import ROUNDS, RowSpace, descend_in_row_space
from strategies.methods.family import (
    Family,
    Search,
    enumerated,
    explicit_seconds,
    factory,
    has_few_cells,
    is_unordered,
    largest_rank,
)
from strategies.methods.structured_starts import gaussian_rows
from strategies.operators import Array, Dense, Operator
from strategies.problem.problem import Problem

LARGEST_RANK = 200  # rank of W up to which dense columns have a chance
LARGEST = 4000
EARLY, LATE = ROUNDS[:4], ROUNDS[3:]
"""Rounds of a trial, and of the best trials afterwards."""
TRIAL = 60  # steps of each round of a trial
MOST_STEPS = 500
MOST_TRIALS = 12
RESERVED = 0.6
"""Share of the work kept for the best trials."""
SHARES = (0.5, 0.25, 0.25)  # parts of what is left for the best, the second and the third


def rows_in_space(problem: Problem, search: Search) -> Operator:
    """Return the best strategy found in the row space of the workload, over the merged cells."""
    factor = enumerated(problem.factor)
    space = RowSpace.of(factor, gaussian_rows(factor, search.work / 8))
    k, g = space.basis.shape
    budget = search.work
    trials: list[tuple[float, int, Array]] = []
    for mix in rotations(len(factor), search.generator):
        price = TRIAL * len(EARLY) * cost(k, g, len(mix))
        if trials and budget - price < RESERVED * search.work:
            continue
        steps = max(1, min(TRIAL, int(budget / price * TRIAL)))
        found, loss = descend_in_row_space(space, mix, steps, EARLY)
        trials.append((loss, len(trials), found))
        budget -= price
    best, lowest = trials[0][2], float("inf")
    for share, (_, _, mix) in zip(SHARES, sorted(trials)[: len(SHARES)], strict=False):
        price = len(LATE) * cost(k, g, len(mix))
        steps = min(MOST_STEPS, max(1, int(share * budget / price)))
        found, loss = descend_in_row_space(space, mix, steps, LATE)
        if loss < lowest:
            best, lowest = found, loss
    return Dense(best @ space.basis)


def rotations(rank: int, generator: np.random.Generator) -> Iterator[Array]:
    """Yield matrices of orthonormal columns: twice as many rows, the identity, as many rows."""
    for trial in range(MOST_TRIALS):
        if trial == 1:
            yield np.eye(rank)
            continue
        rows = 2 * rank if trial % 2 == 0 else rank
        yield np.linalg.qr(generator.normal(size=(rows, rank)))[0]


def cost(k: int, g: int, m: int) -> float:
    """Return the seconds of one step with m rows in a space (k, g) on the reference machine."""
    return step_seconds(4.0 * m * k * g + 6.0 * m * k * k + 3.0 * k**3, m * g // 3 + m * k)


def applies(problem: Problem) -> bool:
    """Tell whether the merged cells are few enough, and the rank not above its limit."""
    return has_few_cells(problem, LARGEST, 32) and largest_rank(problem) <= LARGEST_RANK


@factory
def row_space() -> Family:
    """Mix few rows of the workload's own row space: low rank, Laplace noise."""
    return Family(
        "row_space",
        "merged",
        frozenset({"l1"}),
        applies,
        rows_in_space,
        share=1.5,
        least=explicit_seconds,
        worthwhile=is_unordered,
    )
