"""The descent over all matrices whose columns have L1 norm 1.

``a_ji = s_ji |s_ji| / Σ_k s_ki²`` makes every column of A a point of the L1 sphere, smoothly in s
and without a smoothing parameter, so the sensitivity is 1 throughout and

    loss = tr F (AᵀA)⁻¹ Fᵀ = ||F A⁺||_F²

is minimised without constraints. Every rank-g strategy whose columns are all tight is reached.
"""

from functools import partial

import numpy as np
from scipy import linalg

from strategies.methods.descents.descent import minimise_sparse
from strategies.methods.descents.error_norm import TOTAL, ErrorNorm
from strategies.methods.descents.p_identity_descent import REFUSED
from strategies.operators import Array

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
