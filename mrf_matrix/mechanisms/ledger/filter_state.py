"""An (ε, δ) total, its charges, and the privacy filter that they use up.

*A privacy filter for an (ε, δ) total: a bound at one Rényi order, whatever is asked.* Amounts are
chosen by people who look at earlier private answers. A bound that takes the best order
afterwards, as a conversion of known sums does, does not hold then: an analyst who picks the order
by the answers gets up to 2δ of an (ε, δ) total. A filter fixes one order α beforehand. ρ-zCDP has
Rényi divergence ρα at it, and ε-DP at most min(ε, αε²/2); their sum is kept below what converts to
(ε, δ) at α (Feldman and Zrnic 2021, Theorem 3.1; Lécuyer 2021).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import isinf, isqrt, log, sqrt

import numpy as np

from mrf_matrix.base.checks import BudgetError, exact_positive, format_number
from mrf_matrix.mechanisms.budget import LEAST, LEAST_CONVERTED, ZCDP, PureDP, renyi_orders


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


DIGITS = 60
"""Of the logarithms that a filter is checked with; a conversion leaves 1e-9 of ρ unused."""

FINEST = 10**30
"""Square roots are rounded downward, to a relative precision of one in this number."""


@dataclass(frozen=True)
class PrivacyFilter:
    """How much ρ fits, in all, at one order α."""

    # ε of the pure charges before it, which count as they are: no loss is above their sum, so that
    # the rest of ε is there for all that follows
    after: Fraction
    order: Fraction  # α >= 1; at 1 the bound is that of the Kullback-Leibler divergence
    rho: Fraction  # what the costs may add up to, exact

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
    rho = ZCDP.for_approximate_dp(epsilon - after, delta).exact
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


ROUNDED = Fraction(1, 50)
"""By how much of itself the order of a filter may differ between versions of what finds it."""


@dataclass(frozen=True)
class Amounts:
    """Exact amounts of two kinds: both of what is spent, either of what remains."""

    epsilon: Fraction  # of pure charges
    rho: Fraction  # of zCDP charges

    def to_dict(self) -> dict[str, str]:
        return {"epsilon": str(self.epsilon), "rho": str(self.rho)}


@dataclass(frozen=True)
class FilterState:
    """Exact sums of what was charged to an (ε, δ) total.

    Charges that are all pure fit if they add up to ε, for no loss is above their sum, or if they
    pass the filter that the ledger opened with. The first charge of ρ settles which filter holds
    from there: that one with all charges so far, or the one of what the pure sum leaves of ε,
    whichever has more ρ left. The choice costs nothing: its order is no lower and the loss before
    it is at most the pure sum, so that what it bounds is below the bound of the first filter,
    whatever was answered.
    """

    total: ApproximateDP
    filter: PrivacyFilter
    pure: Fraction = Fraction(0)  # sums of the charges as they were asked
    rho: Fraction = Fraction(0)
    used: Fraction = Fraction(0)  # what they take of the filter's ρ

    @property
    def fits(self) -> bool:
        """Whether everything charged is (ε, δ)-DP, also where each was chosen by the others."""
        return self._fits_pure or self.used <= self.filter.rho

    @property
    def _fits_pure(self) -> bool:
        return self.rho == 0 and self.pure <= self.total.epsilon

    @property
    def amounts(self) -> Amounts:
        return Amounts(self.pure, self.rho)

    @property
    def remaining(self) -> Amounts:
        """The largest ε, and the largest ρ, that one more charge may have."""
        settled = self._with_fixed_filter()
        left, of_rho = (max(Fraction(0), one.filter.rho - one.used) for one in (self, settled))
        epsilon = self.filter.largest_pure(left)
        if self._fits_pure:
            epsilon = max(epsilon, self.total.epsilon - self.pure)
        return Amounts(epsilon, of_rho)

    def with_charge(self, budget: PureDP | ZCDP) -> "FilterState":
        if isinstance(budget, PureDP):
            used = self.used + self.filter.cost(budget)
            return replace(self, pure=self.pure + budget.exact, used=used)
        settled = self._with_fixed_filter()
        return replace(settled, rho=self.rho + budget.exact, used=settled.used + budget.exact)

    def shares(self, budgets: Sequence[PureDP | ZCDP]) -> list[Fraction]:
        """Return each charge's share of the total; they add up to 1 where it is used up."""
        if self._fits_pure:
            return [budget.exact / self.total.epsilon for budget in budgets]
        before = _n_pure_first(budgets) if self.filter.after else 0
        whole = (1 - self.filter.after / self.total.epsilon) / self.filter.rho
        return [
            budget.exact / self.total.epsilon if at < before else self.filter.cost(budget) * whole
            for at, budget in enumerate(budgets)
        ]

    def _with_fixed_filter(self) -> "FilterState":
        """Return it under the filter that holds from the first charge of ρ."""
        if self.rho or not self.pure:
            return self
        later = privacy_filter(self.total.epsilon, self.total.delta, self.pure)
        if later is None or not later.order >= self.filter.order > 1:
            return self
        gains = later.rho > self.filter.rho - self.used
        return replace(self, filter=later, used=Fraction(0)) if gains else self


def opening_state(total: ApproximateDP) -> FilterState:
    """Return where a new ledger stands.

    >>> opening_state(ApproximateDP(3, 1e-6)).with_charge(PureDP(2)).remaining.epsilon
    Fraction(1, 1)
    """
    return FilterState(total, opening_filter(total.epsilon, total.delta))


def filter_state_of(
    total: ApproximateDP, held: PrivacyFilter, budgets: Sequence[PureDP | ZCDP]
) -> FilterState:
    """Return where charges stand under a filter that a file says.

    Raises BudgetError if the filter does not imply the total, is not one of these charges, or they
    do not fit.
    """
    if not held.implies(total.epsilon, total.delta):
        raise BudgetError(f"the filter does not imply {total}.")
    if not _is_filter_of(total, held):
        raise BudgetError("the filter is not the one that a ledger of this total has.")
    before = _n_pure_first(budgets) if held.after else 0
    if held.after and (
        before == len(budgets) or held.after != _sum(one.exact for one in budgets[:before])
    ):
        raise BudgetError("the filter is not one of these charges.")
    standing = FilterState(
        total,
        held,
        pure=_sum(one.exact for one in budgets if isinstance(one, PureDP)),
        rho=_sum(one.exact for one in budgets if isinstance(one, ZCDP)),
        used=_sum(held.cost(one) for one in budgets[before:]),
    )
    if not standing.fits:
        raise BudgetError(f"the charges add up to more than {total}.")
    return standing


def _is_filter_of(total: ApproximateDP, held: PrivacyFilter) -> bool:
    """Tell whether a filter's order is that of this total, as other versions may round it.

    An order that was picked after answers were seen would let more pass.
    """
    own = privacy_filter(total.epsilon, total.delta, held.after)
    first = opening_filter(total.epsilon, total.delta)
    if own is None or abs(held.order / own.order - 1) > ROUNDED:
        return False
    return not held.after or held.order >= first.order * (1 - ROUNDED)


def _n_pure_first(budgets: Sequence[PureDP | ZCDP]) -> int:
    """Return how many pure charges come before the first charge of ρ."""
    return next((at for at, one in enumerate(budgets) if isinstance(one, ZCDP)), len(budgets))


def _sum(amounts: Iterable[Fraction]) -> Fraction:
    return sum(amounts, Fraction(0))
