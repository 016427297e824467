r"""The strategy that a plan measures: the user's own, or the one of least expected error.

`strategies.select` ranks by the loss, the error under continuous noise of variance ``2 Δ²/ε²``
(Laplace) or ``Δ²/2ρ`` (Gaussian). What is drawn is noise of integers, which has less: with
``t = Δ/ε`` discrete Laplace noise has variance :math:`1/(2\sinh^2(1/2t))`, at t = 1 it is 1.84 and
not 2. A strategy of small integers, such as the Identity, gains by that; one rounded to 2**30 units
does not. The two can change places, so planning compares them under the mechanism's own law.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.base.checks import short_repr
from mrf_matrix.base.work import run_tasks, tell
from mrf_matrix.error.expected_errors import checked_targets
from mrf_matrix.mechanisms import ZCDP, BudgetError, Mechanism, NoiseLaw, PureDP
from mrf_matrix.mechanisms.budget import SHARE_RULES, checked_neighboring, squared_factor
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from mrf_matrix.mechanisms.measurement.mechanism import noise_for
from strategies import Strategy, evaluate, families, select
from strategies.operators import Identity, MemoryCapError, Norm, Operator, as_operator
from strategies.problem.merging import can_merge
from strategies.problem.objective import OBJECTIVES, Aim, Objective, checked_weights
from strategies.search.select import checked_time_limit


class Words(TypedDict):
    """An objective in the words of `strategies.select` and `strategies.evaluate`."""

    objective: Objective
    weights: Array | None
    groups: Longs | None


@dataclass(frozen=True, eq=False)
class RowObjective:
    """An objective over the rows of a workload."""

    objective: Objective = "total"
    weights: Array | None = None  # (q,): of the rows' squared errors; all 1 where None
    # (q,): for "max": whose errors are added up; every row its own group where None
    groups: Longs | None = None
    workload: Operator | None = None  # (q, n): whose rows these are; the answers where None
    # (q,): largest root mean squared error of every row: the weights are their inverse squares
    limits: Array | None = None

    @classmethod
    def of(cls, rows: int, objective: object, weights: object, groups: object) -> "RowObjective":
        """Validate objective, weights and groups for so many answers."""
        aim = Aim.of(Identity(rows), objective, groups)
        return cls(
            aim.objective, None if weights is None else checked_weights(weights, rows), aim.groups
        )

    @property
    def is_plain(self) -> bool:
        told = (self.weights, self.groups, self.workload)
        return self.objective == "total" and all(one is None for one in told)

    @property
    def words(self) -> Words:
        """The same for `strategies.select`."""
        return {"objective": self.objective, "weights": self.weights, "groups": self.groups}

    def value(self, errors: Array) -> float:
        """Return the objective of the rows' squared errors, shape (q,).

        >>> RowObjective("max", weights=np.array([1.0, 3.0])).value(np.array([2.0, 1.0]))
        3.0
        """
        weighed = errors if self.weights is None else self.weights * errors
        return Aim(self.objective, self.groups).value(weighed)

    def slice_rows(self, start: int, stop: int) -> "RowObjective":
        """Return the objective of some of the rows, one after the other."""
        mine = slice(start, stop)
        return replace(
            self,
            weights=None if self.weights is None else self.weights[mine],
            groups=None if self.groups is None else self.groups[mine],
        )

    def merge_equal_rows(self, which: Longs, often: Longs) -> "RowObjective":
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
class MeasurementSpec:
    """Budget, noise, objective and search of a plan: all but the forests' design."""

    budget: Budget  # of the whole plan
    neighboring: str = "add_remove"
    # Of the ensembles; equal where None. The rules are those of
    # `mrf_matrix.mechanisms.budget.budget_shares`.
    budget_shares: str | Sequence[float] | None = None
    strategy: object = "auto"  # a family's name, or one strategy for each ensemble
    # seconds of the search for each strategy; "auto" for what the kind usually takes
    time_limit: float | str = AUTO
    n_jobs: int | None = None  # processes that search
    # objective, weights, groups: what is made small, see `RowObjective`
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
        """Refuse what no plan could spend, whatever its forests."""
        checked_neighboring(self.neighboring)
        if not isinstance(self.time_limit, str):
            checked_time_limit(self.time_limit)
        elif self.time_limit != AUTO:
            raise ValueError(
                f"time_limit={short_repr(self.time_limit)}: expected seconds, or 'auto'."
            )
        check_strategy_names(self.strategy)
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective={short_repr(self.objective)}: expected 'total' or 'max'.")
        if self.optimise_for not in (AUTO, LEAVES, VOTES):
            raise ValueError(
                f"optimise_for={short_repr(self.optimise_for)}: expected 'auto', 'leaves' or "
                f"'votes'."
            )
        told = [name for name in ("weights", "groups") if getattr(self, name) is not None]
        told += ["objective"] * (self.objective != OBJECTIVES[0])
        other = "target_rms" if self.target_rms is not None else "optimise_for='votes'"
        if told and (self.target_rms is not None or self.optimise_for == VOTES):
            raise ValueError(
                f"{', '.join(told)} with {other}, which says what is made small: expected one of "
                f"them. Leave the other out."
            )

    def aim(self, rows: int) -> RowObjective:
        """Return what is made small of so many answers.

        Raises ValueError, TypeError if weights, groups or targets are not one for each.
        """
        if self.target_rms is None:
            return RowObjective.of(rows, self.objective, self.weights, self.groups)
        limits = checked_targets(self.target_rms, rows, "target_rms")
        return RowObjective("max", (limits.min() / limits) ** 2, limits=limits)

    def shares(self, count: int) -> tuple[Budget, ...]:
        """Return the budget of each ensemble: equal ones where a rule will share it.

        Raises BudgetError if there is not one share for each ensemble, or one is not positive.
        """
        given = self.budget_shares
        if given is None or (isinstance(given, str) and given in SHARE_RULES):
            return self.budget.split(count)
        if isinstance(given, str) or np.ndim(given) != 1 or len(given) != count:
            raise BudgetError(
                f"budget_shares={short_repr(given)} for {count} ensembles: expected one positive "
                f"number for each, or {', '.join(map(repr, SHARE_RULES))}."
            )
        return self.budget.split(list(given))


def check_strategy_names(strategy: object) -> None:
    """Refuse names that are no strategy family's."""
    for one in strategy if isinstance(strategy, list | tuple) else [strategy]:
        if isinstance(one, str) and one not in ("auto", *families()):
            raise ValueError(
                f"strategy={short_repr(one)}: expected 'auto' or one of {', '.join(families())}, "
                f"or a strategy matrix."
            )


TIE = 1e-9
"""Relative difference of two expected errors that is rounding: the smaller loss is then kept."""

MOST_PATHS = 3000
"""Paths over cells that cannot be enumerated up to which they are measured as they are."""

PLAIN = RowObjective()  # all rows count alike

Calibrated = Callable[[Strategy], Mechanism]


def least_expected_error(
    candidates: Sequence[Strategy],
    calibrated: Calibrated,
    workload: Operator,
    aim: RowObjective = PLAIN,
) -> tuple[Strategy, Mechanism]:
    """Return the strategy of least expected squared error, and its mechanism.

    The error is ``v ||W Ã⁺||_F²`` with Ã the strategy rounded to integers and v the exact variance
    of the mechanism's law. A candidate whose loss is too large to win under any law of its budget
    is neither rounded nor calibrated: ``v`` is at least ``Δ²`` times the variance of noise for a
    sensitivity of one unit, because a coarser law has the smaller variance for its scale. Nor is
    one after the first a candidate whose answers do not fit in memory: whether there is a plan does
    not depend on the budget.

    `candidates`: the first is kept where others are as good; `calibrated`: returns the mechanism
    that spends the budget on a strategy; `workload` (q, n): what is asked; `aim`: of its rows'
    errors.

    Raises RowSpaceError if the first does not determine the workload; MemoryCapError if it does not
    fit.
    """
    best, *others = candidates
    mechanism = calibrated(best)
    if not others or mechanism.budget.is_infinite:
        return best, mechanism
    unit = _unit_variance(mechanism)
    least = _expected_square(mechanism, workload, aim)
    for other in others:
        if unit * other.loss >= least:
            continue
        try:
            rival = calibrated(other)
            error = _expected_square(rival, workload, aim)
        except MemoryCapError:
            continue
        if error < least * (1 - TIE):
            best, mechanism, least = other, rival, error
    return best, mechanism


def _unit_variance(mechanism: Mechanism) -> float:
    """Return the variance of noise for integers of sensitivity one, which no strategy is below.

    0 for a law of one's own, of which no such thing is known.
    """
    if not mechanism.is_proved:
        return 0.0
    budget = mechanism.budget
    factor = squared_factor(mechanism.neighboring, budget.norm, nonnegative=True)
    return noise_for(1, factor, budget).variance


def _expected_square(mechanism: Mechanism, workload: Operator, aim: RowObjective) -> float:
    squares = recovered_squares(workload, mechanism.rounded.recovery)
    return mechanism.law.variance * aim.value(squares)


def is_auto(asked: object) -> bool:
    return isinstance(asked, str) and asked == "auto"


def choose_strategy(
    found: Strategy,
    asked: object,
    calibrated: Calibrated,
    workload: Operator,
    aim: RowObjective = PLAIN,
) -> tuple[Strategy, Mechanism]:
    """Return the strategy to measure and its mechanism: the user's own word decides, else errors.

    `found`: what `select_strategy` returned; `asked`: what the user asked for: only "auto" leaves a
    choice; `calibrated`, `workload`, `aim`: see `least_expected_error`.
    """
    others = found.alternatives if is_auto(asked) else ()
    return least_expected_error((found, *others), calibrated, workload, aim)


def select_strategy(
    workload: Operator,
    strategy: object,
    norm: Norm,
    seed: int,
    time_limit: float,
    aim: RowObjective = PLAIN,
) -> Strategy:
    """Select or evaluate one strategy in a given norm.

    Raises ValueError, TypeError if a strategy given by hand has other columns or belongs to the
    other norm.
    """
    if isinstance(strategy, str):
        return select(workload, norm, strategy, seed, time_limit=time_limit, **aim.words)
    if not isinstance(strategy, Strategy):
        matrix = given_matrix(strategy, workload.shape[1])
        return evaluate(workload, matrix, norm, **aim.words)
    if strategy.norm != norm:
        raise ValueError(
            f"strategy was selected for norm={strategy.norm!r}, but the budget calls for "
            f"{norm!r}: select it again with norm={norm!r}."
        )
    if aim.is_plain and strategy.objective == "total":
        return strategy
    stated = evaluate(workload, strategy.matrix, norm, **aim.words)
    return replace(stated, method=strategy.method)


def _select_task(task: tuple[Operator, object, Norm, int, float, RowObjective]) -> Strategy:
    return select_strategy(*task)


def strategies_of_ensembles(strategy: object, count: int) -> list[Any]:
    """Return what was asked for each ensemble."""
    given = list(strategy) if isinstance(strategy, list | tuple) else [strategy]
    if len(given) == 1 and (isinstance(given[0], str) or count == 1):
        given *= count
    if len(given) != count:
        raise ValueError(
            f"strategy holds {len(given)} for {count} ensembles: expected a family's name, or one "
            f"strategy for each ensemble."
        )
    return given


def given_matrix(strategy: object, cells: int) -> Operator:
    """Return a strategy matrix that was given by hand, over so many cells.

    Raises TypeError, ValueError if it is no matrix of finite numbers, or has another number of
    columns.
    """
    matrix = as_operator(strategy, "strategy")
    if matrix.shape[1] != cells:
        raise ValueError(
            f"strategy has {matrix.shape[1]} columns: expected {cells}, one for each cell of what "
            f"is measured."
        )
    return matrix


def path_method(workload: Operator) -> str:
    """Return the family that measures a forest's paths, where it serves; otherwise "auto".

    Under Gaussian noise no strategy gives any vote ``q Tᵀ T`` a smaller error than T: its squared
    sensitivity is the number of trees τ, the error of a vote at most τ, and no strategy is below
    ``max_j (q Tᵀ T)_j² = τ²`` (`strategies.bounds.lower_bound`).
    """
    served = can_merge(workload) or workload.shape[0] <= MOST_PATHS
    return "workload_itself" if served else "auto"


def choose_strategies(
    workloads: Sequence[Operator],
    strategy: object,
    calibrated: Sequence[Calibrated],
    norm: Norm,
    structure: np.random.Generator,
    *,
    time_limit: float = 8.0,
    n_jobs: int | None = None,
    aims: Sequence[RowObjective] | None = None,
) -> list[tuple[Strategy, Mechanism]]:
    """Choose one strategy for each ensemble's workload, with its mechanism.

    Searches run in parallel if asked: only public things go to the workers, and no noise is drawn
    there. Of what "auto" finds, the least expected error under the mechanism's own law decides.

    `workloads`: one for each ensemble; `strategy`: a family's name for all, the strategy of the
    only ensemble, or one for each; `calibrated`: for each ensemble, returns the mechanism that
    spends its budget on a strategy; `norm` {"l1", "l2"}: column norm that the noise calls for;
    `structure`: gives every ensemble a seed of its own, so that results do not depend on `n_jobs`;
    `time_limit`: seconds for each selection; `n_jobs`: processes of joblib; `aims`: what is made
    small of each workload; its total where not given.

    Raises ValueError if there is not one strategy for each ensemble, or one belongs to the other
    norm.
    """
    check_strategy_names(strategy)
    given = strategies_of_ensembles(strategy, len(workloads))
    small = [PLAIN] * len(workloads) if aims is None else aims
    seeds = structure.integers(2**63, size=len(workloads)).tolist()
    tasks = [
        (workload, one, norm, seed, time_limit, aim)
        for workload, one, seed, aim in zip(workloads, given, seeds, small, strict=True)
    ]
    each_takes = f"{time_limit:g} s" if len(given) == 1 else f"{time_limit:g} s each"
    tell(f"Choosing strategies (up to {each_takes})", 0, len(given))
    found = list(run_tasks(_select_task, tasks, n_jobs=n_jobs))
    tell("Rounding strategies, and checking that they answer")
    return [
        choose_strategy(*each)
        for each in zip(found, given, calibrated, workloads, small, strict=True)
    ]
