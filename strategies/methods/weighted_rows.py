"""Weights of given rows for the smallest loss, each its own or one for all rows of a group.

The family weighs the workload's own rows beside the cells, for the smallest largest error.

*Each its own*, for Laplace noise: ``A = diag(w) N`` for candidate rows N,

    loss = max_i (Σ_j w_j |n_ji|)² · tr F (Nᵀ diag(w²) N)⁻¹ Fᵀ

descended over log w, with the maximum over columns replaced by a norm that sharpens round by
round. Rows that end with a negligible weight are left out.

*Shared*, such as one weight for the nodes of a level of trees: with ``G_l = N_lᵀN_l`` of the rows
of group l, ``H = WᵀW`` and ``c_l`` the column sums of ``|N_l|^p``,

    loss(w) = max_i (Σ_l w_l^p c_li)^(2/p) · tr H (Σ_l w_l² G_l)⁺      (p = 1 or 2).

On hierarchies this finds weights of levels. The problem has many local minima in which other
levels are left out, so descents start from several weights of rows by their length. For Gaussian
noise the optimum is known at these sizes (`strategies.methods.gaussian_optimal`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from strategies.methods.descents import (
    REFUSED,
    TOTAL,
    ErrorNorm,
    descended_rows,
    log_norm,
    minimise,
    step_seconds,
)
from strategies.methods.family import Family, Search, explicit_seconds, factory, required
from strategies.operators import Array, Dense, Norm, Operator, RowKronecker, check_allocation
from strategies.problem.merging import merge_columns
from strategies.problem.problem import Problem

SHARPNESS = (8.0, 40.0, 200.0, 1000.0)  # exponents of the norm over column sums, round by round
PRUNED = 5e-4  # share of the largest weight below which a row is left out
LEAST_LOG = -8.5  # least log-weight, so that systems stay regular
LARGEST_LOG = 200.0  # largest log-weight that a line search may try, so that squares stay finite


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows to weigh, and the workload's factor."""

    rows: Array  # (m, g): N, of full column rank
    factor: Array  # (r, g): F with ``FᵀF = WᵀW``, or the workload's rows
    errors: ErrorNorm = TOTAL  # what is minimised of the errors of F's rows


def weights_value(logs: Array, candidates: Candidates, sharpness: float) -> tuple[float, Array]:
    """Return the log of the smoothed loss at weights ``exp(logs)``, and its gradient."""
    rows = candidates.rows
    weights = np.exp(np.clip(logs, LEAST_LOG, LARGEST_LOG))
    weighted = rows * weights[:, None]
    triangle, info = linalg.lapack.dpotrf(weighted.T @ weighted, lower=True, overwrite_a=True)
    if info != 0:
        return REFUSED, np.zeros_like(logs)
    solved = linalg.lapack.dpotrs(triangle, candidates.factor.T, lower=True)[0]
    squares = (weighted @ solved) ** 2
    log_error, slopes = candidates.errors.log_value(squares.sum(axis=0))
    pulls = squares @ slopes
    sums = np.abs(weighted)
    column, slope = log_norm(sums.sum(axis=0), sharpness)
    gradient = 2.0 * sums @ slope - 2.0 * pulls
    return 2.0 * column + log_error, np.where(
        (logs > LEAST_LOG) & (logs < LARGEST_LOG), gradient, 0.0
    )


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Where a descent ended."""

    weights: Array  # (m,): of all candidate rows, positive
    matrix: Array  # (m', g): the weighted rows, those of negligible weight left out


def descended_weights(candidates: Candidates, weights: Array, iterations: int) -> WeightedRows:
    """Return weights and weighted rows after every round of a number of iterations, pruned."""
    logs = np.log(weights / weights.max())
    for sharpness in SHARPNESS:
        sharper = replace(candidates, errors=candidates.errors.at(sharpness))
        value = partial(weights_value, candidates=sharper, sharpness=sharpness)
        logs = minimise(value, logs, iterations)[0]
        logs = logs - logs.max()
    found = np.exp(np.maximum(logs, LEAST_LOG))
    found = np.where(found > PRUNED * found.max(), found, 0.0)
    kept = candidates.rows[found > 0] * found[found > 0, None]
    if np.linalg.matrix_rank(kept) < kept.shape[1]:  # pruned rows were needed after all
        kept = candidates.rows * np.exp(np.maximum(logs, LEAST_LOG))[:, None]
    return WeightedRows(np.exp(np.maximum(logs, LEAST_LOG)), np.asarray(kept))


def matrix_loss(candidates: Candidates, matrix: Array) -> float:
    """Return the loss of a matrix of full column rank on the candidates' workload."""
    triangle, info = linalg.lapack.dpotrf(matrix.T @ matrix, lower=True, overwrite_a=True)
    if info != 0:
        return float("inf")
    half = linalg.solve_triangular(triangle, candidates.factor.T, lower=True)
    largest = np.abs(matrix).sum(axis=0).max()
    return float(largest**2 * candidates.errors.value(np.einsum("ij,ij->j", half, half)))


RANK = 1e-10  # share of the largest eigenvalue of H below which one is rounding
ITERATIONS = 25
LARGEST = 300
"""Rank of the workload up to which weights are descended; above, the best start is returned."""


@dataclass(frozen=True, eq=False)
class SharedWeights:
    """A workload and groups of rows, over the workload's merged cells."""

    target: Array  # (r,): the eigenvalues of H
    grams: Array  # (groups, r, r): G_l on its eigenvectors
    sums: Array  # (groups, g): c_l
    norm: Norm

    @classmethod
    def of(
        cls, workload: RowKronecker, rows: RowKronecker, labels: NDArray[np.int32], norm: Norm
    ) -> "SharedWeights":
        """Return the same of 0/1 rows that are sums of the workload's, labels from 0 up.

        Raises MemoryCapError if the groups' Grams exceed the memory cap.
        """
        merging, groups = merge_columns(workload), int(labels.max()) + 1
        check_allocation(
            "Grams of groups of rows", (groups + 2, merging.n_groups, merging.n_groups)
        )
        distinct, number, _ = rows.unique_rows()
        over = merging.apply(distinct).to_dense()
        counts = np.zeros((groups, len(over)))
        np.add.at(counts, (labels, number), 1.0)
        values, vectors = linalg.eigh(merging.apply(workload).gram_dense())
        kept = values > RANK * values[-1]
        inner = over @ vectors[:, kept]
        grams = [inner.T @ (count[:, None] * inner) for count in counts]
        return cls(values[kept], np.array(grams), counts @ over, norm)

    def value(self, logs: Array, sharpness: float = np.inf) -> tuple[float, Array]:
        power = 1 if self.norm == "l1" else 2
        weights = np.exp(np.clip(logs, LEAST_LOG, LARGEST_LOG))
        gram = np.tensordot(weights**2, self.grams, 1)
        triangle, info = linalg.lapack.dpotrf(gram, lower=True)
        if info != 0:
            return REFUSED, np.zeros_like(logs)
        inverse = linalg.lapack.dpotrs(triangle, np.eye(len(gram)), lower=True)[0]
        error = float(inverse.diagonal() @ self.target)
        pulled = (inverse * self.target) @ inverse
        pulls = weights**2 * (self.grams.reshape(len(weights), -1) @ pulled.ravel()) / error
        paid = weights[:, None] ** power * self.sums
        total = paid.sum(axis=0)
        largest = total.max()
        tops = (total / largest) ** sharpness if np.isfinite(sharpness) else total == largest
        shares = np.divide(tops, total, out=np.zeros_like(total), where=total > 0) / tops.sum()
        smooth = np.log(tops.sum()) / sharpness
        value = 2.0 / power * (np.log(largest) + smooth) + np.log(error)
        gradient = 2.0 * (paid @ shares) - 2.0 * pulls
        return float(value), np.where(logs > LEAST_LOG, gradient, 0.0)

    def best(self, starts: Sequence[Array]) -> Array:
        """Return the best weights found from some starts, the largest 1, negligible ones 0."""
        logs = [np.log(np.maximum(one / one.max(), np.exp(LEAST_LOG))) for one in starts]
        if len(self.target) <= LARGEST:
            logs += [self._descended(one) for one in sorted(logs, key=self.loss)[:2]]
        best = np.exp(min(logs, key=self.loss))
        return np.where(best > PRUNED * best.max(), best / best.max(), 0.0)

    def loss(self, logs: Array) -> float:
        return self.value(logs)[0]

    def _descended(self, logs: Array) -> Array:
        for sharpness in SHARPNESS:
            logs, _ = minimise(lambda x, s=sharpness: self.value(x, s), logs, ITERATIONS)  # type: ignore[misc]
            logs = np.maximum(logs - logs.max(), LEAST_LOG)
        return logs


MOST_CELLS = 500  # merged cells up to which the family is worth its systems
MOST_ROWS = 1500
MOST_STARTS = 12
FAMILY_ITERATIONS = 60
TRIAL = 15


def own_weighted_rows(problem: Problem, search: Search) -> Operator:
    rows, errors = required(descended_rows(problem))
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
    steps = min(FAMILY_ITERATIONS, affordable // 2)
    last = descended_weights(candidates, best.weights, steps) if steps > 0 else best
    return Dense(min((best, last), key=lambda one: matrix_loss(candidates, one.matrix)).matrix)


def cost(m: int, k: int, g: int) -> float:
    return step_seconds(2.0 * m * g * g + g**3 + 2.0 * k * g * (g + m), m * g // 4)


def starts(rows: Array, generator: np.random.Generator, count: int) -> list[Array]:
    lengths = np.unique(np.abs(rows).sum(axis=1).round(9), return_inverse=True)[1]
    drawn = [np.exp(generator.normal(0.0, 2.0, lengths.max() + 1))[lengths] for _ in range(count)]
    return [np.ones(len(rows)), *drawn[1:]]


def applies(problem: Problem) -> bool:
    if problem.merging is None or problem.merging.n_groups > MOST_CELLS:
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
