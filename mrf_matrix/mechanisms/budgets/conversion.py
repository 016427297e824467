"""Zero-concentrated privacy in the (ε, δ) terms that others report, through dp-accounting."""

from fractions import Fraction
from math import isinf, log, sqrt

import numpy as np

from mrf_matrix.base.checks import BudgetError, exact_positive

BISECTIONS = 60
LARGEST = 10**6
"""Larger ε are converted as this: the ρ found implies them too."""

LEAST = 1e-300
"""Smaller ρ are converted as this: an upper bound, and finite arithmetic."""


def epsilon_from_rho(rho: Fraction | float, delta: float) -> float:
    """Return an ε for which ρ-zCDP implies (ε, δ)-DP.

    ``ε = min over α > 1 of ρ α + log(1 - 1/α) - log(δ α)/(α - 1)``: ρ-zCDP is (α, ρα)-RDP for
    every α (Bun and Steinke 2016), converted by Proposition 12 of Canonne, Kamath and Steinke
    (2020) as dp-accounting does it.

    δ is well below one over the number of records; ε is infinite where ρ is.

    >>> round(epsilon_from_rho(0.5, 1e-6), 2)
    5.22
    """
    checked = _checked_delta(delta)
    return float("inf") if isinf(rho) else _epsilon(max(float(rho), LEAST), checked)


def rho_from_epsilon(epsilon: float, delta: float) -> Fraction | float:
    """Return the largest ρ found for which ρ-zCDP implies (ε, δ)-DP.

    >>> 0.99 < epsilon_from_rho(rho_from_epsilon(1.0, 1e-6), 1e-6) <= 1.0
    True
    """
    target = exact_positive("epsilon", epsilon, allow_infinite=True)
    checked = _checked_delta(delta)
    if isinf(target):
        return target
    goal = float(min(target, LARGEST))
    slack = log(1 / checked)
    # the classical conversion ε = ρ + 2 sqrt(ρ log(1/δ)) is never better: a safe start
    low = (sqrt(slack + goal) - sqrt(slack)) ** 2 * (1 - 1e-9)
    high = goal + 4 * low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _epsilon(middle, checked) <= goal else (low, middle)
    return Fraction(repr(low * (1 - 1e-9)))  # beyond rounding: converted back it is within goal


def _epsilon(rho: float, delta: float) -> float:
    from dp_accounting import rdp

    slack = log(1 / delta)
    best = 1 + sqrt(slack / rho)
    orders = 1 + np.geomspace(max((best - 1) / 100, 0.011), (best - 1) * 100 + 1, 2000)
    found = float(rdp.compute_epsilon(orders, rho * orders, delta)[0])
    # orders near 1 are not among them: beyond ρ of 1000 the classical conversion is the sharper
    return min(found, rho + 2 * sqrt(rho * slack))


def _checked_delta(delta: object) -> float:
    exact = exact_positive("delta", delta)
    if exact >= 1 or not float(exact):
        given = float(delta) if isinstance(delta, Fraction) else delta
        raise BudgetError(f"delta={given!r}: expected a probability between 0 and 1, exclusive.")
    return float(exact)
