"""The normal law in place of that of a weighted sum of noise, and how far off it is."""

from math import exp, inf, pi, sqrt

import numpy as np
from scipy.special import ndtr

NORMAL_ERROR = 0.0334
r"""Largest distance of a normal flip probability from that of single Laplace draws, one rival.

The difference of two unit draws exceeds x with probability :math:`(2 + x) e^{-x} / 4`, its normal
stand-in with :math:`\Phi(-x/2)`; they are farthest apart, .03331, at x = 1.18.
"""


def normal_flip(margin: float, variance: float, rivals: int = 1) -> float:
    """Return the flip probability where only the variance is known: a normal error.

    A single Laplace draw is the worst case; sums are closer. Where the margin is a whole number of
    its steps, the stand-in is off by `NORMAL_ERROR` at most against one rival, at any scale, and by
    .051 against up to nine (.067 against 25). Between two steps half the probability that two
    draws agree comes on top: ``1/(8 s)`` for draws of scale s, a half where s is small.
    """
    if variance == 0:
        return 0.0 if margin > 0 else rivals / (rivals + 1)
    if rivals == 1:
        return edgeworth_tail(margin / sqrt(2 * variance), 0.0)
    grid = np.linspace(-8, 8, 2001)
    density = np.exp(-0.5 * grid**2)
    keep = density @ ndtr(grid + margin / sqrt(variance)) ** rivals / density.sum()
    return float(1 - keep)


def edgeworth_tail(x: float, excess: float) -> float:
    """Return ``P(S > x)`` for a standardised symmetric sum with a given excess kurtosis."""
    if x == inf:
        return 0.0
    density = exp(-0.5 * x * x) / sqrt(2 * pi)
    tail = float(ndtr(-x)) + density * excess / 24 * (x**3 - 3 * x)
    return min(1.0, max(0.0, tail))
