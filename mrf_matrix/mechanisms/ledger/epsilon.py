"""What a ledger's charges amount to in (ε, δ), through dp-accounting."""

from fractions import Fraction

from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.conversion import approximate_epsilon
from mrf_matrix.mechanisms.ledger.charge import Account
from mrf_matrix.mechanisms.ledger.rules import amount_in


def epsilon_of(account: Account, delta: float) -> float:
    """Return an ε for which everything charged is (ε, δ)-DP together.

    The charges' ρ add up (ε²/2 of a pure charge), and the sum is converted as `approximate_epsilon`
    does it. Charges that are all pure also add up as they are; the smaller figure is returned.

    Examples
    --------
    >>> epsilon_of(Account(), 1e-6)
    0.0
    """
    approximate_epsilon(ZCDP(1), delta)  # refuses a delta that is none, whatever was charged
    budgets = [charge.budget for charge in account.charges]
    if not budgets:
        return 0.0
    if any(budget.is_infinite for budget in budgets):
        return float("inf")
    rho = sum((Fraction(amount_in(ZCDP, budget)) for budget in budgets), Fraction(0))
    best = approximate_epsilon(ZCDP(rho), delta)
    if all(isinstance(budget, PureDP) for budget in budgets):
        return min(best, float(sum(budget.exact for budget in budgets)))
    return best
