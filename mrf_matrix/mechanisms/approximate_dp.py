"""(ε, δ)-differential privacy: as a total, and as what zero-concentrated privacy implies."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from math import isinf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.checks import BudgetError, exact_positive, format_number, magnitude

UPWARD = Context(prec=6, rounding=ROUND_CEILING)

BISECTIONS = 60
LARGEST = 10**6
"""Larger ε are converted as this: the ρ found implies them too."""
LEAST = 1e-300  # smaller ρ are converted as this: an upper bound, and finite arithmetic

LEAST_CONVERTED = 1e-140  # ε beside δ whose ρ, about its square, is a float above `LEAST`


@dataclass(frozen=True, repr=False)
class ApproximateDP:
    """What all releases together may cost, as (ε, δ)-differential privacy.

    ``P(M(D) ∈ S) <= exp(ε) P(M(D') ∈ S) + δ`` for all neighbours D, D' and all S (Dwork et al.,
    2006). It is a total of a `PrivacyLedger`: no noise is calibrated to it, for a release takes a
    pure ε, or the ρ that implies the claim (`ZCDP.for_approximate_dp`).

    Parameters
    ----------
    epsilon, delta : int, float, Fraction or Decimal
        Finite and positive, ε 1e-140 or more, δ from 1e-300 to below 1. A float is taken as the
        decimal it prints as.

    Raises
    ------
    BudgetError
        If one is out of its range.
    TypeError
        If one is no real number.

    Examples
    --------
    >>> ApproximateDP(3, 1e-6)
    ApproximateDP(epsilon=3, delta=1e-06)
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        epsilon = exact_positive("epsilon", self.epsilon, allow_infinite=True)
        if isinf(epsilon):
            raise BudgetError(
                "epsilon=inf with delta, which claims nothing: expected a finite epsilon, or an "
                "infinite one without delta."
            )
        delta = Fraction(exact_positive("delta", self.delta))
        if delta >= 1 or delta < Fraction(LEAST):
            raise BudgetError(
                "delta is out of its range: expected a probability of 1e-300 or more and below 1, "
                "well below one over the number of records."
            )
        if epsilon < LEAST_CONVERTED:
            raise BudgetError("epsilon is too small: expected at least 1e-140 beside delta.")
        object.__setattr__(self, "epsilon", Fraction(epsilon))
        object.__setattr__(self, "delta", delta)

    @property
    def is_infinite(self) -> bool:
        """False: an (ε, δ) total is always finite."""
        return False

    def to_dict(self) -> dict[str, str]:
        """Return ``{"epsilon": "3", "delta": "1/1000000"}``, exact, for JSON."""
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    def __str__(self) -> str:
        return f"(epsilon={format_number(self.epsilon)}, delta={format_number(self.delta)})"

    def __repr__(self) -> str:
        return f"ApproximateDP{self}"


def renyi_orders(rho: float, delta: float) -> NDArray[np.float64]:
    """Return Rényi orders around the one that converts ρ at δ best, increasing."""
    best = 1 + sqrt(log(1 / delta) / rho)
    return 1 + np.geomspace(max((best - 1) / 100, 0.011), (best - 1) * 100 + 1, 2000)


def implied_epsilon(rho: float, delta: float) -> float:
    from dp_accounting import rdp

    slack = log(1 / delta)
    orders = renyi_orders(rho, delta)
    found = float(rdp.compute_epsilon(orders, rho * orders, delta)[0])
    # orders near 1 are not among them: beyond ρ of 1000 the classical conversion is the sharper
    return min(found, rho + 2 * sqrt(rho * slack))


def largest_rho(epsilon: float | Fraction, delta: float | Fraction) -> Fraction | float:
    """Return the largest ρ found that implies (ε, δ), see `ZCDP.for_approximate_dp`."""
    target = exact_positive("epsilon", epsilon, allow_infinite=True)
    checked = checked_delta(delta)
    if isinf(target):
        return target
    if target < LEAST_CONVERTED:
        raise BudgetError(
            f"epsilon={magnitude(Fraction(target))}: expected at least 1e-140 beside delta."
        )
    goal = float(min(target, LARGEST))
    slack = log(1 / checked)
    # the classical conversion ε = ρ + 2 sqrt(ρ log(1/δ)) is never better: a safe start, the
    # square of sqrt(slack + ε) - sqrt(slack) without a difference of nearly equal numbers
    low = (goal / (sqrt(slack + goal) + sqrt(slack))) ** 2 * (1 - 1e-9)
    high = goal + 4 * low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if implied_epsilon(middle, checked) <= goal else (low, middle)
    return Fraction(repr(low * (1 - 1e-9)))  # converted back it is within goal


def checked_delta(delta: object) -> float:
    exact = exact_positive("delta", delta)
    if exact >= 1 or float(exact) < LEAST:
        given = float(delta) if isinstance(delta, Fraction) else delta
        raise BudgetError(
            f"delta={given!r}: expected a probability between 0 and 1, exclusive, and of 1e-300 or "
            f"more."
        )
    return float(exact)
