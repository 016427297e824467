"""Weights on ordered cells, and on rows, that prove how good a strategy can be.

For ordered cells the Gram ``G = u_min v_max`` has an inverse of three diagonals, and so has
``K = Y^(-1/2) G⁻¹ Y^(-1/2)``, the inverse of ``Y^(1/2) G Y^(1/2)``, for weights y. With the bound
``(tr K^(-1/2))²`` of `strategies.bounds.dual_ascent`, the strategy with

    AᵀA = X = Y^(-1/2) K^(-1/2) Y^(-1/2)

has ``tr(G X⁻¹) = tr K^(-1/2)`` and squared column norms ``q = diag X``. All that the climb needs is
the diagonal of ``K^(-1/2)``, an integral of ``(K + s²)⁻¹`` over s: a few dozen systems of three
diagonals (Hale, Higham, Trefethen 2008), in place of a spectrum.

The Gram of any ranges is near one of this form. The best weights for that one are good for the
ranges too, and prove a bound on the true Gram like any others; the optimum for the fitted Gram is a
strategy for the ranges.

Where the rows are prefix sums of ordered cells, with weights, ``diag(√u) P diag(√y)`` of
`strategies.bounds.dual_ascent` has an inverse of two diagonals, so that

    K⁻¹ = diag(√y) Pᵀ diag(u) P diag(√y),    K_jj = (1/u_j + 1/u_(j-1)) / y_j,
    K_(j,j+1) = -1 / (u_j √(y_j y_(j+1)))

has three. f is the trace of ``K^(-1/2)``, ``diag(K^(-1/2)) / y`` the squared column norms, and the
errors are the same with u and y exchanged and both reversed. So a step costs what it costs for the
total error, and coarser problems begin as there.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from scipy import linalg

from strategies.bounds.dual_ascent import (
    JOINT_RELAXED,
    MARGIN,
    RELAXED,
    WORK,
    Climb,
    Dual,
    JointDual,
    moved_weights,
    uniform_bound,
    updated_weights,
)
from strategies.operators import Array
from strategies.operators.base.operator import cached_per_value
from strategies.operators.ordered_sums import OrderedGram
from strategies.operators.ranges import Ranges
from strategies.problem.determining_rows import PrefixRows
from strategies.problem.problem import Problem

NODES = 36  # systems of three diagonals a step: the diagonal is then exact to nine digits and more
MOST_NODES = 64  # the same for a bound: exact to rounding, whatever K
COARSEST = 256  # cells of the coarsest problem that the weights are climbed on first
MOST_SPECTRUM = 8192  # cells up to which a bound takes the whole spectrum
STEP_SECONDS = 3e-6  # seconds of one step per cell on the reference machine
SAMPLED = 48  # cells at which the Gram is read
ROUNDS = 100  # alternations between u and v
FAINT = 1e-9  # the same while u and v take turns
LEAST = 1e-4  # share of the largest number of u or of v below which none is
RISE = 1e-7  # least relative rise of u / v from cell to cell
FEW = 2  # times the typical length of ranges beyond which these are short
MOST_DECAY = 300.0  # logarithm of the ratio of v at the two ends
TOLERANCE = 1e-4


def bands(gram: OrderedGram, weights: Array) -> tuple[Array, Array]:
    """Return the diagonal (n,) and the side diagonal (n - 1,) of K."""
    diagonal, side = gram.inverse_bands()
    return diagonal / weights, side / np.sqrt(weights[:-1] * weights[1:])


def assess_ordered(gram: OrderedGram, weights: Array) -> Dual:
    ratios = root_diagonal(*bands(gram, weights)) / weights
    return Dual(weights, float(weights @ ratios), ratios)


def root_diagonal(diagonal: Array, side: Array, terms: int = NODES) -> Array:
    """Return the diagonal of ``K^(-1/2)`` for a positive definite K of three diagonals."""
    found = np.zeros(len(diagonal))
    for shift, share in zip(*root_nodes(diagonal, side, terms), strict=True):
        found += share * shifted_inverse(diagonal + shift, side)[0]
    return found


def root_nodes(diagonal: Array, side: Array, terms: int = NODES) -> tuple[Array, Array]:
    """Return shifts and shares with ``K^(-1/2) = sum_m share_m (K + shift_m)⁻¹``.

    ``K^(-1/2) = (2/π) ∫ (K + s²)⁻¹ ds``, at nodes in elliptic functions that suit K's spectrum.
    """
    largest = linalg.eigvalsh_tridiagonal(
        diagonal, side, select="i", select_range=(len(diagonal) - 1,) * 2
    )[0]
    smallest = linalg.eigvalsh_tridiagonal(diagonal, side, select="i", select_range=(0, 0))[0]
    smallest = max(float(smallest), 1e-15 * float(largest)) * (1 - 1e-9)
    ratio = smallest / (float(largest) * (1 + 1e-9))
    period = float(scipy.special.ellipkm1(ratio))
    places = (np.arange(terms) + 0.5) * period / terms
    sine, cosine, delta, _ = scipy.special.ellipj(places, 1.0 - ratio)
    shares = (2.0 * period * np.sqrt(smallest) / (np.pi * terms)) * delta / cosine**2
    return np.asarray(smallest * (sine / cosine) ** 2, np.float64), np.asarray(shares, np.float64)


def shifted_inverse(diagonal: Array, side: Array) -> tuple[Array, Array]:
    """Return the diagonal (n,) of ``K⁻¹``, and what leads off it (n - 1,), K of three diagonals.

    An entry of the inverse below the diagonal is the one above it times ``-k_side / a⁻``, and the
    diagonal is ``1 / (a⁺ + a⁻ - k)``, with a⁺ and a⁻ the pivots of elimination from above and from
    below.
    """
    above = linalg.lapack.dpttrf(diagonal, side)[0]
    below = linalg.lapack.dpttrf(diagonal[::-1], side[::-1])[0][::-1]
    return 1.0 / (above + below - diagonal), -side / below[1:]


def climb_either_way(gram: OrderedGram, tolerance: float, steps: int) -> Dual:
    if not gram.is_flipped:
        return climb_ordered(gram, tolerance, steps)
    dual = climb_ordered(gram.reversal, tolerance, steps)
    return Dual(dual.weights[::-1], dual.root, dual.ratios[::-1])


def climb_ordered(gram: OrderedGram, tolerance: float, steps: int) -> Dual:
    """Return the best weights found, from those of coarser problems, or once the gap is small.

    Every step on a coarser problem of n/2^k cells costs as much less.
    """
    chain = [gram]
    while chain[-1].n >= 2 * COARSEST:
        chain.append(chain[-1].coarse(2))
    coarsest = chain[-1].n
    weights = np.full(coarsest, 1.0 / coarsest)
    for level in chain[:0:-1]:
        weights = climb(level, interpolated_weights(weights, level.n), tolerance, steps).weights
    return climb(gram, interpolated_weights(weights, gram.n), tolerance, steps)


def climb(gram: OrderedGram, start: Array, tolerance: float, steps: int) -> Dual:
    def move(last: Dual, power: float) -> Dual:
        return assess_ordered(gram, updated_weights(last, power))

    return Climb(move, assess_ordered(gram, start), RELAXED).run(tolerance, steps)


def interpolated_weights(weights: Array, n: int) -> Array:
    """Return weights over fewer cells as weights over n, on straight lines between them."""
    places = np.linspace(0.0, len(weights) - 1.0, n)
    found = np.interp(places, np.arange(len(weights)), weights)
    return np.asarray(found / found.sum())


def steps_within(n: int, work: float) -> int:
    """Return how many updates on each of the finer problems a work allowance covers."""
    return max(2, int(work / (2.0 * STEP_SECONDS * n)))


def ordered_bound(gram: OrderedGram, weights: Array) -> float:
    return certified_root(*bands(gram, weights))


def certified_root(diagonal: Array, side: Array) -> float:
    """Return ``(tr K^(-1/2))²``, rounded down, K of three diagonals.

    By one spectrum without vectors, every eigenvalue raised by the error of its solver; of many
    cells by the shifted inverses, the diagonal raised by more than the error of elimination.
    """
    if len(diagonal) > MOST_SPECTRUM:
        raised = diagonal * (1.0 + 16.0 * np.finfo(float).eps)
        return float(root_diagonal(raised, side, MOST_NODES).sum()) ** 2 * (1.0 - MARGIN)
    values = linalg.eigvalsh_tridiagonal(diagonal, side)
    error = 8.0 * np.finfo(float).eps * values[-1]
    root = float(np.sum(1.0 / np.sqrt(np.maximum(values, 0.0) + error)))
    return root**2 * (1.0 - MARGIN)


@dataclass(frozen=True, eq=False)
class FittedDual:
    """A Gram of ordered cells near that of ranges, and its best weights of the cells."""

    gram: OrderedGram
    weights: Array


@cached_per_value
def fitted_dual(problem: Problem) -> FittedDual | None:
    ranges = problem.ranges
    if ranges is None:
        return None
    gram = fitted_gram(ranges)
    return FittedDual(gram, climb_ordered(gram, TOLERANCE, steps_within(gram.n, WORK)).weights)


def fitted_gram(ranges: Ranges) -> OrderedGram:
    """Return a Gram ``u_min v_max`` near that of ranges: of long ones, or of short ones."""
    if FEW * ranges.typical_length < ranges.n:
        return decaying_gram(ranges)
    return least_squares_gram(ranges)


def decaying_gram(ranges: Ranges) -> OrderedGram:
    """Return the Gram with the diagonal of that of ranges, and its decay a few cells off."""
    off = max(1, ranges.typical_length // 4)
    longer = ranges.lengths > off
    shorter = Ranges(
        ranges.n, ranges.starts[longer], ranges.stops[longer] - off, ranges.weights[longer]
    )
    roots = np.sqrt(np.maximum(ranges.diagonal, LEAST * ranges.diagonal.max()))
    both = shorter.diagonal[:-off] / (roots[:-off] * roots[off:])
    each = -np.log(np.clip(both, LEAST, 1.0 - RISE)) / off
    each = np.interp(np.arange(ranges.n), np.arange(len(each)) + off / 2, each)
    decay = np.cumsum(each)
    decay = (decay - decay[-1] / 2.0) * min(1.0, MOST_DECAY / decay[-1])
    return OrderedGram(roots * np.exp(decay), roots * np.exp(-decay))


def least_squares_gram(ranges: Ranges) -> OrderedGram:
    """Return ``u_min v_max`` nearest to the Gram of ranges at sampled cells."""
    cells = np.unique(np.linspace(0, ranges.n - 1, SAMPLED).round().astype(np.int64))
    holds = (ranges.starts <= cells[:, None]) & (ranges.stops > cells[:, None])
    sampled = np.triu((holds * ranges.squares) @ holds.T)
    above = np.triu(np.ones(sampled.shape))
    low, high = np.ones((2, len(cells)))
    for _ in range(ROUNDS):
        low = (sampled @ high) / (above @ high**2)
        low = np.maximum(low / low.max(), FAINT)
        high = (sampled.T @ low) / (above.T @ low**2)
        high = np.maximum(high, FAINT * high.max())
    low, high = (
        np.interp(np.arange(ranges.n), cells, np.maximum(side, LEAST * side.max()))
        for side in (low, high)
    )
    rising = np.maximum.accumulate(low / high) * (1.0 + RISE * np.arange(ranges.n))
    return OrderedGram(rising * high, high)


def ranges_bound(problem: Problem, ranges: Ranges) -> float:
    """Return the bound at the fitted weights: one spectrum of the weighted Gram."""
    found = fitted_dual(problem)
    if found is None:
        return 0.0
    roots = np.sqrt(found.weights / found.weights.sum())
    weighted = roots[:, None] * ranges.gram_dense() * roots
    return ranges.n * uniform_bound(weighted)


PREFIX_TOLERANCE = 1e-6
PREFIX_FAINT = 5e-7
PREFIX_LEAST = (1e-4, 1e-3)
"""Least weight in units of the mean, by the number of cells and within limits: K's condition stays
where its pivots keep their digits. A bound loses no larger share by it."""
MOST_STEPS = 400
MOST_DENSE = 2600  # cells up to which singular values are taken where K has lost digits
CLOSE = 1e-4  # share of f² that a bound may lose before
PREFIX_WORK = 4.0  # seconds of the reference machine for the weights


def row_weights(rows: PrefixRows, groups: Array) -> Array:
    """Return u (n,) at weights of the groups: of the rows that end at each cell, together."""
    sums = np.bincount(rows.ends, groups[rows.groups] * rows.squares)
    return np.asarray(sums, dtype=np.float64)


def prefix_bands(rows: PrefixRows, groups: Array, cells: Array) -> tuple[Array, Array]:
    return symmetric_bands(row_weights(rows, groups), cells)


def symmetric_bands(sums: Array, cells: Array) -> tuple[Array, Array]:
    inverse = 1.0 / sums
    diagonal = (inverse + np.concatenate([[0.0], inverse[:-1]])) / cells
    return diagonal, -inverse[:-1] / np.sqrt(cells[:-1] * cells[1:])


def assess_prefix(rows: PrefixRows, groups: Array, cells: Array) -> JointDual:
    sums = row_weights(rows, groups)
    norms = root_diagonal(*symmetric_bands(sums, cells)) / cells
    errors = root_diagonal(*symmetric_bands(cells[::-1], sums[::-1]))[::-1] / sums
    shares = np.bincount(rows.groups, rows.squares * errors[rows.ends]).astype(np.float64)
    return JointDual(groups, cells, float(cells @ norms), shares, norms)


def climb_prefix(rows: PrefixRows, work: float) -> JointDual:
    """Return the best weights found, from those of coarser problems where rows are plain."""

    def move(last: JointDual, power: float) -> JointDual:
        groups = moved_weights(last.groups, last.errors / last.root, power, least)
        cells = moved_weights(last.cells, last.norms / last.root, power, least)
        return assess_prefix(rows, groups, cells)

    least = float(np.clip(PREFIX_FAINT * rows.n, *PREFIX_LEAST))
    if rows.is_plain and rows.n >= 2 * COARSEST:
        known = climb_prefix(rows.coarser, work)
        start = tuple(interpolated_weights(one, rows.n) for one in (known.groups, known.cells))
    else:
        start = tuple(np.full(count, 1.0 / count) for count in (rows.n_groups, rows.n))
    climb = Climb(move, assess_prefix(rows, *start), JOINT_RELAXED)
    return climb.run(PREFIX_TOLERANCE, min(MOST_STEPS, steps_within(2 * rows.n, work)))


@cached_per_value
def prefix_dual(problem: Problem, rows: PrefixRows) -> JointDual:
    return climb_prefix(rows, PREFIX_WORK)


def prefix_bound(rows: PrefixRows, dual: JointDual) -> float:
    """Return the bound at given weights, rounded down.

    Where weights are faint, from the singular values themselves: K has lost their small squares.
    """
    bound = certified_root(*prefix_bands(rows, dual.groups, dual.cells))
    if rows.n > MOST_DENSE or bound > (1.0 - CLOSE) * dual.root**2:
        return bound
    sums = row_weights(rows, dual.groups)
    whole = np.sqrt(sums)[:, None] * np.tri(rows.n) * np.sqrt(dual.cells)
    values = linalg.svdvals(whole, overwrite_a=True, check_finite=False)
    error = 4.0 * rows.n**2 * np.finfo(float).eps * float(values[0])
    return max(bound, (float(values.sum()) - error) ** 2 * (1.0 - MARGIN))
