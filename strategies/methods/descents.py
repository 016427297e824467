"""What descents share: L-BFGS, columns of norm 1, iterations from an allowance, and starts.

What is minimised is the sum of the rows' errors, or a p-norm of sums over groups: a rising p turns
``||P||_p`` into the largest sum P_k. Its logarithm has the slope ``z_k / (Σ z · P_k)`` in P_k, with
``z = (P / max P)^p``: every row's error enters a descent with the weight of its group, and p = 1 is
the total.

*p-Identity*: ``A = [I; B] diag(d)`` with ``d_i = 1 / (1 + ||b_i||_1)``. With ``F' = F diag(1/d)``

    loss = tr F' (I + BᵀB)⁻¹ F'ᵀ = ||X||² + ||Y||²,
    Y = F' Bᵀ (I + B Bᵀ)⁻¹,   X = F' - Y B            (the rows' reconstruction, [X, Y] A = F)

by Woodbury: p x p systems only, and a sum of squares where a difference of traces would cancel.
The entries are ``b = s |s|``, so that their absolute values are smooth (``|b| = s²``), zero is a
resting point that many entries reach, and a descent needs no smoothing parameter.

*Free columns*: ``a_ji = s_ji |s_ji| / Σ_k s_ki²`` makes every column of A a point of the L1 sphere,
smoothly in s, and ``loss = tr F (AᵀA)⁻¹ Fᵀ``. Every rank-g strategy whose columns are all tight is
reached.

*Starts* lie far from the Identity, where the L1 objective has a local minimum that holds descents.
A start is a stack of rows beside the Identity, in units of the identity rows' weight. What starts
well: the workload's own rows squared entry by entry (a row of ``Q Tᵀ T`` is a bump around a test
record, its square a narrower one), the optimum for Gaussian noise, and a few random rows.

References
----------
McKenna, Miklau, Hay, Machanavajjhala: Optimizing error of high-dimensional statistical queries
under differential privacy (2018), the p-Identity strategies (there with B >= 0, started at random).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy
from scipy import linalg

from strategies.bounds.dual_ascent import ascend, gaussian_strategy, steps_within, update_seconds
from strategies.operators.base.arrays import Array, Longs
from strategies.operators.base.recovery import PRODUCTS
from strategies.operators.masks.packed_masks import unique_rows
from strategies.problem.problem import Problem

NEGLIGIBLE = 1e-3
"""Share of the largest root below which an entry is dropped: its square is a millionth."""
REFUSED = 1e30
"""Value of the objective where a system cannot be factorised: the line search then backs off."""
MEMORY = 20  # pairs of steps and gradients that L-BFGS keeps
STALLED = 1e-10  # relative progress of a step below which a descent ends
ENTRIES = 6e-8  # seconds per variable and step: entrywise work and the vectors of L-BFGS
OVERHEAD = 2e-4  # seconds per step however small


def minimise(
    value: Callable[[Array], tuple[float, Array]],
    start: Array,
    iterations: int,
    least: Array | float = -np.inf,
) -> tuple[Array, float]:
    """Return where L-BFGS ends after a number of iterations, in the start's shape, and the value.

    `value`: objective and gradient at an array of the start's shape; `least`: bound of variables.

    The gradient's size is no reason to stop, since the objectives are logarithms of losses that
    do not depend on the scale of their argument.
    """

    def flat_value(flat: Array) -> tuple[float, Array]:
        loss, gradient = value(flat.reshape(start.shape))
        return loss, gradient.ravel()

    found = scipy.optimize.minimize(
        flat_value,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(least) if np.max(least) > -np.inf else None,
        options={
            "maxiter": iterations,
            "maxfun": 2 * iterations + 20,
            "maxcor": MEMORY,
            "ftol": STALLED,
            "gtol": 0.0,
        },
    )
    return np.asarray(found.x, dtype=np.float64).reshape(start.shape), float(found.fun)


def minimise_sparse(
    value: Callable[[Array], tuple[float, Array]], start: Array, warmup: int, iterations: int
) -> tuple[Array, float]:
    """Minimise in two runs: over all entries, then over those that are not nearly zero.

    Where most entries of a solution are zero, the second run's vectors are far shorter. Suits
    entries ``s |s|`` of a matrix, which hardly move once they are small.
    """
    roots, lowest = minimise(value, start, warmup) if warmup > 0 else (start, np.inf)
    active = np.abs(roots) > NEGLIGIBLE * np.abs(roots).max(initial=0.0)
    whole = np.zeros_like(roots)

    def active_value(entries: Array) -> tuple[float, Array]:
        whole[active] = entries
        loss, gradient = value(whole)
        return loss, gradient[active]

    entries, found = minimise(active_value, roots[active], iterations)
    if found > lowest:  # dropping entries cost more than the descent gained
        return roots, lowest
    ended = np.zeros_like(roots)
    ended[active] = entries
    return ended, found


def step_seconds(operations: float, variables: int) -> float:
    return OVERHEAD + operations / PRODUCTS + ENTRIES * variables


def log_norm(numbers: Array, power: float) -> tuple[float, Array]:
    """Return ``log ||x||_p`` of numbers that are not negative, near the largest, and its slope."""
    largest = numbers.max()
    shares = (numbers / largest) ** power
    whole = shares.sum()
    slopes = np.divide(shares, whole * numbers, out=np.zeros_like(numbers), where=numbers > 0)
    return float(np.log(largest) + np.log(whole) / power), slopes


POWERS = (4.0, 16.0, 64.0, 256.0, 1024.0)  # exponents, round by round


@dataclass(frozen=True, eq=False)
class ErrorNorm:
    """A p-norm of the sums of errors over groups of rows."""

    # (k,): group of every row, numbered from 0; None for the total of all rows
    groups: Longs | None = None
    power: float = 1.0  # p, without meaning for the total

    def log_value(self, errors: Array) -> tuple[float, Array]:
        """Return ``log ||P||_p`` and its slope in every row's error, shape (k,).

        >>> value, slopes = ErrorNorm(np.array([0, 0, 1]), 2.0).log_value(np.array([1.0, 2.0, 4.0]))
        >>> round(value, 6), slopes.round(6).tolist()
        (1.609438, [0.12, 0.12, 0.16])
        """
        if self.groups is None:
            total = float(errors.sum())
            return float(np.log(total)), np.full(len(errors), 1.0 / total)
        sums = np.bincount(self.groups, weights=errors).astype(np.float64, copy=False)
        value, slopes = log_norm(sums, self.power)
        return value, slopes[self.groups]

    def value(self, errors: Array) -> float:
        """Return the total, or the largest sum: the limit of every p."""
        if self.groups is None:
            return float(errors.sum())
        return float(np.bincount(self.groups, weights=errors).max())

    def at(self, power: float) -> "ErrorNorm":
        return self if self.groups is None else replace(self, power=power)

    @property
    def rounds(self) -> tuple["ErrorNorm", ...]:
        return (self,) if self.groups is None else tuple(self.at(power) for power in POWERS)


TOTAL = ErrorNorm()


def descent_target(problem: Problem) -> tuple[Array, ErrorNorm] | None:
    """Return rows over the merged cells (k, g) and the norm of their errors to descend on.

    For the total any factor of the Gram will do, for the worst row or group the distinct rows;
    None where they cannot be enumerated.
    """
    if problem.is_total:
        return None if problem.factor is None else (problem.factor, TOTAL)
    rows = problem.distinct_rows
    return None if rows is None else (rows.rows, ErrorNorm(rows.groups))


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
    """Return the log of the loss at ``B = s |s|``, and its gradient in s."""
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

    `fill`: entries below this share of the largest are raised to it, with their sign; `warmup`:
    iterations after which entries that are nearly zero are dropped; by default never.
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
    """Return the log of the loss at ``a = s |s|``, columns normalised, and its gradient in s."""
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

    `warmup`, `iterations`: steps over all entries, and then over those that are not nearly zero;
    `fill`: entries below this share of their row's largest are raised to it, with random signs.
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


MOST_ROWS = 700  # distinct rows of a workload that are few enough to start from
MANY_REPEATS = 50  # rows per merged cell above which a workload's distinct rows are not looked for


def scaled_rows(rows: Array, weight: float) -> Array:
    """Scale rows so that their largest column has L1 norm `weight`."""
    return np.asarray(rows * (weight / np.abs(rows).sum(axis=0).max()))


def own_rows(problem: Problem) -> Array | None:
    """Return the distinct nonzero rows of the merged workload, None where they are many."""
    merged = problem.merged_workload
    if merged is None or merged.shape[0] > MANY_REPEATS * merged.shape[1]:
        return None
    dense = merged.to_dense() + 0.0
    rows = dense[unique_rows(dense)[0]]
    rows = rows[rows.any(axis=1)]
    return rows if len(rows) <= min(MOST_ROWS, merged.shape[1]) else None


def squared_rows(rows: Array) -> Array:
    """Return the rows' entries squared, with their signs, every row with largest entry 1."""
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
    return np.asarray(scaled * np.abs(scaled))


def gaussian_rows(factor: Array, work: float) -> Array:
    steps = steps_within(update_seconds(factor), work)
    return gaussian_strategy(factor, ascend(factor, 1e-4, steps))
