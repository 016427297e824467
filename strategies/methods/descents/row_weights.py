"""Weights of given rows for the smallest loss: ``A = diag(w) N`` for candidate rows N.

    loss = max_i (Σ_j w_j^p |n_ji|^p)^(2/p) · tr F (Nᵀ diag(w²) N)⁻¹ Fᵀ      (p = 1 or 2)

descended over log w, with the maximum over columns replaced by a norm that sharpens round by
round. Rows that end with a negligible weight are left out.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg

from strategies.methods.descents.descent import minimise
from strategies.methods.descents.p_identity_descent import REFUSED
from strategies.operators import Array, Norm

SHARPNESS = (8.0, 40.0, 200.0, 1000.0)
"""Exponents of the norm over column sums, round by round."""
PRUNED = 5e-4
"""Share of the largest weight below which a row is left out."""
LEAST_LOG = -8.5
"""Least log-weight, so that systems stay regular."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows to weigh, and the workload's factor.

    Attributes
    ----------
    rows : ndarray, shape (m, g)
        N, of full column rank.
    factor : ndarray, shape (r, g)
        F with ``FᵀF = WᵀW``.
    norm : {"l1", "l2"}
    """

    rows: Array
    factor: Array
    norm: Norm

    @property
    def power(self) -> int:
        """p: 1 for "l1", 2 for "l2"."""
        return 1 if self.norm == "l1" else 2


def weights_value(logs: Array, candidates: Candidates, sharpness: float) -> tuple[float, Array]:
    """Return the log of the smoothed loss at weights ``exp(logs)``, and its gradient."""
    rows, power = candidates.rows, candidates.power
    weights = np.exp(np.maximum(logs, LEAST_LOG))
    weighted = rows * weights[:, None]
    triangle, info = linalg.lapack.dpotrf(weighted.T @ weighted, lower=True, overwrite_a=True)
    if info != 0:
        return REFUSED, np.zeros_like(logs)
    solved = linalg.lapack.dpotrs(triangle, candidates.factor.T, lower=True)[0]
    errors = np.einsum("ij,ij->i", shares := weighted @ solved, shares)
    error = float(errors.sum())
    sums = (np.abs(weighted) ** power).sum(axis=0)
    largest = sums.max()
    tops = (sums / largest) ** sharpness
    total = tops.sum()
    column = np.divide(tops, sums, out=np.zeros_like(sums), where=sums > 0) / total
    value = 2.0 / power * (np.log(largest) + np.log(total) / sharpness) + np.log(error)
    gradient = 2.0 * (np.abs(weighted) ** power) @ column - 2.0 * errors / error
    return float(value), np.where(logs > LEAST_LOG, gradient, 0.0)


def weighted_rows(candidates: Candidates, weights: Array, iterations: int) -> Array:
    """Return the weighted rows after every round of a number of iterations, pruned.

    Parameters
    ----------
    candidates : Candidates
    weights : ndarray, shape (m,)
        Where to start, positive.
    iterations : int
    """
    logs = np.log(weights / weights.max())
    for sharpness in SHARPNESS:
        value = partial(weights_value, candidates=candidates, sharpness=sharpness)
        logs = minimise(value, logs, iterations)[0]
        logs = logs - logs.max()
    found = np.exp(np.maximum(logs, LEAST_LOG))
    found = np.where(found > PRUNED * found.max(), found, 0.0)
    kept = candidates.rows[found > 0] * found[found > 0, None]
    if np.linalg.matrix_rank(kept) < kept.shape[1]:  # pruned rows were needed after all
        kept = candidates.rows * np.exp(np.maximum(logs, LEAST_LOG))[:, None]
    return np.asarray(kept)
