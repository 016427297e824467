"""Which noise serves a claim of (ε, δ) best in a residual forest: Laplace or Gaussian."""

from mrf_matrix.mechanisms.claim import claiming_budgets
from mrf_matrix.residual.settings import (
    ASSUMED_RECORDS,
    Budget,
    n_passes,
    residual_signal,
    settings_for,
)
from mrf_matrix.residual.step import ResidualStep


def sequence_budget(
    epsilon: object,
    delta: object,
    rho: object,
    n_attributes: int,
    n_records: int | None,
    n_classes: int = 2,
) -> Budget:
    """Return the budget of the noise law that serves a claim of ε, (ε, δ) or ρ best.

    Raises BudgetError, TypeError if δ stands beside ρ, or a number is impossible.
    """
    first, *others = claiming_budgets(epsilon, delta, rho)
    if not others:
        return first
    return residual_budget(first, others[0], n_attributes, n_records, n_classes)


def residual_budget(
    pure: Budget,
    concentrated: Budget,
    n_attributes: int,
    n_records: int | None,
    n_classes: int = 2,
) -> Budget:
    """Return which of two budgets with the same claim buys more knowledge of the largest effects.

    A visit teaches one over the variance of its noise, and visits add. So a budget is worth
    ``Σ 1 / v`` over the passes, for an attribute that all of them visit. Laplace noise is ahead
    where there are few passes over few attributes.
    """
    if pure.is_infinite:
        return pure
    worth = [_worth(one, n_attributes, n_records, n_classes) for one in (pure, concentrated)]
    return pure if worth[0] >= worth[1] else concentrated


def _worth(budget: Budget, n_attributes: int, n_records: int | None, n_classes: int) -> float:
    settings = settings_for(budget)
    signal = residual_signal(n_records or ASSUMED_RECORDS, budget, n_attributes, n_classes)
    visits, passes = [], n_passes(settings, signal)
    for number in range(passes):
        visited = settings.n_visits(number, n_attributes, signal)
        share = settings.pass_share(number, passes, signal) / visited
        visits.append(ResidualStep("residuals", "", budget * share, "add_remove", n_classes))
    # of several classes that are alike, a record's residuals have this larger weights under "l2"
    heavier = 1.0
    if n_classes > 2 and budget.norm == "l2":
        heavier = 4 * (n_classes - 1) / n_classes
    return heavier * sum(1 / max(visit.variance, 1e-300) for visit in visits)
