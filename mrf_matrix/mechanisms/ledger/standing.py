"""Where the charges of an (ε, δ) total stand: their sums, and what of its filter is used."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from mrf_matrix.base.checks import BudgetError
from mrf_matrix.mechanisms.budgets.approximate import ApproximateDP
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.ledger.privacy_filter import (
    PrivacyFilter,
    opening_filter,
    privacy_filter,
)

ROUNDED = Fraction(1, 50)
"""By how much of itself the order of a filter may differ between versions of what finds it."""


@dataclass(frozen=True)
class Amounts:
    """Exact amounts of two kinds: both of what is spent, either of what remains.

    Attributes
    ----------
    epsilon : Fraction
        Of pure charges.
    rho : Fraction
        Of zCDP charges.
    """

    epsilon: Fraction
    rho: Fraction

    def to_dict(self) -> dict[str, str]:
        """Return both as exact text."""
        return {"epsilon": str(self.epsilon), "rho": str(self.rho)}


@dataclass(frozen=True)
class Standing:
    """Exact sums of what was charged to an (ε, δ) total.

    Charges that are all pure fit if they add up to ε, for no loss is above their sum, or if they
    pass the filter that the ledger opened with. The first charge of ρ settles which filter holds
    from there: that one with all charges so far, or the one of what the pure sum leaves of ε,
    whichever has more ρ left. The choice costs nothing: its order is no lower and the loss before
    it is at most the pure sum, so that what it bounds is below the bound of the first filter,
    whatever was answered.

    Attributes
    ----------
    total : ApproximateDP
    filter : PrivacyFilter
    pure, rho : Fraction
        Sums of the charges as they were asked.
    used : Fraction
        What they take of the filter's ρ.
    """

    total: ApproximateDP
    filter: PrivacyFilter
    pure: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    used: Fraction = Fraction(0)

    @property
    def fits(self) -> bool:
        """Whether everything charged is (ε, δ)-DP, also where each was chosen by the others."""
        return self._fits_pure or self.used <= self.filter.rho

    @property
    def _fits_pure(self) -> bool:
        return self.rho == 0 and self.pure <= self.total.epsilon

    @property
    def spent(self) -> Amounts:
        """What was charged, of either kind."""
        return Amounts(self.pure, self.rho)

    @property
    def room(self) -> Amounts:
        """The largest ε, and the largest ρ, that one more charge may have."""
        settled = self._settled()
        left, of_rho = (max(Fraction(0), one.filter.rho - one.used) for one in (self, settled))
        epsilon = self.filter.largest_pure(left)
        if self._fits_pure:
            epsilon = max(epsilon, self.total.epsilon - self.pure)
        return Amounts(epsilon, of_rho)

    def plus(self, budget: PureDP | ZCDP) -> "Standing":
        """Return where it stands with one more finite charge."""
        if isinstance(budget, PureDP):
            used = self.used + self.filter.cost(budget)
            return replace(self, pure=self.pure + budget.exact, used=used)
        settled = self._settled()
        return replace(settled, rho=self.rho + budget.exact, used=settled.used + budget.exact)

    def shares(self, budgets: Sequence[PureDP | ZCDP]) -> list[Fraction]:
        """Return each charge's share of the total; they add up to 1 where it is used up."""
        if self._fits_pure:
            return [budget.exact / self.total.epsilon for budget in budgets]
        before = _before(budgets) if self.filter.after else 0
        whole = (1 - self.filter.after / self.total.epsilon) / self.filter.rho
        return [
            budget.exact / self.total.epsilon if at < before else self.filter.cost(budget) * whole
            for at, budget in enumerate(budgets)
        ]

    def _settled(self) -> "Standing":
        """Return it under the filter that holds from the first charge of ρ."""
        if self.rho or not self.pure:
            return self
        later = privacy_filter(self.total.epsilon, self.total.delta, self.pure)
        if later is None or not later.order >= self.filter.order > 1:
            return self
        gains = later.rho > self.filter.rho - self.used
        return replace(self, filter=later, used=Fraction(0)) if gains else self


def opening(total: ApproximateDP) -> Standing:
    """Return where a new ledger stands.

    >>> opening(ApproximateDP(3, 1e-6)).plus(PureDP(2)).room.epsilon
    Fraction(1, 1)
    """
    return Standing(total, opening_filter(total.epsilon, total.delta))


def standing_of(
    total: ApproximateDP, held: PrivacyFilter, budgets: Sequence[PureDP | ZCDP]
) -> Standing:
    """Return where charges stand under a filter that a file says.

    Raises BudgetError if the filter does not imply the total, is not one of these charges, or they
    do not fit.
    """
    if not held.implies(total.epsilon, total.delta):
        raise BudgetError(f"the filter does not imply {total}.")
    if not _was_fixed_beforehand(total, held):
        raise BudgetError("the filter is not the one that a ledger of this total has.")
    before = _before(budgets) if held.after else 0
    if held.after and (
        before == len(budgets) or held.after != _sum(one.exact for one in budgets[:before])
    ):
        raise BudgetError("the filter is not one of these charges.")
    standing = Standing(
        total,
        held,
        pure=_sum(one.exact for one in budgets if isinstance(one, PureDP)),
        rho=_sum(one.exact for one in budgets if isinstance(one, ZCDP)),
        used=_sum(held.cost(one) for one in budgets[before:]),
    )
    if not standing.fits:
        raise BudgetError(f"the charges add up to more than {total}.")
    return standing


def _was_fixed_beforehand(total: ApproximateDP, held: PrivacyFilter) -> bool:
    """Tell whether a filter's order is that of this total, as other versions may round it.

    An order that was picked after answers were seen would let more pass.
    """
    own = privacy_filter(total.epsilon, total.delta, held.after)
    first = opening_filter(total.epsilon, total.delta)
    if own is None or abs(held.order / own.order - 1) > ROUNDED:
        return False
    return not held.after or held.order >= first.order * (1 - ROUNDED)


def _before(budgets: Sequence[PureDP | ZCDP]) -> int:
    """Return how many pure charges come before the first charge of ρ."""
    return next((at for at, one in enumerate(budgets) if isinstance(one, ZCDP)), len(budgets))


def _sum(amounts: Iterable[Fraction]) -> Fraction:
    return sum(amounts, Fraction(0))
