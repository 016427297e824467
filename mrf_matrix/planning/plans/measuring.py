"""How a plan spends, and what it makes small.

`RowAim` is in the words of `strategies.select`. Answers are leaves of all ensembles, or votes of
queries as they were given; queries that are equal are one row of the workload.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.shown import shown
from mrf_matrix.error.expected_error import checked_targets
from mrf_matrix.mechanisms import ZCDP, BudgetError, NoiseLaw, PureDP
from mrf_matrix.mechanisms.budgets.claim import SHARE_RULES, checked_neighboring
from strategies import families
from strategies.operators import Identity, Operator
from strategies.problem.objective import OBJECTIVES, Aim, Objective, checked_weights
from strategies.search.select import checked_time_limit


class Words(TypedDict):
    """An objective in the words of `strategies.select` and `strategies.evaluate`."""

    objective: Objective
    weights: Array | None
    groups: Longs | None


@dataclass(frozen=True, eq=False)
class RowAim:
    """An objective over the rows of a workload."""

    objective: Objective = "total"
    weights: Array | None = None  # (q,): of the rows' squared errors; all 1 where None
    # (q,): for "max": whose errors are added up; every row its own group where None
    groups: Longs | None = None
    workload: Operator | None = None  # (q, n): whose rows these are; the answers where None
    # (q,): largest root mean squared error of every row: the weights are their inverse squares
    limits: Array | None = None

    @classmethod
    def of(cls, rows: int, objective: object, weights: object, groups: object) -> "RowAim":
        """Return what a user's words mean for so many answers, or refuse by name."""
        aim = Aim.of(Identity(rows), objective, groups)
        return cls(
            aim.objective, None if weights is None else checked_weights(weights, rows), aim.groups
        )

    @property
    def is_plain(self) -> bool:
        """Whether all answers count alike."""
        told = (self.weights, self.groups, self.workload)
        return self.objective == "total" and all(one is None for one in told)

    @property
    def words(self) -> Words:
        """The same for `strategies.select`."""
        return {"objective": self.objective, "weights": self.weights, "groups": self.groups}

    def value(self, errors: Array) -> float:
        """Return the objective of the rows' squared errors, shape (q,).

        >>> RowAim("max", weights=np.array([1.0, 3.0])).value(np.array([2.0, 1.0]))
        3.0
        """
        weighed = errors if self.weights is None else self.weights * errors
        return Aim(self.objective, self.groups).value(weighed)

    def of_rows(self, start: int, stop: int) -> "RowAim":
        """Return the objective of some of the rows, one after the other."""
        mine = slice(start, stop)
        return replace(
            self,
            weights=None if self.weights is None else self.weights[mine],
            groups=None if self.groups is None else self.groups[mine],
        )

    def of_distinct(self, which: Longs, often: Longs) -> "RowAim":
        """Return the objective of rows of which some were given several times.

        Their errors add up in a total and within a group; where every row is its own group, the
        largest weight counts.

        `which` (q,): the distinct row of each that was given; `often` (r,): how often each distinct
        row was given.

        Raises ValueError if equal rows are in different groups.
        """
        if (often == 1).all():  # they stand in the order in which they were given
            return self
        given = np.ones(len(which)) if self.weights is None else self.weights
        weights: Array = np.zeros(len(often))
        if self.objective == "total" or self.groups is not None:
            np.add.at(weights, which, given)
        else:
            np.maximum.at(weights, which, given)
        if self.limits is not None:
            limits: Array = np.full(len(often), np.inf)
            np.minimum.at(limits, which, self.limits)
            return replace(self, weights=weights, limits=limits)
        if self.groups is None:
            return replace(self, weights=weights)
        groups = np.empty(len(often), dtype=np.int64)
        groups[which] = self.groups
        if (groups[which] != self.groups).any():
            raise ValueError("groups tells equal queries apart: expected them in one group.")
        return replace(self, weights=weights, groups=groups)


Budget = PureDP | ZCDP
AUTO = "auto"
"""What is left to the kind of plan."""

LEAVES, VOTES = "leaves", "votes"  # what strategies of matrix forests are chosen for


@dataclass(frozen=True, eq=False)
class Measuring:
    """How a plan spends: what is not the forests' design."""

    budget: Budget  # of the whole plan
    neighboring: str = "add_remove"
    # Of the ensembles; equal where None. The rules are those of
    # `mrf_matrix.mechanisms.budgets.claim.budget_shares`.
    budget_shares: str | Sequence[float] | None = None
    strategy: object = "auto"  # a family's name, or one strategy for each ensemble
    # seconds of the search for each strategy; "auto" for what the kind usually takes
    time_limit: float | str = AUTO
    n_jobs: int | None = None  # processes that search
    # objective, weights, groups: what is made small, see `RowAim`
    objective: str = "total"
    weights: object = None
    groups: object = None
    # of "matrix": whether strategies are chosen for the leaves, ``T``, or for the weight votes of
    # all cells, ``TᵀT``; "auto": for votes under Gaussian noise, where the paths are the optimum
    optimise_for: str = AUTO
    # largest root mean squared error of every answer; then the worst of them, each over its target,
    # is made small
    target_rms: ArrayLike | None = None
    law: type[NoiseLaw] | None = None  # noise of one's own, see `mrf_matrix.mechanisms.calibrate`
    delta: float = 0.0  # the δ that the claim is stated for, where the budget is zCDP; 0 for none

    def check(self) -> None:
        """Refuse what no plan could spend, whatever its forests.

        Raises ValueError: it names the parameter.
        """
        checked_neighboring(self.neighboring)
        if not isinstance(self.time_limit, str):
            checked_time_limit(self.time_limit)
        elif self.time_limit != AUTO:
            raise ValueError(f"time_limit={shown(self.time_limit)}: expected seconds, or 'auto'.")
        check_strategy_names(self.strategy)
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective={shown(self.objective)}: expected 'total' or 'max'.")
        if self.optimise_for not in (AUTO, LEAVES, VOTES):
            raise ValueError(
                f"optimise_for={shown(self.optimise_for)}: expected 'auto', 'leaves' or 'votes'."
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

        Raises ValueError, TypeError if weights, groups or targets are not one for each.
        """
        if self.target_rms is None:
            return RowAim.of(rows, self.objective, self.weights, self.groups)
        limits = checked_targets(self.target_rms, rows, "target_rms")
        return RowAim("max", (limits.min() / limits) ** 2, limits=limits)

    def shares(self, count: int) -> tuple[Budget, ...]:
        """Return the budget of each ensemble: equal ones where a rule will share it.

        Raises BudgetError if there is not one share for each ensemble, or one is not positive.
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


def check_strategy_names(strategy: object) -> None:
    """Refuse names that are no strategy family's.

    Raises ValueError if there is one.
    """
    for one in strategy if isinstance(strategy, list | tuple) else [strategy]:
        if isinstance(one, str) and one not in ("auto", *families()):
            raise ValueError(
                f"strategy={shown(one)}: expected 'auto' or one of {', '.join(families())}, or a "
                f"strategy matrix."
            )
