"""Weights on the cells and on groups of rows that prove how small a worst error can be.

With rows R = C F (k x g), groups G_k of rows, weights λ of the groups and y of the cells, both
distributions, and u_i = λ_{g(i)},

    f(λ, y) = ||diag(√u) R diag(√y)||_* = min_X ½ (Σ_i u_i r_iᵀ X⁻¹ r_i + Σ_j y_j X_jj)

is a minimum of functions linear in (λ, y), so it is concave in both at once, and f² is a lower
bound on ``||A||² max_k Σ_{i in G_k} ||(W A⁺)_i||²`` of every strategy, of either norm. With
``H = Cᵀ diag(u) C = L Lᵀ`` and ``K = Lᵀ F diag(y) Fᵀ L`` (r x r) the minimum is at
``A = K^(-1/4) Lᵀ F``, ``X = AᵀA``, whose errors P_k and squared column norms q_j bound the optimum
for "l2" from above by ``max q · max P``. Both meet at the maximum of f, where P and q are f on the
support. The update ``λ ← λ (P/f)^1.5, y ← y q/f`` climbs; a step that descends is taken again with
exponent 1. One group of all rows is `strategies.bounds.dual_weights`.

References
----------
Edmonds, Nikolov, Ullman: The power of factorization mechanisms in local and central differential
privacy (2020), the norm γ₂ and its dual.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from strategies.bounds.dual_weights import Climb, certified_bound
from strategies.operators import Array
from strategies.problem.distinct_rows import DistinctRows

RELAXED = 1.5  # exponent of the update of the groups' weights; 1 climbs surely
LEAST = 1e-10  # least weight, in units of the mean: keeps every row within the strategy's reach


@dataclass(frozen=True, eq=False)
class JointDual:
    """Distributions over the groups of rows and over the cells, and what they prove."""

    groups: Array  # (K,): λ
    cells: Array  # (g,): y
    root: float  # f; its square bounds every loss from below, up to rounding
    errors: Array  # (K,): P, the sums of errors of the strategy before it is scaled
    norms: Array  # (g,): q, its squared L2 column norms

    @property
    def gap(self) -> float:
        """Relative distance of the strategy from the optimum for "l2"."""
        return float(self.errors.max() * self.norms.max()) / self.root**2 - 1.0


def joint_climb(rows: DistinctRows) -> Climb[JointDual]:
    """Return the updates of both weights, which begin alike."""

    def move(last: JointDual, power: float) -> JointDual:
        groups = moved_weights(last.groups, last.errors / last.root, power)
        return assess_joint(rows, groups, moved_weights(last.cells, last.norms / last.root, 1.0))

    g, count = rows.rows.shape[1], rows.n_groups
    first = assess_joint(rows, np.full(count, 1.0 / count), np.full(g, 1.0 / g))
    return Climb(move, first, RELAXED)


def moved_weights(weights: Array, ratios: Array, power: float, least: float = LEAST) -> Array:
    """Return a distribution after one multiplicative update, none of it vanishing.

    `least`: the least weight, in units of the mean.
    """
    moved = weights * ratios**power
    moved = np.maximum(moved / moved.sum(), least / len(moved))
    return np.asarray(moved / moved.sum())


def assess_joint(rows: DistinctRows, groups: Array, cells: Array) -> JointDual:
    """Return what weights of the groups and of the cells prove."""
    half, values, vectors = joint_spectrum(rows, groups, cells)
    fourth = np.sqrt(np.sqrt(values))
    columns = (vectors / fourth).T @ (half.T @ rows.factor)
    solved = linalg.solve_triangular(half, rows.coordinates.T, lower=True, check_finite=False)
    inner = (vectors * fourth).T @ solved
    errors = np.einsum("ij,ij->j", inner, inner)
    norms = np.einsum("ij,ij->j", columns, columns)
    sums = np.asarray(np.bincount(rows.groups, weights=errors), dtype=np.float64)
    return JointDual(groups, cells, float(np.sqrt(values).sum()), sums, norms)


def joint_spectrum(rows: DistinctRows, groups: Array, cells: Array) -> tuple[Array, Array, Array]:
    """Return L, the eigenvalues of K, kept off zero, and its eigenvectors."""
    inner = rows.coordinates
    gram = (inner.T * groups[rows.groups]) @ inner
    rounding = 4 * len(gram) * np.finfo(float).eps * gram.diagonal().max()
    gram[np.diag_indices_from(gram)] += rounding  # of full rank, whatever the weights
    half = linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    scaled = half.T @ rows.factor
    moment = (scaled * cells) @ scaled.T
    values, vectors = linalg.eigh(moment, driver="evd", overwrite_a=True, check_finite=False)
    floor = len(values) * np.finfo(float).eps * values[-1]
    return half, np.maximum(values, floor), vectors


def joint_strategy(rows: DistinctRows, dual: JointDual) -> Array:
    """Return ``K^(-1/4) Lᵀ F`` scaled to largest L2 column norm 1."""
    half, values, vectors = joint_spectrum(rows, dual.groups, dual.cells)
    columns = (vectors / np.sqrt(np.sqrt(values))).T @ (half.T @ rows.factor)
    return np.asarray(columns / np.sqrt(dual.norms.max()))


def certified_joint_bound(rows: DistinctRows, dual: JointDual) -> float:
    """Return the bound at given weights, rounded down, from the rows themselves."""
    weights = dual.groups[rows.groups]
    k, g = rows.rows.shape
    if k <= g:
        return certified_bound(rows.rows * np.sqrt(weights)[:, None], dual.cells)
    return certified_bound(rows.rows.T * np.sqrt(dual.cells)[:, None], weights)
