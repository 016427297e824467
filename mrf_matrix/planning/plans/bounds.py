"""What no strategies could be below: a plan's total error beside its certified lower bound."""

from typing import TYPE_CHECKING

import numpy as np

from strategies import Strategy

if TYPE_CHECKING:
    from mrf_matrix.planning.plans.plan import Plan


def lower_bound(plan: "Plan") -> float:
    """Return the certified lower bound of a plan's total error.

    Raises
    ------
    ValueError
        If an ensemble has no strategy.
    """
    _check_strategies(plan)
    bounds = (
        part.mechanism.law.variance * part.row_squares.sum() * _share(part.strategy)
        for part in plan.parts
    )
    if plan.mode == "training":
        return float(plan.n_classes * sum(bounds))
    return float(plan.total / plan.certified_ratio)


def certified_ratio(plan: "Plan") -> float:
    """Return a plan's total error over its certified lower bound.

    Raises
    ------
    ValueError
        If an ensemble has no strategy.
    """
    _check_strategies(plan)
    if plan.mode == "training":
        return plan.total / plan.lower_bound if plan.lower_bound > 0 else float("inf")
    totals = [float(part.row_variances @ plan.multiplicity) for part in plan.parts]
    shares = [_share(part.strategy) for part in plan.parts]
    bound = float(np.dot(totals, shares))
    return sum(totals) / bound if bound > 0 else float("inf")


def _check_strategies(plan: "Plan") -> None:
    if any(part.strategy is None for part in plan.parts):
        what = "mode='posterior'" if plan.mode == "posterior" else f"allocation={plan.allocation!r}"
        raise ValueError(
            f"{what} measures its answers themselves, by no strategy, so no bound stands beside "
            f"it: expected another mode than 'posterior', and allocation='matrix'."
        )


def _share(strategy: Strategy | None) -> float:
    """Return a strategy's certified lower bound as a share of its loss."""
    if strategy is None or strategy.loss == 0:
        return 0.0
    return min(1.0, strategy.lower_bound / strategy.loss)
