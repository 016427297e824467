"""Weights of cells for any ranges of ordered cells, from the Gram of ordered cells nearest to them.

The Gram of many ranges is near one of the form ``u_min v_max``, whose best weights take near-linear
time (`strategies.bounds.ordered_dual`). They are good weights for the ranges too, and prove a bound
on the true Gram like any others; the optimum for the fitted Gram is a strategy for the ranges.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from strategies.bounds.climbs import uniform_bound
from strategies.bounds.ordered_dual import climb_ordered, steps_within
from strategies.operators import Array, Ranges
from strategies.operators.ordered.ordered_gram import OrderedGram
from strategies.problem.problem import Problem

SAMPLED = 48  # cells at which the Gram is read
ROUNDS = 100  # alternations between u and v
FAINT = 1e-9  # the same while u and v take turns
LEAST = 1e-4  # share of the largest number of u or of v below which none is
RISE = 1e-7  # least relative rise of u / v from cell to cell
FEW = 2  # times the typical length of ranges beyond which these are short
MOST_DECAY = 300.0  # logarithm of the ratio of v at the two ends
TOLERANCE = 1e-4
WORK = 4.0  # seconds for the weights


@dataclass(frozen=True, eq=False)
class FittedDual:
    """A Gram of ordered cells near that of ranges, and its best weights of the cells."""

    gram: OrderedGram
    weights: Array


_DUALS: "WeakKeyDictionary[Problem, FittedDual]" = WeakKeyDictionary()


def fitted_dual(problem: Problem) -> FittedDual | None:
    """Return the weights for a problem of ranges, found once; None for other problems."""
    ranges = problem.ranges
    if ranges is None:
        return None
    if problem not in _DUALS:
        gram = fitted_gram(ranges)
        dual = climb_ordered(gram, TOLERANCE, steps_within(gram.n, WORK))
        _DUALS[problem] = FittedDual(gram, dual.weights)
    return _DUALS[problem]


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
    squares = np.square(ranges.weights.astype(np.float64))
    holds = (ranges.starts <= cells[:, None]) & (ranges.stops > cells[:, None])
    sampled = np.triu((holds * squares) @ holds.T)
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
