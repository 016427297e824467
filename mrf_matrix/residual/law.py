"""Which noise serves a claim of (ε, δ) best in a residual forest: Laplace or Gaussian."""

from fractions import Fraction
from functools import lru_cache
from numbers import Real

from mrf_matrix.base.shown import shown
from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP
from mrf_matrix.mechanisms.budgets.budget import budget_or_default
from mrf_matrix.mechanisms.budgets.exact_number import exact_positive
from mrf_matrix.residual.settings import (
    ASSUMED_RECORDS,
    Budget,
    n_passes,
    residual_signal,
    settings_for,
)
from mrf_matrix.residual.step import ResidualStep

_converted = lru_cache(ZCDP.for_approximate_dp)
"""The conversion searches, a third of a second long."""


def gaussian_budget(epsilon: Fraction | float, delta: object) -> ZCDP:
    """Return the zCDP budget that implies (ε, δ)-DP; raises as `ZCDP.for_approximate_dp`."""
    return _converted(epsilon, exact_positive("delta", delta))


def claimed_budget(
    epsilon: object, delta: object, rho: object, n_attributes: int, n_records: int | None
) -> Budget:
    """Return the budget of the noise law that serves a claim of ε, (ε, δ) or ρ best.

    Raises
    ------
    BudgetError, TypeError
        If δ stands beside ρ, or a number is impossible.
    """
    if isinstance(delta, Real) and delta == 0:
        return budget_or_default(epsilon=epsilon, rho=rho)
    if rho is not None:
        raise BudgetError(
            f"delta={shown(delta)} and rho={shown(rho)}: expected delta= beside epsilon= only."
        )
    pure = budget_or_default(epsilon=epsilon)
    assert isinstance(pure, PureDP)
    return residual_budget(pure, gaussian_budget(pure.epsilon, delta), n_attributes, n_records)


def residual_budget(
    pure: PureDP, concentrated: Budget, n_attributes: int, n_records: int | None
) -> Budget:
    """Return which of two budgets with the same claim buys more knowledge of the largest effects.

    A visit teaches one over the variance of its noise, and visits add. So a budget is worth
    ``Σ 1 / v`` over the passes, for an attribute that all of them visit. Laplace noise is ahead
    where there are few passes over few attributes.
    """
    if pure.is_infinite:
        return pure
    worth = [_worth(budget, n_attributes, n_records) for budget in (pure, concentrated)]
    return pure if worth[0] >= worth[1] else concentrated


def _worth(budget: Budget, n_attributes: int, n_records: int | None) -> float:
    settings = settings_for(budget)
    signal = residual_signal(n_records or ASSUMED_RECORDS, budget, n_attributes)
    passes = n_passes(settings, signal)
    shares = (
        settings.pass_share(number, passes) / settings.n_visits(number, n_attributes)
        for number in range(passes)
    )
    visits = (ResidualStep("residuals", "", budget * share, "add_remove") for share in shares)
    return sum(1 / max(visit.variance, 1e-300) for visit in visits)
