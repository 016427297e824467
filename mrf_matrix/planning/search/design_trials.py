"""Designs of a search tried one after the other, as long as there is time."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from math import inf, nan
from time import monotonic
from typing import Any, cast

import numpy as np

from mrf_matrix.base.work import progress_listener
from mrf_matrix.domain import Domain
from mrf_matrix.planning.auto.plan import plan_of_claim
from mrf_matrix.planning.plans.cost import peak_bytes, release_seconds
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import UNSAID, kind_of
from mrf_matrix.planning.plans.request import plan
from mrf_matrix.planning.search.expected_accuracy import imagined_seconds
from mrf_matrix.planning.search.objectives import ExpectedLoss, Objective
from mrf_matrix.planning.search.tuning import ANY, Trial, kind_word, searchable_kind
from mrf_matrix.residual.sequence import ResidualPlan
from strategies import memory_cap


@dataclass(frozen=True)
class Stopwatch:
    """Time since it was made, and a limit.

    >>> ticks = iter([0.0, 1.0, 3.0])
    >>> watch = Stopwatch(2.0, lambda: next(ticks))
    >>> watch.is_over, watch.is_over
    (False, True)
    """

    limit: float | None  # seconds; None for no limit
    # a clock in seconds that never goes back, the same in all processes of a machine
    # (`time.monotonic`): a copy in another process runs out at the same moment
    now: Callable[[], float]
    started: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", self.now())

    @property
    def seconds(self) -> float:
        return self.now() - self.started

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.seconds >= self.limit

    @property
    def note(self) -> str:
        return f"not tried: max_seconds={self.limit} had passed"


Design = dict[str, Any]


PATIENCE = 2.0
"""Times the limit after which a design that was begun is given up."""


class OutOfTime(Exception):
    """A design takes far more than the limit."""


class DesignTrials:
    """Trials of designs, the same in every process; no trial changes its state."""

    def __init__(
        self,
        domain: Domain,
        fixed: dict[str, Any],
        objective: Objective,
        n_forests: int,
        max_release_seconds: float | None,
        max_bytes: int | None,
        clock: Stopwatch,
    ) -> None:
        self.domain, self.fixed, self.objective = domain, fixed, objective
        self.n_forests, self.max_bytes = n_forests, max_bytes
        self.max_release_seconds, self.clock = max_release_seconds, clock
        self.patience = Stopwatch(clock.limit and PATIENCE * clock.limit, monotonic)

    def run(self, group: list[Design], quick: bool = False) -> list[Trial]:
        """Try designs that share their plans; return those for which there was time.

        `quick`: measure cells, without a search for a strategy, and judge the design without noise
        too.
        """
        if self.clock.is_over:  # dispatched before, begun after the limit
            return []
        with suppress(OutOfTime), progress_listener(self._look):
            return self._start(group, quick)
        return []

    def _look(self, step: str, done: int, total: int | None) -> None:
        """Give up a design at the next step, where it takes far more than the limit."""
        if self.patience.is_over:
            raise OutOfTime(step)

    def _start(self, group: list[Design], quick: bool) -> list[Trial]:
        started = self.clock.now()
        shared = {name: value for name, value in group[0].items() if name != "voting"}
        try:
            with nullcontext() if self.max_bytes is None else memory_cap(self.max_bytes):
                return self._trials(group, shared, started, quick)
        except ValueError as impossible:  # this design cannot be; the others may
            seconds = self.clock.now() - started
            return [
                replace(_refusal(design, str(impossible), seconds), searched=not quick)
                for design in group
            ]

    def _trials(
        self, group: list[Design], shared: Design, started: float, quick: bool
    ) -> list[Trial]:
        seed = self.fixed["random_state"]
        trials: list[Trial] = []
        word = kind_word(shared, self.fixed["kind"])
        plans: list[Plan] = []
        for design in group:
            if trials and self.clock.is_over:
                return trials
            said = UNSAID if design.get("voting") is None else design["voting"]
            try:
                searchable_kind(word)
                kind = kind_of(word, design.get("allocation", "matrix"), said)
            except ValueError as impossible:
                trials.append(_refusal(design, str(impossible), self.clock.now() - started))
                continue
            if kind.is_sequence:
                trials.append(self._sequence_trial(design, started))
                continue
            if kind.voting_is_measured or not plans:
                given = {**self.fixed, **shared, "kind": word, "voting": kind.voting}
                if quick:
                    given["strategy"] = "identity"
                plans = [
                    cast(Plan, plan(self.domain, **{**given, "random_state": seed + number}))
                    for number in range(self.n_forests)
                ]
            try:
                voted = [one.voted_by(kind.voting) for one in plans]
                trials.append(self._trial(design, voted, started, quick))
            except ValueError as unjudged:
                trials.append(_refusal(design, str(unjudged), self.clock.now() - started))
        return trials

    def _trial(self, design: Design, plans: list[Plan], started: float, quick: bool) -> Trial:
        first = plans[0]
        note = self._excess(first, first.seconds)
        value, floor = inf if note else self._mean(plans), -inf
        if quick and not note:
            floor = self._mean([one.at(**{one.budget.parameter: inf}) for one in plans])
        return Trial(
            design=design,
            value=value,
            rms_per_vote=first.rms_per_vote if first.kind.votes_add else nan,
            measurements=sum(part.n_measurements for part in first.parts),
            leaves=sum(part.ensemble.forest.n_leaves for part in first.parts),
            nbytes=peak_bytes(first),
            seconds=self.clock.now() - started,
            note=note,
            floor=floor,
            searched=not quick,
        )

    def _excess(self, plan: Plan | ResidualPlan, seconds: float) -> str:
        """Return why a plan is beyond the bounds on time and memory; "" if it is not."""
        limit, most, peak = self.max_release_seconds, self.max_bytes, peak_bytes(plan)
        if most is not None and peak > most:
            return f"a fit takes {peak} bytes, above max_bytes={most}"
        if limit is not None and seconds > limit:
            return f"the release takes {seconds:.3g} s, above max_release_seconds={limit:g}"
        return ""

    def _sequence_trial(self, design: Design, started: float) -> Trial:
        if not getattr(self.objective, "judges_sequences", False):
            raise ValueError(
                f"objective {self.objective.name!r} cannot judge kind='additive': expected "
                f"'accuracy', or a function of a ResidualPlan."
            )
        words = ("epsilon", "delta", "rho", "neighboring", "n_records")
        fixed = {name: self.fixed[name] for name in words}
        seeds = (self.fixed["random_state"] + number for number in range(self.n_forests))
        made = [
            plan_of_claim("additive", self.domain, **fixed, random_state=seed) for seed in seeds
        ]
        beyond = self._excess(made[0], release_seconds(made[0]))
        if note := beyond or self._too_long(made, started):
            return _refusal(design, note, self.clock.now() - started)
        judge = cast(Callable[[ResidualPlan], float], self.objective)
        return Trial(
            design=design,
            value=float(np.mean([judge(one) for one in made])),
            rms_per_vote=nan,
            measurements=made[0].most_measurements,
            leaves=sum(self.domain.sizes),
            nbytes=peak_bytes(made[0]),
            seconds=self.clock.now() - started,
        )

    def _too_long(self, made: list[ResidualPlan], started: float) -> str:
        """Return why a search of kind "auto" does not judge residual forests; "" if it does."""
        limit, goal = self.clock.limit, self.objective
        if limit is None or self.fixed["kind"] != ANY or not isinstance(goal, ExpectedLoss):
            return ""
        seconds = len(goal.priors) * goal.n_targets * sum(map(imagined_seconds, made))
        if started - self.clock.started + seconds <= limit:
            return ""
        return (
            f"{TOO_LONG}: max_seconds={limit:g} is too short to judge it, which may take "
            f"{seconds:.2g} s. Give more, or kind='additive'"
        )

    def _mean(self, plans: list[Plan]) -> float:
        return float(np.mean([self.objective(one) for one in plans]))


TOO_LONG = "not tried"  # what the note of a residual forest begins with that was not judged


def is_too_long(trial: Trial) -> bool:
    """Tell whether a trial was refused for lack of time alone: more time would try it."""
    return not trial.stopped and trial.note.startswith(TOO_LONG)


def _refusal(design: Design, note: str, seconds: float) -> Trial:
    return Trial(design, inf, nan, 0, 0, 0, seconds, note)
