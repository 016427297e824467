"""A claim of (ε, δ): which budgets make it, and how it is said, never stronger than it is."""

from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache
from numbers import Real
from reprlib import repr as short

from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP, budget_or_default
from mrf_matrix.mechanisms.budgets.exact_number import BudgetError, readable

Budget = PureDP | ZCDP
UPWARD = Context(prec=6, rounding=ROUND_CEILING)
"""How an ε that follows from ρ and δ is printed: upward, so that no claim is too strong."""

_gaussian = lru_cache(ZCDP.for_approximate_dp)
"""The conversion searches, a third of a second long."""


def claiming_budgets(
    epsilon: object = None, delta: object = 0, rho: object = None
) -> tuple[Budget, ...]:
    """Return the budgets of which each makes the claim: of ε, of ρ, or of (ε, δ).

    (ε, δ) is claimed by Laplace noise of ε, or by Gaussian noise of the largest ρ that implies it,
    in this order. ρ-zCDP holds of discrete Gaussian noise as it is drawn (Canonne, Kamath and
    Steinke 2020, Theorem 4); the closed form for the continuous Gaussian understates δ of it.

    Raises
    ------
    BudgetError
        If δ is not between 0 and 1, stands beside ρ, or beside an infinite ε.
    TypeError
        If a number is none.

    Examples
    --------
    >>> claiming_budgets(epsilon=1)
    (PureDP(epsilon=1),)
    >>> pure, gaussian = claiming_budgets(epsilon=1, delta=1e-6)
    >>> pure, round(float(gaussian.rho), 4)
    (PureDP(epsilon=1), 0.0244)
    """
    if isinstance(delta, Real) and delta == 0:
        return (budget_or_default(epsilon=epsilon, rho=rho),)
    if rho is not None:
        raise BudgetError(
            f"delta={short(delta)} and rho={short(rho)}: expected delta= beside epsilon= only."
        )
    pure = budget_or_default(epsilon=epsilon)
    if pure.is_infinite:
        raise BudgetError(
            f"delta={short(delta)} with an infinite epsilon, which claims nothing: expected "
            f"delta=0, or a finite epsilon."
        )
    return pure, _gaussian(pure.exact, delta)


def claimed_budget(epsilon: object = None, delta: object = 0, rho: object = None) -> Budget:
    """Return the budget of a claim where laws are not compared: of Gaussian noise under δ.

    Raises BudgetError, TypeError as `claiming_budgets`.
    """
    return claiming_budgets(epsilon, delta, rho)[-1]


def claim_text(budget: Budget, delta: float) -> str:
    """Return what a budget claims: as it is, or with δ the (ε, δ) that it implies, ε upward.

    Examples
    --------
    >>> claim_text(PureDP(1), 0), claim_text(PureDP(1), 1e-6)
    ('PureDP(epsilon=1)', '(epsilon=1, delta=1e-06)-DP via PureDP(epsilon=1)')
    >>> claim_text(claimed_budget(0.3, 1e-6), 1e-6)[:46]
    '(epsilon=0.3, delta=1e-06)-DP via ZCDP(rho=0.0'
    """
    if not delta or budget.is_infinite:
        return repr(budget)
    epsilon = readable(_epsilon(budget, delta))
    return f"(epsilon={epsilon}, delta={delta!r})-DP via {budget!r}"


def claim_parameters(budget: Budget, delta: float) -> dict[str, Fraction | float | None]:
    """Return ``epsilon``, ``rho`` and ``delta`` of which a budget was made, as a classifier's.

    Raises
    ------
    BudgetError
        If the ε of an (ε, δ) claim has more than six digits, and so is not known any more.
    """
    if not delta or budget.is_infinite:
        return {"epsilon": None, budget.parameter: budget.amount}
    epsilon = _epsilon(budget, delta)
    if not epsilon or budget not in claiming_budgets(epsilon, delta):
        raise BudgetError(
            f"{budget!r} for delta={delta!r}: no epsilon of six digits gives it. Give the "
            f"classifier epsilon= and delta= itself."
        )
    return {"epsilon": epsilon, "delta": delta}


def _epsilon(budget: Budget, delta: float) -> Fraction:
    if isinstance(budget, PureDP):
        return budget.exact
    return Fraction(UPWARD.create_decimal_from_float(budget.epsilon(delta)))
