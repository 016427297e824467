"""Strategies in the row space of W, for Laplace noise: few dimensions, dense columns.

Wins where W has low rank, such as few test records in batch prediction: m rows, the rank or twice
it, descended from rotations of the optimum for Gaussian noise. Sparse strategies leave the row
space, and belong to `strategies.methods.p_identity`. With E (k x g) spanning the rows of W,
``A = C E``, ``W = T E`` and H = TᵀT,

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

from strategies.methods.descents import REFUSED, gaussian_rows, log_norm, minimise, step_seconds
from strategies.methods.family import (
    Family,
    Search,
    explicit_seconds,
    factory,
    has_few_cells,
    is_unordered,
    largest_rank,
    required,
)
from strategies.operators import Array, Dense, Operator
from strategies.operators.base.qr import minimum_norm
from strategies.problem.problem import Problem

ROUNDS = (
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
    factor = required(problem.factor)
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
    return step_seconds(4.0 * m * k * g + 6.0 * m * k * k + 3.0 * k**3, m * g // 3 + m * k)


def applies(problem: Problem) -> bool:
    return has_few_cells(problem, LARGEST, 32) and largest_rank(problem) <= LARGEST_RANK


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
        """Return the loss of ``C E``, infinite where C is singular."""
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
    space: RowSpace, mix: Array, iterations: int, rounds: Sequence[tuple[float, float]] = ROUNDS
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
        applies,
        rows_in_space,
        share=1.5,
        least=explicit_seconds,
        worthwhile=is_unordered,
    )
