"""Few rows for Laplace noise: beside those of the cells, or in the row space of the workload.

*p-Identity.* Every column of ``A = [I; B] diag(d)`` has L1 norm 1. The descent
(`strategies.methods.descents`) is exact and stable, and costs p x p systems
only; which local minimum it ends in depends on the start, so many are tried for a few steps, and
the best few descend on. Small p from random rows suits ranges and prefix sums, the workload's own
rows suit batch prediction, where few test records make W of low rank.

*Row space.* Wins where W has low rank, such as few test records in batch prediction: m rows, the
rank or twice it, descended from rotations of the optimum for Gaussian noise. Sparse strategies
leave the row space. With E (k x g) spanning the rows of W, ``A = C E``, ``W = T E`` and H = TᵀT,

    loss = max_i ||C e_i||_1² · tr(H (CᵀC)⁻¹),

where the maximum over columns is replaced by a p-norm and ``|x|`` by ``√(x² + δ²)``, both
sharpened round by round. The objective is its logarithm, which does not change with C's scale: C is
scaled to sensitivity 1 before every round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg

from strategies.bounds.dual_ascent import update_seconds
from strategies.methods.descents import (
    LEAST_SHARE,
    REFUSED,
    Descent,
    descend,
    gaussian_rows,
    log_norm,
    minimise,
    own_rows,
    scaled_rows,
    squared_rows,
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
    largest_rank,
    require,
)
from strategies.operators import Array, Dense, Identity, Operator
from strategies.operators.base.qr import minimum_norm
from strategies.problem.determining_rows import is_explicit
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
        many_entries = rows.size > MANY_ENTRIES  # then only those that start away from zero
        if many_entries:
            rows = np.where(np.abs(rows) < LEAST_SHARE * np.abs(rows).max(), 0.0, rows)
        price = TRIAL * cost(factor, rows)
        if budget - price < (RESERVED if trials else 0.0) * search.work:
            continue
        fill, warmup = (0.0, 0) if many_entries else (LEAST_SHARE, None)
        trials.append(descend(factor, rows, TRIAL, fill, warmup))
        budget -= price
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
    return require(problem.factor)


def starts(
    problem: Problem, factor: Array, search: Search, p: int | None = None
) -> Iterator[Array]:
    """Yield rows to start from, the most promising first; p random ones where p is given."""
    g = factor.shape[1]
    own = own_rows(problem) if p is None else None
    if own is not None:
        yield scaled_rows(squared_rows(own), 6.0)
        yield scaled_rows(squared_rows(own), 1.5)
    if p is None and 2 * update_seconds(factor) < search.work / 4:
        yield scaled_rows(gaussian_rows(factor, search.work / 8), 3.0)
    usual = {max(1, g // share) for share in (64, 32, 16, 8)} | {4}
    sizes = sorted(usual) if p is None else [p]
    for trial in range(MOST_RANDOM):
        count = sizes[trial % len(sizes)]
        weight = float(search.generator.uniform(0.5, 8.0))
        yield scaled_rows(search.generator.random((count, g)), weight)


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


SHARPER = (
    (8.0, 0.3),
    (20.0, 0.1),
    (60.0, 0.03),
    (200.0, 0.01),
    (1000.0, 0.003),
    (4000.0, 0.001),
    (16000.0, 0.0003),
)
"""Exponent of the p-norm over columns, and δ in units of the mean entry, round by round."""
LARGEST_RANK = 200  # rank of W up to which dense columns have a chance
MOST_MERGED = 4000
EARLY, LATE = SHARPER[:4], SHARPER[3:]
"""Rounds of a trial, and of the best trials afterwards."""
ROUND_TRIAL = 60  # steps of each round of a trial
MOST_ROUND_STEPS = 500
MOST_ROTATIONS = 12
RESERVED_ROUNDS = 0.6
"""Share of the work kept for the best trials."""
SHARES = (0.5, 0.25, 0.25)  # parts of what is left for the best, the second and the third


def best_row_space(problem: Problem, search: Search) -> Operator:
    factor = require(problem.factor)
    space = RowSpace.of(factor, gaussian_rows(factor, search.work / 8))
    k, g = space.basis.shape
    budget = search.work
    trials: list[tuple[float, int, Array]] = []
    for mix in rotations(len(factor), search.generator):
        price = ROUND_TRIAL * len(EARLY) * round_cost(k, g, len(mix))
        if trials and budget - price < RESERVED_ROUNDS * search.work:
            continue
        steps = max(1, min(ROUND_TRIAL, int(budget / price * ROUND_TRIAL)))
        found, loss = descend_in_row_space(space, mix, steps, EARLY)
        trials.append((loss, len(trials), found))
        budget -= price
    best, lowest = trials[0][2], float("inf")
    for share, (_, _, mix) in zip(SHARES, sorted(trials)[: len(SHARES)], strict=False):
        price = len(LATE) * round_cost(k, g, len(mix))
        steps = min(MOST_ROUND_STEPS, max(1, int(share * budget / price)))
        found, loss = descend_in_row_space(space, mix, steps, LATE)
        if loss < lowest:
            best, lowest = found, loss
    return Dense(best @ space.basis)


def rotations(rank: int, generator: np.random.Generator) -> Iterator[Array]:
    """Yield matrices of orthonormal columns: twice as many rows, the identity, as many rows."""
    for trial in range(MOST_ROTATIONS):
        if trial == 1:
            yield np.eye(rank)
            continue
        rows = 2 * rank if trial % 2 == 0 else rank
        yield np.linalg.qr(generator.normal(size=(rows, rank)))[0]


def round_cost(k: int, g: int, m: int) -> float:
    return step_seconds(4.0 * m * k * g + 6.0 * m * k * k + 3.0 * k**3, m * g // 3 + m * k)


def has_low_rank(problem: Problem) -> bool:
    return has_few_cells(problem, MOST_MERGED, 32) and largest_rank(problem) <= LARGEST_RANK


@dataclass(frozen=True, eq=False)
class RowSpace:
    """A basis of a row space, and the workload in it."""

    basis: Array  # (k, g): E
    gram: Array  # (k, k): H with ``WᵀW = Eᵀ H E``

    @classmethod
    def of(cls, factor: Array, basis: Array) -> "RowSpace":
        """Return the row space of a basis in which the workload's factor F (r, g) lies."""
        inside = minimum_norm(basis.T, factor.T).T
        return cls(basis, inside.T @ inside)

    def loss(self, mix: Array) -> float:
        trace, _ = self.error(mix)
        if not np.isfinite(trace):
            return float("inf")
        return float(np.abs(mix @ self.basis).sum(axis=0).max() ** 2 * trace)

    def error(self, mix: Array) -> tuple[float, Array]:
        """Return ``tr(H (CᵀC)⁻¹)`` and its gradient in C."""
        triangle, info = linalg.lapack.dpotrf(mix.T @ mix, lower=True)
        if info != 0:
            return float("inf"), np.zeros_like(mix)
        half = linalg.lapack.dpotrs(triangle, self.gram, lower=True)[0]
        whole = linalg.lapack.dpotrs(triangle, half.T, lower=True)[0]
        return float(np.trace(half)), -(mix @ (whole + whole.T))


def smoothed_value(
    mix: Array, space: RowSpace, sharpness: float, rounding: float
) -> tuple[float, Array]:
    """Return the log of the smoothed loss at C (m, k), and its gradient."""
    trace, slope = space.error(mix)
    if not np.isfinite(trace) or trace <= 0:
        return REFUSED, np.zeros_like(mix)
    matrix = mix @ space.basis
    sizes = np.sqrt(matrix * matrix + rounding * rounding)
    value, slopes = log_norm(sizes.sum(axis=0), sharpness)
    pull = (matrix / sizes) * (2.0 * slopes)
    return 2.0 * value + float(np.log(trace)), pull @ space.basis.T + slope / trace


def descend_in_row_space(
    space: RowSpace, mix: Array, iterations: int, rounds: Sequence[tuple[float, float]] = SHARPER
) -> tuple[Array, float]:
    """Return C of sensitivity 1 after every round of a number of iterations, and its loss."""
    best = unit_scaled(space, mix)
    lowest = space.loss(best)
    current = best
    for sharpness, share in rounds:
        value = partial(smoothed_value, space=space, sharpness=sharpness, rounding=share / len(mix))
        current = unit_scaled(space, minimise(value, current, iterations)[0])
        loss = space.loss(current)
        if loss < lowest:
            best, lowest = current, loss
    return best, lowest


def unit_scaled(space: RowSpace, mix: Array) -> Array:
    """Return C scaled so that the largest column of ``C E`` has L1 norm 1."""
    return np.asarray(mix / np.abs(mix @ space.basis).sum(axis=0).max())


@factory
def row_space() -> Family:
    """Mix few rows of the workload's own row space: low rank, Laplace noise."""
    return Family(
        "row_space",
        "merged",
        frozenset({"l1"}),
        has_low_rank,
        best_row_space,
        share=1.5,
        least=explicit_seconds,
        worthwhile=is_unordered,
    )
