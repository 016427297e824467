r"""How far log odds are spread, and what curvature that leaves: from releases alone.

The mean curvature of a record is half the share of wrong labels, ``E min(p, 1-p) / 2``. Log odds
:math:`F = b + L` that are right about the labels, with an L that is normal in each class, have
:math:`L \sim N(\pm s/2, s)`, for ``p(L | 1) = exp(L) p(L | 0)``. So one number s, the spread,
settles the curvature:

.. math:: C(s) = \tfrac12 σ(b)\,Φ\Bigl(-\frac{s/2 + b}{\sqrt s}\Bigr)
                 + \tfrac12 σ(-b)\,Φ\Bigl(-\frac{s/2 - b}{\sqrt s}\Bigr).

A table with effects δ on cells of shares q widens the spread by
:math:`\sum_u (q_u^1 - q_u^0) δ_u`, if it is independent of the others given the class.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr

Floats = NDArray[np.float64]

LEAST_SPREAD, LARGEST_SPREAD = 1e-9, 400.0

LARGEST_ODDS = 500.0
"""Log odds beyond which shares of a class would be nothing. A public N far below the records'
number leads there."""


def curvature_at(intercept: float, spread: float) -> float:
    """Return the mean curvature of a record of two classes.

    `intercept`: log odds b of the class totals; `spread`: s, at least `LEAST_SPREAD`.

    >>> [round(curvature_at(0.0, spread), 3) for spread in (LEAST_SPREAD, 1, 4, 16)]
    [0.25, 0.154, 0.079, 0.011]
    """
    signed = intercept * np.array([1.0, -1.0])
    wrong = ndtr(-(spread / 2 + signed) / np.sqrt(spread))
    return float(expit(signed) @ wrong / 2)


def spread_at(intercept: float, curvature: float) -> float:
    """Return the spread that leaves a mean curvature, within its bounds."""
    if curvature >= curvature_at(intercept, LEAST_SPREAD):
        return LEAST_SPREAD
    if curvature <= curvature_at(intercept, LARGEST_SPREAD):
        return LARGEST_SPREAD
    return float(
        brentq(lambda s: curvature_at(intercept, s) - curvature, LEAST_SPREAD, LARGEST_SPREAD)
    )


def widening(intercept: float, shares: Floats, effects: Floats) -> float:
    """Return by how much a table's effects widen the spread, at least 0.

    `shares` (n,): of the records in each cell; `effects` (n,): on the log odds.

    >>> round(widening(0.0, np.array([0.5, 0.5]), np.array([-2.0, 2.0])), 3)
    3.046
    """
    odds = np.clip(intercept + effects, -LARGEST_ODDS, LARGEST_ODDS)
    one, other = shares * expit(odds), shares * expit(-odds)
    return float((one / one.sum() - other / other.sum()) @ effects)
