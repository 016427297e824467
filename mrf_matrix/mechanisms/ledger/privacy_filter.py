"""A privacy filter for an (ε, δ) total: what is kept at one Rényi order, whatever is asked.

Amounts are chosen by people who look at earlier private answers. A bound that takes the best order
afterwards, as a conversion of known sums does, does not hold then: an analyst who picks the order
by the answers gets up to 2δ of an (ε, δ) total. A filter fixes one order α beforehand. ρ-zCDP has
Rényi divergence ρα at it, and ε-DP at most min(ε, αε²/2); their sum is kept below what converts to
(ε, δ) at α (Feldman and Zrnic 2021, Theorem 3.1; Lécuyer 2021).
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import isqrt, log, sqrt

import numpy as np

from mrf_matrix.base.checks import BudgetError
from mrf_matrix.mechanisms.budgets.budget import (
    LEAST,
    LEAST_CONVERTED,
    ZCDP,
    PureDP,
    renyi_orders,
    rho_from_epsilon,
)

DIGITS = 60
"""Of the logarithms that a filter is checked with; a conversion leaves 1e-9 of ρ unused."""

FINEST = 10**30
"""Square roots are taken to this share of themselves, downward."""


@dataclass(frozen=True)
class PrivacyFilter:
    """How much ρ fits, in all, at one order α.

    Parameters
    ----------
    after : Fraction
        ε of the pure charges before it, which count as they are: no loss is above their sum, so
        that the rest of ε is there for all that follows.
    order : Fraction
        α, at least 1; at 1 the bound is that of the Kullback-Leibler divergence.
    rho : Fraction
        What the costs may add up to, exact.
    """

    after: Fraction
    order: Fraction
    rho: Fraction

    def cost(self, budget: PureDP | ZCDP) -> Fraction:
        """Return what a charge takes of ρ: itself, or min(ε²/2, ε/α) of a pure one."""
        amount = budget.exact
        return amount if isinstance(budget, ZCDP) else min(amount**2 / 2, amount / self.order)

    def largest_pure(self, left: Fraction) -> Fraction:
        """Return the largest ε that costs at most what is left, or one just below it."""
        return max(self.order * left, root_below(2 * left))

    def implies(self, epsilon: Fraction, delta: Fraction) -> bool:
        """Tell whether what it lets pass is (ε, δ)-DP, with `after` taken from ε first.

        ``αρ + log(1 - 1/α) - log(δα)/(α - 1) <= ε`` (Canonne, Kamath and Steinke 2020, Proposition
        12), or at order 1, for any ε, ``sqrt(1 - exp(-ρ)) <= δ`` (Bretagnolle and Huber 1979).
        Logarithms have 60 digits, and their rounding is added to the left side.
        """
        if self.order < 1 or not 0 <= self.after < epsilon or self.rho <= 0:
            return False
        with localcontext() as context:
            context.prec = DIGITS + _zeros(self.rho) + _zeros(delta) + _zeros(1 / self.order)
            rho, probability, order = map(_decimal, (self.rho, delta, self.order))
            if order == 1:
                return (1 - (-rho).exp()) * (1 + Decimal(10) ** -DIGITS) <= probability**2
            terms = (
                order * rho,
                (1 - 1 / order).ln(),
                -(probability * order).ln() / (order - 1),
                -_decimal(epsilon - self.after),
            )
            return sum(terms) <= -sum(map(abs, terms)) * Decimal(10) ** (5 - DIGITS)


@lru_cache(maxsize=256)
def privacy_filter(epsilon: Fraction, delta: Fraction, after: Fraction) -> PrivacyFilter | None:
    """Return the filter of the largest ρ found for (ε - `after`, δ); None if there is none.

    Its ρ is that of `ZCDP.for_approximate_dp`, so that one charge of it fits.

    >>> found = privacy_filter(Fraction(3), Fraction(1, 10**6), Fraction(0))
    >>> found.rho == ZCDP.for_approximate_dp(3, 1e-6).rho, round(float(found.order), 1)
    (True, 8.9)
    """
    if epsilon - after < LEAST_CONVERTED:
        return None
    rho = Fraction(rho_from_epsilon(epsilon - after, delta))  # type: ignore[arg-type]
    for order in _orders(max(float(rho), LEAST), float(delta)):
        found = PrivacyFilter(after, order, rho)
        if found.implies(epsilon, delta):
            return found
    return None


def opening_filter(epsilon: Fraction, delta: Fraction) -> PrivacyFilter:
    """Return the filter that a ledger opens with.

    Raises BudgetError if (ε, δ) cannot be converted.
    """
    found = privacy_filter(epsilon, delta, Fraction(0))
    if found is None:
        raise BudgetError(
            "epsilon and delta are too extreme to be converted to rho: expected delta well below "
            "one over the number of records, or PrivacyLedger(rho=...)."
        )
    return found


def _orders(rho: float, delta: float) -> tuple[Fraction, ...]:
    """Return the orders to try: the best of a grid, the classical one, and 1."""
    slack = log(1 / delta)
    orders = renyi_orders(rho, delta)
    epsilons = orders * rho + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    best = float(orders[int(np.argmin(epsilons))])
    classical = 1 + sqrt(slack / rho)
    return Fraction(repr(best)), Fraction(repr(classical)), Fraction(1)


def root_below(number: Fraction) -> Fraction:
    """Return a square root, rounded downward, exact where it is a fraction.

    >>> root_below(Fraction(9, 4)), root_below(Fraction(2)) ** 2 < 2
    (Fraction(3, 2), True)
    """
    root = Fraction(isqrt(number.numerator), isqrt(number.denominator))
    if root**2 == number:
        return root
    finest = FINEST * 10 ** _zeros(number)
    return Fraction(isqrt(number.numerator * finest**2 // number.denominator), finest)


def _zeros(number: Fraction) -> int:
    """Return about how many decimal zeros a number begins with: 0 from 1 upward."""
    return max(0, (number.denominator.bit_length() - number.numerator.bit_length()) * 3 // 10 + 1)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
