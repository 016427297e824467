"""A plan's budget over its ensembles: what they spend together, and another in the same shares."""

from collections.abc import Sequence
from typing import Any

from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.planning.plans.planned_answers import PlannedAnswers

Budget = PureDP | ZCDP


def total_budget(parts: Sequence[PlannedAnswers]) -> Budget:
    """Return what ensembles on the same records spend in all."""
    total = parts[0].mechanism.budget
    for part in parts[1:]:
        total = total + part.mechanism.budget  # type: ignore[operator]
    return total


def at_budget(parts: Sequence[PlannedAnswers], budget: Budget) -> tuple[PlannedAnswers, ...]:
    """Return the ensembles at another total budget, of which each keeps its share.

    Raises
    ------
    ValueError
        If it is of another kind than the one that the strategies were selected for.
    """
    spent = total_budget(parts)
    if type(budget) is not type(spent):
        raise ValueError(
            f"{budget!r}: expected a budget of the kind of {spent!r}, for which the "
            f"strategies were selected."
        )
    if spent.is_infinite:
        budgets = budget.split(len(parts))
    else:
        budgets = budget.split([part.mechanism.budget.exact for part in parts])
    pairs: Any = zip(parts, budgets, strict=True)
    return tuple(part.at(share) for part, share in pairs)
