"""p-Identity for Laplace noise: identity rows and p more, descended from starts that differ.

Every column of ``A = [I; B] diag(d)`` has L1 norm 1. The descent
(`strategies.methods.descents`) is exact and stable, and costs p x p systems
only; which local minimum it ends in depends on the start, so many are tried for a few steps, and
the best few descend on. Small p from random rows suits ranges and prefix sums, the workload's own
rows suit batch prediction, where few test records make W of low rank.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from strategies.bounds.dual_ascent import update_seconds
from strategies.methods.descents import (
    LEAST_SHARE,
    Descent,
    descend,
    gaussian_rows,
    own_rows,
    powered_rows,
    random_rows,
    scaled_rows,
    step_seconds,
)
from strategies.methods.family import (
    Family,
    Search,
    checked_count,
    explicit_seconds,
    factory,
    has_few_cells,
    is_unordered,
    required,
)
from strategies.operators import Array, Dense, Identity, Operator
from strategies.problem.objective import is_explicit
from strategies.problem.problem import Problem

LARGEST = 2500  # merged cells up to which p-Identity is tried
MANY_ENTRIES = 200_000  # entries of B from which only those that start away from zero are variables
MANY_CELLS = 1000  # merged cells from which the spectrum of a Gram costs more than it saves
PASSES = 6e-9  # seconds of a step for every entry of the factor, beside the products
TRIAL = 40  # steps of a trial descent
MOST_STEPS = 2500
MOST_RANDOM = 24
FINALISTS = 3
FAR = 0.5  # share of the Identity's loss below which over many cells nothing is tried
RESERVED = 0.5
"""Share of the work kept for the best trials."""


def best_p_identity(problem: Problem, search: Search, p: int | None = None) -> Operator:
    """Return the best p-Identity strategy found, over the merged cells; of p rows where given.

    Over many cells rows stay near the Identity, which is returned where far better is known.
    """
    merging = problem.merging
    many = merging is not None and merging.n_groups > MANY_CELLS
    if merging is not None and many and search.best < FAR * problem.merged_total:
        return Identity(merging.n_groups)
    factor = rows_or_factor(problem)
    budget = search.work
    trials: list[Descent] = []
    for rows in starts(problem, factor, search, p):
        trial, spent = trial_descent(factor, rows)
        if budget - spent < (RESERVED if trials else 0.0) * search.work:
            continue
        trials.append(trial())
        budget -= spent
    found = best_descent(factor, trials, budget) if trials else None
    if found is None or not found.loss < float(np.sum(factor**2)):
        return Identity(factor.shape[1])
    return Dense(found.matrix)


def rows_or_factor(problem: Problem) -> Array:
    """Return a factor of the workload's Gram; over many cells its rows, which cost no spectrum."""
    merged = problem.merged_workload
    if merged is not None and is_explicit(merged):
        q, g = merged.shape
        if q <= g and g > MANY_CELLS:
            return merged.to_dense()
    return required(problem.factor)


def starts(
    problem: Problem, factor: Array, search: Search, p: int | None = None
) -> Iterator[Array]:
    """Yield rows to start from, the most promising first; p random ones where p is given."""
    g = factor.shape[1]
    own = own_rows(problem) if p is None else None
    if own is not None:
        yield scaled_rows(powered_rows(own), 6.0)
        yield scaled_rows(powered_rows(own), 1.5)
    if p is None and 2 * update_seconds(factor) < search.work / 4:
        yield scaled_rows(gaussian_rows(factor, search.work / 8), 3.0)
    usual = {max(1, g // share) for share in (64, 32, 16, 8)} | {4}
    sizes = sorted(usual) if p is None else [p]
    for trial in range(MOST_RANDOM):
        count = sizes[trial % len(sizes)]
        weight = float(search.generator.uniform(0.5, 8.0))
        yield scaled_rows(random_rows(search.generator, count, g), weight)


def trial_descent(factor: Array, rows: Array) -> tuple[Callable[[], Descent], float]:
    """Return a trial descent from some rows, and its price in seconds.

    Many entries are descended on only where they start away from zero.
    """
    sparse = rows.size > MANY_ENTRIES
    if sparse:
        rows = np.where(np.abs(rows) < LEAST_SHARE * np.abs(rows).max(), 0.0, rows)
    fill, warmup = (0.0, 0) if sparse else (LEAST_SHARE, None)
    return partial(descend, factor, rows, TRIAL, fill, warmup), TRIAL * cost(factor, rows)


def best_descent(factor: Array, trials: list[Descent], budget: float) -> Descent:
    ranked = sorted(trials, key=lambda trial: trial.loss)[:FINALISTS]
    shares = np.array([2.0, 1.0, 1.0])[: len(ranked)]
    ended = list(ranked)
    for trial, share in zip(ranked, shares / shares.sum(), strict=True):
        steps = min(MOST_STEPS, int(share * budget / cost(factor, trial.rows)))
        if steps > 0:
            warmup = 0 if trial.rows.size > MANY_ENTRIES else steps // 2
            ended.append(descend(factor, trial.rows, steps, fill=0.0, warmup=warmup))
    return min(ended, key=lambda trial: trial.loss)


def cost(factor: Array, rows: Array) -> float:
    (r, g), p = factor.shape, len(rows)
    entries = np.count_nonzero(rows) if rows.size > MANY_ENTRIES else rows.size
    products = 2.0 * g * p * p + 6.0 * r * g * p
    return float(step_seconds(products, int(entries) + p * g // 8) + PASSES * r * g)


@factory
def p_identity(*, p: int | None = None) -> Family:
    """Measure every cell and p sums of cells, descended on: the usual best for Laplace noise.

    Parameters
    ----------
    p : int, optional
        Rows beside those of the cells, started at random. By default several numbers are tried,
        and the workload's own rows.

    Raises
    ------
    ValueError
        If p is no integer of at least 1.

    References
    ----------
    McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical
    queries under differential privacy (HDMM, 2018), section 5.2.
    """
    checked_count("p", p, 1, "the rows beside those of the cells")
    return Family(
        "p_identity",
        "merged",
        frozenset({"l1"}),
        partial(has_few_cells, most=LARGEST, squares=64, fewest=2),
        partial(best_p_identity, p=p),
        share=4.0,
        least=explicit_seconds,
        worthwhile=lambda problem: is_unordered(problem, 128),
    )
