"""Weights of given rows for the smallest loss: ``A = diag(w) N`` for candidate rows N.

    loss = max_i (Σ_j w_j^p |n_ji|^p)^(2/p) · tr F (Nᵀ diag(w²) N)⁻¹ Fᵀ      (p = 1 or 2)

descended over log w, with the maximum over columns replaced by a norm that sharpens round by
round. Rows that end with a negligible weight are left out.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg

from strategies.methods.descents.descent import minimise
from strategies.methods.descents.error_norm import TOTAL, ErrorNorm
from strategies.methods.descents.p_identity_descent import REFUSED
from strategies.operators import Array, Norm

SHARPNESS = (8.0, 40.0, 200.0, 1000.0)  # exponents of the norm over column sums, round by round
PRUNED = 5e-4  # share of the largest weight below which a row is left out
LEAST_LOG = -8.5  # least log-weight, so that systems stay regular
LARGEST_LOG = 200.0  # largest log-weight that a line search may try, so that squares stay finite


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows to weigh, and the workload's factor."""

    rows: Array  # (m, g): N, of full column rank
    factor: Array  # (r, g): F with ``FᵀF = WᵀW``, or the workload's rows
    norm: Norm
    errors: ErrorNorm = TOTAL  # what is minimised of the errors of F's rows

    @property
    def power(self) -> int:
        """p: 1 for "l1", 2 for "l2"."""
        return 1 if self.norm == "l1" else 2


def weights_value(logs: Array, candidates: Candidates, sharpness: float) -> tuple[float, Array]:
    """Return the log of the smoothed loss at weights ``exp(logs)``, and its gradient."""
    rows, power = candidates.rows, candidates.power
    weights = np.exp(np.clip(logs, LEAST_LOG, LARGEST_LOG))
    weighted = rows * weights[:, None]
    triangle, info = linalg.lapack.dpotrf(weighted.T @ weighted, lower=True, overwrite_a=True)
    if info != 0:
        return REFUSED, np.zeros_like(logs)
    solved = linalg.lapack.dpotrs(triangle, candidates.factor.T, lower=True)[0]
    squares = (weighted @ solved) ** 2
    log_error, slopes = candidates.errors.log_value(squares.sum(axis=0))
    pulls = squares @ slopes
    sums = (np.abs(weighted) ** power).sum(axis=0)
    largest = sums.max()
    tops = (sums / largest) ** sharpness
    total = tops.sum()
    column = np.divide(tops, sums, out=np.zeros_like(sums), where=sums > 0) / total
    value = 2.0 / power * (np.log(largest) + np.log(total) / sharpness) + log_error
    gradient = 2.0 * (np.abs(weighted) ** power) @ column - 2.0 * pulls
    return float(value), np.where((logs > LEAST_LOG) & (logs < LARGEST_LOG), gradient, 0.0)


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Where a descent ended."""

    weights: Array  # (m,): of all candidate rows, positive
    matrix: Array  # (m', g): the weighted rows, those of negligible weight left out


def weighted_rows(candidates: Candidates, weights: Array, iterations: int) -> Array:
    """Return the weighted rows where `descended_weights` ends, pruned (m', g)."""
    return descended_weights(candidates, weights, iterations).matrix


def descended_weights(candidates: Candidates, weights: Array, iterations: int) -> WeightedRows:
    """Return weights and weighted rows after every round of a number of iterations, pruned.

    `weights`: (m,), where to start, positive.
    """
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
    largest = (np.abs(matrix) ** candidates.power).sum(axis=0).max() ** (2 / candidates.power)
    return float(largest * candidates.errors.value(np.einsum("ij,ij->j", half, half)))
