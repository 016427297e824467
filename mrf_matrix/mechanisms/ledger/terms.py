"""What a ledger was opened for, and how charges count against it: as ε, as ρ, or as (ε, δ)."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import cast

from mrf_matrix.base.checks import BudgetError, readable
from mrf_matrix.mechanisms.budgets.approximate import ApproximateDP
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import Neighboring, as_budget
from mrf_matrix.mechanisms.ledger.charge import Account, Amount
from mrf_matrix.mechanisms.ledger.standing import Amounts, Standing, opening
from mrf_matrix.mechanisms.measurement.mechanism import checked_budget

Total = PureDP | ZCDP | ApproximateDP
UPWARD = Context(prec=6, rounding=ROUND_CEILING)
DOWNWARD = Context(prec=6, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Terms:
    """What a ledger was opened for: its total budget and its neighbouring relation."""

    budget: Total
    neighboring: Neighboring

    @property
    def opening(self) -> Account:
        """The account before the first charge."""
        total = self.budget
        return Account(spent=opening(total)) if isinstance(total, ApproximateDP) else Account()

    def amount_of(self, budget: object) -> Amount:
        """Return a charge's amount as this ledger counts it: under (ε, δ) as it was asked.

        Raises BudgetError if a zCDP charge is put to a pure-DP ledger; TypeError if it is no
        budget.
        """
        if isinstance(self.budget, ApproximateDP) and isinstance(budget, PureDP | ZCDP):
            return budget.amount
        return amount_in(type(cast("PureDP | ZCDP", self.budget)), budget)

    def fits(self, account: Account) -> bool:
        """Tell whether an account is within the total."""
        if isinstance(account.spent, Standing):
            return account.spent.fits
        return account.spent <= cast("PureDP | ZCDP", self.budget).amount

    def left(self, account: Account) -> Amount | Amounts:
        """Return what is left, exact; infinite where the budget is.

        Under (ε, δ): the largest ε, and the largest ρ, that one more charge may have.
        """
        if isinstance(account.spent, Standing):
            return account.spent.room
        total = cast("PureDP | ZCDP", self.budget)
        return float("inf") if total.is_infinite else total.amount - account.spent

    def shares(self, account: Account) -> list[Amount]:
        """Return each charge's share of a finite total."""
        if isinstance(account.spent, Standing):
            return [*account.spent.shares([charge.budget for charge in account.charges])]
        whole = cast("PureDP | ZCDP", self.budget).exact
        return [charge.amount / whole for charge in account.charges]

    @property
    def words(self) -> str:
        """The total, for people: ``epsilon=1``, ``(epsilon=3, delta=1e-06)``."""
        total = self.budget
        if isinstance(total, ApproximateDP):
            return str(total)
        return amount_text(total.amount, type(total))

    def spent_words(self, account: Account) -> str:
        """Return what is spent, for people; under (ε, δ) of both kinds, upward to six digits."""
        if not isinstance(account.spent, Standing):
            return amount_text(account.spent, type(cast("PureDP | ZCDP", self.budget)))
        spent = account.spent.spent
        of_kinds = {"epsilon": spent.epsilon, "rho": spent.rho}
        found = [f"{kind}={short(sum_, UPWARD)}" for kind, sum_ in of_kinds.items() if sum_]
        return " and ".join(found) or "nothing"

    def left_words(self, account: Account) -> str:
        """Return what is left, for people; under (ε, δ) of either kind, downward to six digits."""
        left = self.left(account)
        if not isinstance(left, Amounts):
            return amount_text(left, type(cast("PureDP | ZCDP", self.budget)))
        if not left.epsilon and not left.rho:
            return "nothing"
        return f"epsilon={short(left.epsilon, DOWNWARD)} or rho={short(left.rho, DOWNWARD)}"


def total_of(
    budget: object, epsilon: object = None, rho: object = None, delta: object = None
) -> Total:
    """Return the total budget, given exactly once.

    Raises BudgetError if it is not, or δ is given without ε.
    """
    if budget is not None:
        if (epsilon, rho, delta) != (None, None, None):
            raise BudgetError(
                f"budget={budget!r} with epsilon={epsilon!r}, rho={rho!r} and delta={delta!r}: "
                f"expected budget, epsilon (with delta, if any), or rho alone."
            )
        return budget if isinstance(budget, ApproximateDP) else checked_budget(budget)
    if delta is None or delta == 0:
        return as_budget(epsilon=epsilon, rho=rho)
    if epsilon is None or rho is not None:
        raise BudgetError(
            f"delta={delta!r} with epsilon={epsilon!r} and rho={rho!r}: expected delta beside "
            f"epsilon only. A ledger of rho says what was spent at any delta: spent_epsilon(delta)."
        )
    return ApproximateDP(epsilon, delta)  # type: ignore[arg-type]


def amount_in(unit: type[PureDP] | type[ZCDP], budget: object) -> Amount:
    """Return a charge's amount in a unit, ε or ρ.

    ε-DP implies ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4); zCDP implies no pure DP.

    Raises BudgetError if a zCDP charge is put to a pure-DP ledger; TypeError if it is no budget.
    """
    if not isinstance(budget, PureDP | ZCDP):
        raise TypeError(
            f"budget={budget!r} is of type {type(budget).__name__}: expected PureDP(epsilon) or "
            f"ZCDP(rho)."
        )
    if isinstance(budget, unit):
        return budget.amount
    if isinstance(budget, PureDP):
        return budget.to_zcdp().amount
    raise BudgetError(
        "a claim by rho= or delta=, whose noise is Gaussian, was put to a ledger of pure DP, which "
        "that does not imply: expected epsilon= and delta=0, or a ledger that takes both: "
        "PrivacyLedger(epsilon=..., delta=...) or PrivacyLedger(rho=...)."
    )


def amount_text(amount: Amount, unit: type[PureDP] | type[ZCDP]) -> str:
    """Write an amount with its unit, for people: ``epsilon=0.1``."""
    return f"{unit.parameter}={readable(amount)}"


def short(amount: Fraction, rounding: Context) -> str:
    """Write an exact number with at most six digits, rounded as told where it has more.

    >>> short(Fraction(1, 2), UPWARD), short(Fraction(2, 3), DOWNWARD), short(Fraction(3), UPWARD)
    ('0.5', '0.666666', '3')
    """
    found = rounding.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return readable(Fraction(found))
