"""The descent behind p-Identity: ``A = [I; B] diag(d)`` with every column of L1 norm 1.

With ``d_i = 1 / (1 + ||b_i||_1)`` the sensitivity is 1 for every B, and with ``F' = F diag(1/d)``

    loss = tr F' (I + BᵀB)⁻¹ F'ᵀ = ||X||² + ||Y||²,
    Y = F' Bᵀ (I + B Bᵀ)⁻¹,   X = F' - Y B            (the rows' reconstruction, [X, Y] A = F)

by Woodbury: p x p systems only, and a sum of squares where a difference of traces would cancel.
The entries are ``b = s |s|``, so that their absolute values are smooth (``|b| = s²``), zero is a
resting point that many entries reach, and a descent needs no smoothing parameter.

References
----------
McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries
under differential privacy (2018), the p-Identity strategies (there with B >= 0, started at random).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg

from strategies.methods.descents.descent import minimise, minimise_sparse
from strategies.methods.descents.error_norm import TOTAL, ErrorNorm
from strategies.operators import Array

REFUSED = 1e30
"""Value of the objective where a system cannot be factorised: the line search then backs off."""
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
