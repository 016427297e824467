"""The workload's own rows and the cells, weighed for the smallest largest error.

On hierarchies this finds weights of levels. The problem has many local minima in which other
levels are left out, so descents start from several weights of rows by their length. For Gaussian
noise the optimum is known at these sizes (`strategies.methods.gaussian_optimal`).
"""

import numpy as np

from strategies.methods.descents.descent import descended_rows, step_seconds
from strategies.methods.descents.row_weights import (
    SHARPNESS,
    Candidates,
    descended_weights,
    matrix_loss,
)
from strategies.methods.family import (
    Family,
    Search,
    enumerated,
    explicit_seconds,
    factory,
)
from strategies.operators import Array, Dense, Operator
from strategies.problem.problem import Problem

LARGEST = 500  # merged cells up to which the family is worth its systems
MOST_ROWS = 1500
MOST_STARTS = 12
ITERATIONS = 60
TRIAL = 15


def own_weighted_rows(problem: Problem, search: Search) -> Operator:
    """Return the best weighted rows and cells found, over the merged cells."""
    rows, errors = enumerated(descended_rows(problem))
    g = rows.shape[1]
    several = rows[(rows != 0).sum(axis=1) > 1]
    scaled = several / np.abs(several).max(axis=1, keepdims=True)
    candidates = Candidates(np.concatenate([scaled, np.eye(g)]), rows, errors)
    affordable = int(search.work / (cost(len(candidates.rows), len(rows), g) * len(SHARPNESS)))
    count, trial = affordable // (2 * TRIAL), max(1, min(TRIAL, affordable // 2))
    trials = [
        descended_weights(candidates, start, trial)
        for start in starts(candidates.rows, search.generator, min(MOST_STARTS, max(1, count)))
    ]
    best = min(trials, key=lambda trial: matrix_loss(candidates, trial.matrix))
    steps = min(ITERATIONS, affordable // 2)
    last = descended_weights(candidates, best.weights, steps) if steps > 0 else best
    return Dense(min((best, last), key=lambda one: matrix_loss(candidates, one.matrix)).matrix)


def cost(m: int, k: int, g: int) -> float:
    """Return the seconds of one step with m candidates for k rows over g cells."""
    return step_seconds(2.0 * m * g * g + g**3 + 2.0 * k * g * (g + m), m * g // 4)


def starts(rows: Array, generator: np.random.Generator, count: int) -> list[Array]:
    """Return weights of rows to start from: alike, then drawn for each length of rows."""
    lengths = np.unique(np.abs(rows).sum(axis=1).round(9), return_inverse=True)[1]
    drawn = [np.exp(generator.normal(0.0, 2.0, lengths.max() + 1))[lengths] for _ in range(count)]
    return [np.ones(len(rows)), *drawn[1:]]


def applies(problem: Problem) -> bool:
    """Tell whether the rows and the merged cells are few enough."""
    if problem.merging is None or problem.merging.n_groups > LARGEST:
        return False
    rows = problem.distinct_rows
    return rows is not None and len(rows.rows) <= MOST_ROWS


@factory
def weighted_rows() -> Family:
    """Measure the workload's rows and the cells, weighed for the worst row: Laplace noise."""
    return Family(
        "weighted_rows",
        "merged",
        frozenset({"l1"}),
        applies,
        own_weighted_rows,
        objectives=frozenset({"max"}),
        least=explicit_seconds,
    )
