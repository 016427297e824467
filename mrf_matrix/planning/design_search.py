"""`tune`: search designs without data, under bounds on time and memory."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms import as_budget
from mrf_matrix.planning.design_plan import Plan
from mrf_matrix.planning.ensembles import positive
from mrf_matrix.planning.objectives import Objective, as_objective
from mrf_matrix.planning.planner import plan
from mrf_matrix.planning.search_space import default_space, designs_of, structures_of
from mrf_matrix.planning.trials import Trial, TrialFile
from mrf_matrix.planning.tuning import Tuning
from mrf_matrix.planning.workloads import checked_mode
from strategies import memory_cap

Progress = Callable[[str, int, int], None]
Design = dict[str, Any]


def tune(
    domain: Domain,
    *,
    epsilon: Any = None,
    rho: Any = None,
    n_records: int | None = None,
    mode: str = "training",
    neighboring: str = "add_remove",
    objective: Any = "accuracy",
    objective_options: Mapping[str, Any] | None = None,
    space: Mapping[str, Sequence[Any]] | None = None,
    n_forests: int = 1,
    queries: Any = None,
    n_classes: int | None = None,
    time_limit: float = 1.0,
    max_seconds: float | None = None,
    max_bytes: int | None = None,
    n_jobs: int | None = None,
    resume: Any = None,
    progress: Progress | None = None,
    random_state: int = 0,
) -> Tuning:
    """Choose a design without data: depth, trees, ensembles, attributes, splits, strategy, voting.

    Parameters
    ----------
    domain : Domain
        The public schema.
    epsilon, rho : positive number
        Exactly one.
    n_records : int, optional
        The *public* number of records; all objectives but "error" need it.
    mode : {"training", "prediction", "subsample"}, default="training"
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    objective : {"accuracy", "flip", "error", "bound"} or callable, default="accuracy"
        What is minimised, see `mrf_matrix.planning.objectives`; a callable takes a `Plan`.
    objective_options : mapping, optional
        Parameters of a named objective, for example ``{"share": 0.1}`` for "flip".
    space : mapping of str to list, optional
        Values of each parameter to try; see `default_space`. Parameters that are not in it stay
        at the defaults of `plan`.
    n_forests : int, default=1
        Forests drawn for each design, whose objectives are averaged.
    queries, n_classes
        See `plan`.
    time_limit : float, default=1.0
        Seconds of the search for each strategy.
    max_seconds : float, optional
        Refuse designs whose release is expected to take longer. The search itself is bounded by
        its designs and ``time_limit``; interrupted, it goes on from ``resume``.
    max_bytes : int, optional
        Refuse designs with a larger array, when planned or released.
    n_jobs : int, optional
        Processes of joblib. The result does not depend on it.
    resume : str or Path, optional
        JSON file of finished trials: read if it is there, written after every batch.
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
        If an argument is impossible. A design that cannot be (depth beyond the attributes, an
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
    as_budget(epsilon=epsilon, rho=rho)
    kind = checked_mode(mode)
    if not isinstance(domain, Domain):
        raise TypeError(f"domain is of type {type(domain).__name__}: expected a Domain.")
    goal = as_objective(objective, **(objective_options or {}))
    fixed: dict[str, Any] = {
        "mode": kind,
        "epsilon": epsilon,
        "rho": rho,
        "neighboring": neighboring,
        "n_records": n_records,
        "queries": queries,
        "n_classes": n_classes,
        "time_limit": time_limit,
        "random_state": positive("random_state", random_state + 1) - 1,
    }
    designs = designs_of(default_space(domain, kind) if space is None else space)
    request = {"domain": domain.to_dict(), "objective": repr(goal), "n_forests": n_forests, **fixed}
    file = TrialFile(resume, request)
    done = {trial.key: trial for trial in file.load()}
    search = _Search(domain, fixed, goal, positive("n_forests", n_forests), max_seconds, max_bytes)
    groups = [group for group in structures_of(designs) if not _finished(group, done)]
    total = len(designs)
    if progress:
        progress("designs", total - sum(map(len, groups)), total)
    left = sum(map(len, groups))
    started = perf_counter()
    for trials in Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(search.run)(group) for group in groups
    ):
        done |= {trial.key: trial for trial in trials}
        file.save(list(done.values()))
        left -= len(trials)
        if progress:
            seconds = perf_counter() - started
            progress(f"designs, {seconds:.0f} s", total - left, total)
    keys = {Trial(design, 0, 0, 0, 0, 0, 0).key for design in designs}
    ranked = sorted((t for t in done.values() if t.key in keys), key=lambda t: (t.value, t.leaves))
    return Tuning(tuple(ranked), goal.name, {**fixed, "domain": domain})


def _finished(group: list[Design], done: Mapping[str, Trial]) -> bool:
    return all(Trial(design, 0, 0, 0, 0, 0, 0).key in done for design in group)


class _Search:
    """What every process of a search knows; it holds no state that a trial changes."""

    def __init__(
        self,
        domain: Domain,
        fixed: dict[str, Any],
        objective: Objective,
        n_forests: int,
        max_seconds: float | None,
        max_bytes: int | None,
    ) -> None:
        self.domain, self.fixed, self.objective = domain, fixed, objective
        self.n_forests, self.max_seconds, self.max_bytes = n_forests, max_seconds, max_bytes

    def run(self, group: list[Design]) -> list[Trial]:
        """Try designs that share their plans."""
        started = perf_counter()
        shared = {name: value for name, value in group[0].items() if name != "voting"}
        try:
            with nullcontext() if self.max_bytes is None else memory_cap(self.max_bytes):
                return self._trials(group, shared, started)
        except ValueError as impossible:  # this design cannot be; the others may
            return [_refused(design, str(impossible), started) for design in group]

    def _trials(self, group: list[Design], shared: Design, started: float) -> list[Trial]:
        seed = self.fixed["random_state"]
        trials: list[Trial] = []
        subsample = self.fixed["mode"] == "subsample"
        plans: list[Plan] = []
        for design in group:
            if subsample or not plans:
                given = {**shared, "voting": design.get("voting")} if subsample else shared
                plans = [
                    plan(self.domain, **{**self.fixed, **given, "random_state": seed + number})
                    for number in range(self.n_forests)
                ]
            trials.append(self._trial(design, plans, started))
        return trials

    def _trial(self, design: Design, plans: list[Plan], started: float) -> Trial:
        first = plans[0]
        voting = design.get("voting") or first.voting
        voted = [replace(one, voting=voting) for one in plans]
        largest = max(size.nbytes for size in first.array_sizes)
        note = ""
        if self.max_seconds is not None and first.seconds > self.max_seconds:
            note = f"the release takes {first.seconds:.3g} s, above max_seconds={self.max_seconds}"
        if self.max_bytes is not None and largest > self.max_bytes:
            note = f"an array takes {largest} bytes, above max_bytes={self.max_bytes}"
        value = float("inf") if note else float(np.mean([self.objective(one) for one in voted]))
        return Trial(
            design=design,
            value=value,
            rms_per_vote=first.rms_per_vote,
            measurements=sum(part.n_measurements for part in first.parts),
            leaves=sum(part.ensemble.forest.n_leaves for part in first.parts),
            nbytes=largest,
            seconds=perf_counter() - started,
            note=note,
        )


def _refused(design: Design, note: str, started: float) -> Trial:
    nothing = float("nan")
    return Trial(design, float("inf"), nothing, 0, 0, 0, perf_counter() - started, note)
