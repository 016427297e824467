"""How a plan spends: budget and shares, relation, noise, and how strategies are searched."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.shown import shown
from mrf_matrix.error.release_budget import checked_targets
from mrf_matrix.mechanisms import ZCDP, BudgetError, NoiseLaw, PureDP
from mrf_matrix.mechanisms.budgets.claim import checked_neighboring
from mrf_matrix.mechanisms.budgets.shares import SHARE_RULES, budget_shares
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.queries import RowAim
from mrf_matrix.planning.plans.strategy_choice import check_strategy_names
from strategies.problem.objective import OBJECTIVES
from strategies.search.select import checked_time_limit

Budget = PureDP | ZCDP
AUTO = "auto"
"""What is left to the kind of plan."""

LEAVES, VOTES = "leaves", "votes"
"""What strategies of training are chosen for."""


@dataclass(frozen=True, eq=False)
class Measuring:
    """How a plan spends: what is not the forests' design.

    Attributes
    ----------
    budget : PureDP or ZCDP
        Of the whole plan.
    neighboring : {"add_remove", "replace_one"}
    budget_shares : sequence of float, {"equal", "total", "max"} or None
        Of the ensembles; equal where None. The rules are those of
        `mrf_matrix.mechanisms.budgets.shares.budget_shares`.
    strategy : str, Strategy, Operator, ndarray, scipy sparse or list, default="auto"
        A family's name, or one strategy for each ensemble.
    time_limit : float or "auto", default="auto"
        Seconds of the search for each strategy; "auto" for what the kind usually takes.
    n_jobs : int, optional
        Processes that search.
    objective, weights, groups
        What is made small, see `RowAim`.
    optimise_for : {"leaves", "votes"}, default="leaves"
        In training: whether strategies are chosen for the leaves, ``T``, or for the weight votes
        of all cells, ``TᵀT``.
    target_rms : float or sequence of float, optional
        Largest root mean squared error of every answer; then the worst of them, each over its
        target, is made small.
    law : subclass of NoiseLaw, optional
        Noise of one's own, see `mrf_matrix.mechanisms.calibrate`.
    delta : float, default=0
        The δ that the claim is stated for, where the budget is zCDP; 0 for none.
    """

    budget: Budget
    neighboring: str = "add_remove"
    budget_shares: str | Sequence[float] | None = None
    strategy: object = "auto"
    time_limit: float | str = AUTO
    n_jobs: int | None = None
    objective: str = "total"
    weights: object = None
    groups: object = None
    optimise_for: str = LEAVES
    target_rms: ArrayLike | None = None
    law: type[NoiseLaw] | None = None
    delta: float = 0.0

    def check(self) -> None:
        """Refuse what no plan could spend, whatever its forests.

        Raises
        ------
        ValueError
            It names the parameter.
        """
        checked_neighboring(self.neighboring)
        if not isinstance(self.time_limit, str):
            checked_time_limit(self.time_limit)
        elif self.time_limit != AUTO:
            raise ValueError(f"time_limit={shown(self.time_limit)}: expected seconds, or 'auto'.")
        check_strategy_names(self.strategy)
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective={shown(self.objective)}: expected 'total' or 'max'.")
        if self.optimise_for not in (LEAVES, VOTES):
            raise ValueError(
                f"optimise_for={shown(self.optimise_for)}: expected 'leaves' or 'votes'."
            )
        told = [name for name in ("weights", "groups") if getattr(self, name) is not None]
        told += ["objective"] * (self.objective != OBJECTIVES[0])
        other = "target_rms" if self.target_rms is not None else "optimise_for='votes'"
        if told and (self.target_rms is not None or self.optimise_for == VOTES):
            raise ValueError(
                f"{', '.join(told)} with {other}, which says what is made small: expected one of "
                f"them. Leave the other out."
            )

    def aim(self, rows: int) -> RowAim:
        """Return what is made small of so many answers.

        Raises
        ------
        ValueError, TypeError
            If weights, groups or targets are not one for each.
        """
        if self.target_rms is None:
            return RowAim.of(rows, self.objective, self.weights, self.groups)
        limits = checked_targets(self.target_rms, rows, "target_rms")
        return RowAim("max", (limits.min() / limits) ** 2, limits=limits)

    def shares(self, count: int) -> tuple[Budget, ...]:
        """Return the budget of each ensemble: equal ones where a rule will share it.

        Raises
        ------
        BudgetError
            If there is not one share for each ensemble, or one is not positive.
        """
        given = self.budget_shares
        if given is None or (isinstance(given, str) and given in SHARE_RULES):
            return self.budget.split(count)
        if isinstance(given, str) or np.ndim(given) != 1 or len(given) != count:
            raise BudgetError(
                f"budget_shares={shown(given)} for {count} ensembles: expected one positive "
                f"number for each, or {', '.join(map(repr, SHARE_RULES))}."
            )
        return self.budget.split(list(given))

    def shared(self, parts: tuple[PlanPart, ...]) -> tuple[PlanPart, ...]:
        """Return the parts with the budget shared by the rule, if there is one."""
        rule = self.budget_shares
        if not isinstance(rule, str) or rule == "equal" or len(parts) == 1:
            return parts
        losses = [part.loss for part in parts]
        shares = budget_shares(losses, self.budget.norm, rule)  # type: ignore[arg-type]
        budgets: tuple[Budget, ...] = self.budget.split(shares)
        return tuple(part.at(one) for part, one in zip(parts, budgets, strict=True))
