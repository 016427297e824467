"""`tune`: search designs without data, under bounds on time and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, nan
from os import PathLike
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.checks import short_repr, whole_number
from mrf_matrix.base.work import bounded_jobs, progress_listener, run_tasks
from mrf_matrix.domain import Domain, as_domain
from mrf_matrix.mechanisms import NoiseLaw
from mrf_matrix.mechanisms.budget import claimed_budget, epsilon_or_default
from mrf_matrix.planning.auto.plan import plan_of_claim
from mrf_matrix.planning.plain_values import key_of
from mrf_matrix.planning.plans.cost import peak_bytes, release_seconds
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import UNSAID, is_auto, kind_of, kinds_named
from mrf_matrix.planning.plans.request import Amount, plan
from mrf_matrix.planning.search.expected_accuracy import check_imagining, imagined_seconds
from mrf_matrix.planning.search.objectives import (
    ExpectedLoss,
    Objective,
    as_objective,
    check_records_known,
)
from mrf_matrix.planning.search.tuning import (
    ANY,
    AUTO,
    TOO_LONG,
    Space,
    Stopwatch,
    Trial,
    TrialFile,
    Tuning,
    auto_kinds,
    default_spaces,
    designs_of,
    finished_trial,
    is_too_long,
    kind_word,
    not_tried,
    rank_trials,
    refusal,
    searchable_kind,
    split_by_law,
    structures_of,
)
from mrf_matrix.residual.sequence import ResidualPlan
from strategies import memory_cap
from strategies.search.select import checked_time_limit

if TYPE_CHECKING:
    from distributed import Client


Design = dict[str, Any]


def tune(
    domain: Domain | str | PathLike[str],
    *,
    epsilon: Amount = None,
    delta: float = 0,
    rho: Amount = None,
    n_records: int | None = None,
    kind: str = "auto",
    neighboring: str = "add_remove",
    objective: str | Objective | Callable[[Plan], float] = "accuracy",
    objective_options: Mapping[str, Any] | None = None,
    space: Space | None = None,
    n_forests: int = 1,
    queries: ArrayLike | None = None,
    n_classes: int | None = None,
    time_limit: float = 1.0,
    search_all: bool = False,
    law: type[NoiseLaw] | None = None,
    max_seconds: float | None = None,
    max_release_seconds: float | None = None,
    max_bytes: int | None = None,
    n_jobs: int | None = None,
    client: Client | None = None,
    resume: str | PathLike[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    random_state: int = 0,
) -> Tuning:
    """Choose a design without data: depth, trees, ensembles, attributes, splits, strategy, voting.

    Parameters
    ----------
    domain : Domain
        The public schema.
    epsilon, rho : positive number
        At most one; ``epsilon=1`` of neither.
    delta : float, default=0
        Of an (ε, δ) claim, beside ``epsilon``: every design is tried with Gaussian noise, and with
        Laplace noise of ε (its ``delta`` is 0), which makes the claim too.
    n_records : int, optional
        The *public* number of records; all objectives but "error" need it.
    kind : {"auto", "tables", "additive", "matrix", "naive_bayes", "batch", "subsample"}, \
default="auto"
        As in `plan`, of the kinds whose designs can be compared without data. "auto" tries
        "matrix", "tables" and, with the objective "accuracy" and without noise of one's own,
        "additive" where `suits_residual_forest` says so: `n_records` is public, records outweigh
        noise, and there are two classes or noise is Gaussian. In a space of your own the kinds are
        what its parameter ``"kind"`` says, "matrix" where it says nothing.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    objective : {"accuracy", "flip", "error", "bound"} or callable, default="accuracy"
        What is minimised, see `mrf_matrix.planning.search.objectives`; a callable takes a `Plan`.
    objective_options : mapping, optional
        Parameters of a named objective, for example ``{"share": 0.1}`` for "flip".
    space : mapping of str to list, or several of them, optional
        Values of each parameter to try; see `default_space`. Parameters that are not in it stay
        at the defaults of `plan`.
    n_forests : int, default=1
        Forests drawn for each design, whose objectives are averaged.
    queries, n_classes
        See `plan`.
    time_limit : float, default=1.0
        Seconds of the search for each strategy.
    search_all : bool, default=False
        Seek a strategy for every design. Else only for those that could still be the best: of an
        objective that has a floor ("accuracy", "bound"), a design is ruled out when its value
        without any noise, which no strategy is below, is beyond the tolerance above what others
        reach by measuring cells; its figures are those of cells, and its note says so.
    law : subclass of NoiseLaw, optional
        Noise of one's own, see `plan`; with kind "auto" random trees only.
    max_seconds : float, optional
        Stop the search after this time by the clock: no further design is begun, and those that
        were not tried are trials with `Trial.stopped`. A design that was begun is finished; of kind
        "auto" a residual forest that would take longer to judge is refused with a note. With
        ``resume`` the next call goes on from there; which designs are tried, not their values,
        depends on the machine.
    max_release_seconds : float, optional
        Refuse designs whose release is expected to take longer (`Plan.seconds`).
    max_bytes : int, optional
        Refuse designs that hold more at their peak (`peak_bytes`), or a larger array when planned.
    n_jobs : int, optional
        Processes of joblib. The result does not depend on it.
    client : distributed.Client, optional
        A Dask cluster that tries the designs instead: public work. Nor does it depend on that.
    resume : str or Path, optional
        JSON file of finished trials: read if it is there, written after every batch. An interrupt
        (Ctrl-C) ends in the best of those that are finished.
    progress : callable, optional
        Called as ``progress(what, done, total)``.
    random_state : int, default=0
        Seed of forests and strategies; the estimator made from the result has the same.

    Returns
    -------
    Tuning

    Raises
    ------
    ValueError, TypeError
        If an argument is impossible. A design that cannot be (more blocks than attributes, an
        array above the cap) is a trial of infinite objective with a note.

    Examples
    --------
    >>> found = tune(
    ...     Domain.from_sizes([3, 3, 2], n_classes=2), epsilon=1, n_records=500,
    ...     space={"max_depth": [1, 2], "n_trees": [8], "strategy": ["identity"]},
    ... )
    >>> sorted(found.best.design)
    ['max_depth', 'n_trees', 'strategy']
    """
    epsilon = epsilon_or_default(epsilon, rho)
    claimed_budget(epsilon, delta, rho)
    checked_time_limit(time_limit)
    kind = ANY if kind == ANY else searchable_kind(kind).name
    schema = as_domain(domain)
    if not isinstance(schema, Domain):
        raise TypeError(
            f"domain is of type {type(schema).__name__}: expected a Domain or the path of its file."
        )
    domain = schema
    goal = as_objective(objective, **(objective_options or {}))
    check_records_known(goal, n_records)
    fixed: dict[str, Any] = {
        "kind": kind,
        "epsilon": epsilon,
        "delta": float(delta),
        "rho": rho,
        "neighboring": neighboring,
        "n_records": n_records,
        "queries": queries,
        "n_classes": n_classes,
        "time_limit": time_limit,
        "law": law,
        "random_state": whole_number("random_state", random_state, 0),
    }
    seconds = _checked_limit("max_release_seconds", max_release_seconds)
    most = None if max_bytes is None else whole_number("max_bytes", max_bytes)
    if space is None:
        several: tuple[str, ...] = AUTO
        if isinstance(goal, ExpectedLoss) and law is None:
            several = auto_kinds(domain, epsilon=epsilon, delta=delta, rho=rho, n_records=n_records)
        space = default_spaces(domain, kind, several)
    designs = split_by_law(designs_of(space), float(delta), kind)
    request = {
        "domain": domain.to_dict(),
        "objective": [repr(goal), getattr(goal, "function", None)],
        "n_forests": n_forests,
        "max_release_seconds": seconds,
        "max_bytes": most,
        "search_all": search_all,
        **fixed,
    }
    file = TrialFile(resume, request)
    done = {trial.key: trial for trial in file.load() if not is_too_long(trial)}
    limit = _checked_limit("max_seconds", max_seconds)
    if limit is not None and isinstance(goal, ExpectedLoss) and n_records is not None:
        check_imagining(domain, n_records, len(goal.priors) * goal.n_targets, limit)
    clock = Stopwatch(limit, monotonic)
    search = DesignTrials(
        domain,
        fixed,
        goal,
        whole_number("n_forests", n_forests),
        seconds,
        most,
        clock if client is None else Stopwatch(None, monotonic),  # other machines, other clocks
    )

    def report(what: str) -> None:
        if progress:
            progress(what, sum(key_of(one) in done for one in designs), len(designs))

    def go_on(what: str, groups: list[list[Design]], quick: bool = False) -> None:
        """Try groups until the time is over, and keep what comes of it after each."""
        waiting = (group for group in groups if not clock.is_over)
        jobs, run = bounded_jobs(n_jobs, len(designs)), partial(search.run, quick=quick)
        for trials in run_tasks(run, waiting, n_jobs=jobs, client=client):
            done.update({trial.key: trial for trial in trials})
            file.save(list(done.values()))
            report(f"{what}, {clock.seconds:.0f} s")

    report("designs")
    left = structures_of([design for design in designs if key_of(design) not in done])
    easy = [group for group in left if not search_all and _may_be_ruled_out(group[0], kind, goal)]
    interrupted = False
    try:
        go_on("designs", [group for group in left if group not in easy])
        go_on("designs", easy, quick=True)
    except KeyboardInterrupt:
        if not done:
            raise
        interrupted = True
    least = min((trial.value for trial in done.values()), default=inf) + 2 * goal.tolerance
    able = [
        design
        for design in designs
        if (trial := done.get(key_of(design))) is not None
        and not trial.searched
        and min(trial.floor, trial.value) <= least
    ]
    if not interrupted:
        with suppress(KeyboardInterrupt):
            go_on("strategies", structures_of(able))
    late = "not tried: interrupted" if interrupted else clock.note
    every = [finished_trial(design, done, least) or not_tried(design, late) for design in designs]
    return Tuning(rank_trials(every, goal.tolerance), goal.name, {**fixed, "domain": domain})


def _may_be_ruled_out(design: Design, kind: str, goal: Objective) -> bool:
    usual = design.get("allocation", "matrix") == "matrix"
    searches = kinds_named(kind_word(design, kind))[0].chooses_strategies
    sought = searches and is_auto(design.get("strategy", "auto"))
    return usual and sought and getattr(goal, "has_floor", False)


def _checked_limit(name: str, seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ValueError(
            f"{name}={short_repr(seconds)}: expected a positive number of seconds, or None."
        )
    return float(seconds)


PATIENCE = 2.0
"""Times the limit after which a design that was begun is given up."""


class OutOfTime(Exception):
    """A design takes far more than the limit."""


@dataclass(frozen=True)
class DesignTrials:
    """Trials of designs, the same in every process."""

    domain: Domain
    fixed: dict[str, Any]
    objective: Objective
    n_forests: int
    max_release_seconds: float | None
    max_bytes: int | None
    clock: Stopwatch
    patience: Stopwatch = field(init=False)

    def __post_init__(self) -> None:
        limit = self.clock.limit and PATIENCE * self.clock.limit
        object.__setattr__(self, "patience", Stopwatch(limit, monotonic))

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
                replace(refusal(design, str(impossible), seconds), searched=not quick)
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
                trials.append(refusal(design, str(impossible), self.clock.now() - started))
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
                trials.append(refusal(design, str(unjudged), self.clock.now() - started))
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
            return refusal(design, note, self.clock.now() - started)
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
