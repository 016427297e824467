"""The descents over matrices whose columns have L1 norm 1, so that the sensitivity is 1 throughout.

*p-Identity*: ``A = [I; B] diag(d)`` with ``d_i = 1 / (1 + ||b_i||_1)``. With ``F' = F diag(1/d)``

    loss = tr F' (I + BᵀB)⁻¹ F'ᵀ = ||X||² + ||Y||²,
    Y = F' Bᵀ (I + B Bᵀ)⁻¹,   X = F' - Y B            (the rows' reconstruction, [X, Y] A = F)

by Woodbury: p x p systems only, and a sum of squares where a difference of traces would cancel.
The entries are ``b = s |s|``, so that their absolute values are smooth (``|b| = s²``), zero is a
resting point that many entries reach, and a descent needs no smoothing parameter.

*Free columns*: ``a_ji = s_ji |s_ji| / Σ_k s_ki²`` makes every column of A a point of the L1 sphere,
smoothly in s, and ``loss = tr F (AᵀA)⁻¹ Fᵀ``. Every rank-g strategy whose columns are all tight is
reached.

References
----------
McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries
under differential privacy (2018), the p-Identity strategies (there with B >= 0, started at random).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg

from strategies.methods.descents.descent import REFUSED, TOTAL, ErrorNorm, minimise, minimise_sparse
from strategies.operators import Array

LEAST_SHARE = 1e-3
"""Zero entries start at this share of the largest: from zero itself no descent ever moves."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Where a descent ended."""

    rows: Array  # (p, g): B, beside identity rows of weight 1, before the columns are normalised
    loss: float  # by the descent's own formula: recompute before reporting

    @property
    def matrix(self) -> Array:
        """The strategy ``[I; B] diag(d)`` (g + p, g), of sensitivity 1."""
        return p_identity_matrix(self.rows)


def p_identity_matrix(rows: Array) -> Array:
    """Return ``[I; B] diag(d)`` with every column of L1 norm 1; rows of zeros are left out."""
    used = rows[np.abs(rows).max(axis=1, initial=0.0) > 0]
    scale = 1.0 / (1.0 + np.abs(used).sum(axis=0))
    return np.concatenate([np.diag(scale), used * scale])


def p_identity_value(roots: Array, factor: Array, errors: ErrorNorm = TOTAL) -> tuple[float, Array]:
    """Return the log of the loss at ``B = s |s|``, and its gradient in s.

    `roots`: (p, g), s; `factor`: (r, g), F, any matrix with the workload's Gram ``FᵀF = WᵀW``, or
    the workload's rows; `errors`: what is minimised of the errors of F's rows.
    """
    sizes = np.abs(roots)
    rows = roots * sizes
    stretched = factor * (1.0 + np.einsum("ij,ij->j", roots, roots))
    system = rows @ rows.T
    system[np.diag_indices_from(system)] += 1.0
    triangle, info = linalg.lapack.dpotrf(system, lower=True, overwrite_a=True)
    if info != 0:
        return REFUSED, np.zeros_like(roots)
    shares = linalg.lapack.dpotrs(triangle, rows @ stretched.T, lower=True)[0].T
    rest = stretched - shares @ rows
    squares = np.einsum("ij,ij->i", rest, rest) + np.einsum("ij,ij->i", shares, shares)
    if not np.isfinite(squares).all() or not squares.max(initial=0.0) > 0:
        return REFUSED, np.zeros_like(roots)
    value, weights = errors.log_value(squares)
    rest *= weights[:, None]
    pull = np.einsum("ij,ij->j", rest, factor)
    return value, 4.0 * (roots * pull - sizes * (shares.T @ rest))


def descend(
    factor: Array,
    rows: Array,
    iterations: int,
    fill: float = LEAST_SHARE,
    warmup: int | None = None,
    errors: ErrorNorm = TOTAL,
) -> Descent:
    """Descend from B for a number of iterations.

    `factor`: (r, g); `rows`: (p, g), where to start, in units of the identity rows' weight; `fill`:
    entries below this share of the largest are raised to it, with their sign; `warmup`: iterations
    after which entries that are nearly zero are dropped; by default never; `errors`: what is
    minimised of the errors of F's rows.
    """
    least = fill * float(np.abs(rows).max(initial=0.0))
    filled = np.where(np.abs(rows) < least, np.where(rows < 0, -least, least), rows)
    roots = np.sign(filled) * np.sqrt(np.abs(filled))
    value = partial(p_identity_value, factor=factor, errors=errors)
    if warmup is None:
        ended, log_loss = minimise(value, roots, iterations)
    else:
        ended, log_loss = minimise_sparse(value, roots, warmup, max(iterations - warmup, 1))
    with np.errstate(over="ignore"):  # a search that found nothing has the loss infinity
        return Descent(ended * np.abs(ended), float(np.exp(log_loss)))


FILL = 1e-3
"""Zero entries start at this share of their row's largest: from zero itself none ever moves."""


def free_columns_value(
    roots: Array, factor: Array, errors: ErrorNorm = TOTAL
) -> tuple[float, Array]:
    """Return the log of the loss at ``a = s |s|``, columns normalised, and its gradient in s.

    `roots`: (m, g), s, of full column rank as A; `factor`: (r, g), F with the workload's Gram ``FᵀF
    = WᵀW``, or the workload's rows; `errors`: what is minimised of the errors of F's rows.
    """
    sizes = np.abs(roots)
    norms = np.einsum("ij,ij->j", roots, roots)
    if not norms.min(initial=1.0) > 0:
        return REFUSED, np.zeros_like(roots)
    matrix = roots * (sizes / norms)
    triangle, info = linalg.lapack.dpotrf(matrix.T @ matrix, lower=True, overwrite_a=True)
    if info != 0:
        return REFUSED, np.zeros_like(roots)
    solved = linalg.lapack.dpotrs(triangle, factor.T, lower=True)[0]
    recovery = matrix @ solved
    squares = np.einsum("ij,ij->j", recovery, recovery)
    if not np.isfinite(squares).all() or not squares.max(initial=0.0) > 0:
        return REFUSED, np.zeros_like(roots)
    value, weights = errors.log_value(squares)
    slope = recovery @ (solved * weights).T
    radial = np.einsum("ij,ij->j", slope, matrix)
    return value, -4.0 * ((sizes * slope - roots * radial) / norms)


def descend_columns(
    factor: Array,
    matrix: Array,
    warmup: int,
    iterations: int,
    generator: np.random.Generator,
    errors: ErrorNorm = TOTAL,
    fill: float = FILL,
) -> Array:
    """Return the matrix, of sensitivity 1, where a descent from another ends.

    `factor`: (r, g); `matrix`: (m, g), of full column rank; `warmup`, `iterations`: steps over all
    entries, and then over those that are not nearly zero; `generator`: draws the signs of the small
    entries that replace zeros; `errors`: what is minimised of the errors of F's rows; `fill`:
    entries below this share of their row's largest are raised to it.
    """
    least = fill * np.abs(matrix).max(axis=1, keepdims=True)
    signs = generator.choice([-1.0, 1.0], size=matrix.shape)
    filled = np.where(np.abs(matrix) < least, signs * least, matrix)
    filled = filled / np.abs(filled).sum(axis=0)
    roots = np.sign(filled) * np.sqrt(np.abs(filled))
    value = partial(free_columns_value, factor=factor, errors=errors)
    ended, _ = minimise_sparse(value, roots, warmup, iterations)
    found = ended * np.abs(ended)
    sums = np.abs(found).sum(axis=0)
    if not (np.isfinite(sums).all() and sums.min() > 0):  # a column was dropped, or overflowed
        return matrix
    return np.asarray(found / sums)
