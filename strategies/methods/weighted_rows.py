"""Weights of given rows for the smallest loss, each its own or one for all rows of a group.

With candidate rows N, weights w of their groups, ``A = diag(w) N`` and ``c_l`` the column sums of
``|N|^p`` over group l,

    loss(w) = max_i (Σ_l w_l^p c_li)^(2/p) · tr F (Nᵀ diag(w²) N)⁻¹ Fᵀ      (p = 1 or 2)

is descended on over log w, with the maximum over columns replaced by a norm that sharpens round by
round. Rows that end with a negligible weight are left out.

The family weighs the workload's own rows beside the cells, each its own, for the smallest largest
error under Laplace noise. One weight for all nodes of a level of trees finds weights of levels. The
problem has many local minima in which other rows are left out, so descents start from several
weights of rows by their length. For Gaussian noise the optimum is known at these sizes
(`strategies.methods.gaussian_optimal`).
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
    descent_target,
    log_norm,
    minimise,
    step_seconds,
)
from strategies.methods.family import Family, Search, explicit_seconds, factory, require
from strategies.operators import Array, Dense, Norm, Operator, RowKronecker, check_allocation
from strategies.operators.base.arrays import Longs
from strategies.operators.base.qr import qr_triangle
from strategies.problem.merging import merge_columns
from strategies.problem.problem import Problem

SHARPNESS = (8.0, 40.0, 200.0, 1000.0)  # exponents of the norm over column sums, round by round
PRUNED = 5e-4  # share of the largest weight below which a row is left out
LEAST_LOG = -8.5  # least log-weight, so that systems stay regular
RANK = 1e-10  # share of the largest eigenvalue of the workload's Gram below which one is rounding
ITERATIONS = 25  # of weights that are shared
LARGEST = 300  # rank up to which those are descended; above, the best start is returned
LARGEST_LOG = 200.0  # largest log-weight that a line search may try, so that squares stay finite


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows to weigh by groups, and the workload's factor."""

    rows: Array  # (m, r): N, of full column rank
    factor: Array  # (k, r): F with ``FᵀF = WᵀW``, or the workload's rows
    groups: Longs  # (m,): of every row, from 0 up
    sums: Array  # (groups, g): c
    norm: Norm = "l1"
    errors: ErrorNorm = TOTAL  # what is minimised of the errors of F's rows

    @classmethod
    def per_row(cls, rows: Array, factor: Array, errors: ErrorNorm = TOTAL) -> "Candidates":
        """Return rows with a weight each, for Laplace noise."""
        return cls(rows, factor, np.arange(len(rows)), np.abs(rows), errors=errors)

    @classmethod
    def per_group(
        cls, workload: RowKronecker, rows: RowKronecker, labels: NDArray[np.int32], norm: Norm
    ) -> "Candidates":
        """Return 0/1 rows that are sums of the workload's, labels from 0 up, in its row space.

        A triangle stands for all rows of a group.

        Raises MemoryCapError if the triangles exceed the memory cap.
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
        levels = [(count[count > 0], inner[count > 0]) for count in counts]
        parts = [qr_triangle(np.sqrt(count)[:, None] * own) for count, own in levels]
        group = np.repeat(np.arange(groups), [len(part) for part in parts])
        factor = np.diag(np.sqrt(values[kept]))
        return cls(np.concatenate(parts), factor, group, counts @ over, norm)


def weights_value(logs: Array, candidates: Candidates, sharpness: float) -> tuple[float, Array]:
    """Return the log of the smoothed loss at weights ``exp(logs)``, and its gradient."""
    power = 1 if candidates.norm == "l1" else 2
    weights = np.exp(np.clip(logs, LEAST_LOG, LARGEST_LOG))
    weighted = candidates.rows * weights[candidates.groups][:, None]
    triangle, info = linalg.lapack.dpotrf(weighted.T @ weighted, lower=True, overwrite_a=True)
    if info != 0:
        return REFUSED, np.zeros_like(logs)
    solved = linalg.lapack.dpotrs(triangle, candidates.factor.T, lower=True)[0]
    squares = (weighted @ solved) ** 2
    log_error, slopes = candidates.errors.log_value(squares.sum(axis=0))
    pulls = np.bincount(candidates.groups, squares @ slopes, len(logs))
    paid = weights[:, None] ** power * candidates.sums
    column, slope = log_norm(paid.sum(axis=0), sharpness)
    gradient = 2.0 * paid @ slope - 2.0 * pulls
    return 2.0 / power * column + log_error, np.where(
        (logs > LEAST_LOG) & (logs < LARGEST_LOG), gradient, 0.0
    )


def descend_on_logs(candidates: Candidates, logs: Array, iterations: int) -> Array:
    """Return log-weights, the largest 0, after every round of a number of iterations."""
    for sharpness in SHARPNESS:
        sharper = replace(candidates, errors=candidates.errors.at(sharpness))
        value = partial(weights_value, candidates=sharper, sharpness=sharpness)
        logs = minimise(value, logs, iterations)[0]
        logs = logs - logs.max()
    return np.maximum(logs, LEAST_LOG)


def shared_weights(candidates: Candidates, starts: Sequence[Array]) -> Array:
    """Return the best weights found from some starts, the largest 1, negligible ones 0."""

    def loss(logs: Array) -> float:
        return weights_value(logs, candidates, np.inf)[0]

    logs = [np.log(np.maximum(one / one.max(), np.exp(LEAST_LOG))) for one in starts]
    if candidates.rows.shape[1] <= LARGEST:
        best = sorted(logs, key=loss)[:2]
        logs += [descend_on_logs(candidates, one, ITERATIONS) for one in best]
    weights = np.exp(min(logs, key=loss))
    return np.where(weights > PRUNED * weights.max(), weights / weights.max(), 0.0)


def descend_on_weights(
    candidates: Candidates, weights: Array, iterations: int
) -> tuple[Array, Array]:
    """Return all rows' weights, and the weighted rows without those of negligible weight."""
    weights = np.exp(descend_on_logs(candidates, np.log(weights / weights.max()), iterations))
    found = np.where(weights > PRUNED * weights.max(), weights, 0.0)
    kept = candidates.rows[found > 0] * found[found > 0, None]
    if np.linalg.matrix_rank(kept) < kept.shape[1]:  # pruned rows were needed after all
        kept = candidates.rows * weights[:, None]
    return weights, np.asarray(kept)


def matrix_loss(candidates: Candidates, matrix: Array) -> float:
    """Return the loss of a matrix of full column rank on the candidates' workload."""
    triangle, info = linalg.lapack.dpotrf(matrix.T @ matrix, lower=True, overwrite_a=True)
    if info != 0:
        return float("inf")
    half = linalg.solve_triangular(triangle, candidates.factor.T, lower=True)
    largest = np.abs(matrix).sum(axis=0).max()
    return float(largest**2 * candidates.errors.value(np.einsum("ij,ij->j", half, half)))


MOST_CELLS = 500  # merged cells up to which the family is worth its systems
MOST_ROWS = 1500
MOST_STARTS = 12
FAMILY_ITERATIONS = 60
TRIAL = 15


def own_weighted_rows(problem: Problem, search: Search) -> Operator:
    rows, errors = require(descent_target(problem))
    g = rows.shape[1]
    several = rows[(rows != 0).sum(axis=1) > 1]
    scaled = several / np.abs(several).max(axis=1, keepdims=True)
    candidates = Candidates.per_row(np.concatenate([scaled, np.eye(g)]), rows, errors)
    affordable = int(search.work / (cost(len(candidates.rows), len(rows), g) * len(SHARPNESS)))
    count, trial = affordable // (2 * TRIAL), max(1, min(TRIAL, affordable // 2))
    trials = [
        descend_on_weights(candidates, start, trial)
        for start in starts(candidates.rows, search.generator, min(MOST_STARTS, max(1, count)))
    ]
    weights, best = min(trials, key=lambda trial: matrix_loss(candidates, trial[1]))
    steps = min(FAMILY_ITERATIONS, affordable // 2)
    last = descend_on_weights(candidates, weights, steps)[1] if steps > 0 else best
    return Dense(min((best, last), key=lambda one: matrix_loss(candidates, one)))


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
