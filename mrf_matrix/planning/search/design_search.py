"""`tune`: search designs without data, under bounds on time and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from os import PathLike
from time import monotonic
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from mrf_matrix.base.checks import short_repr, whole_number
from mrf_matrix.base.work import bounded_jobs, run_tasks
from mrf_matrix.domain import Domain, as_domain
from mrf_matrix.mechanisms import NoiseLaw
from mrf_matrix.mechanisms.budget import claimed_budget, epsilon_or_default
from mrf_matrix.planning.plain_values import key_of
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_kind import is_auto, kinds_named
from mrf_matrix.planning.plans.request import Amount
from mrf_matrix.planning.search.design_trials import DesignTrials, Stopwatch, is_too_long
from mrf_matrix.planning.search.expected_accuracy import imagining_seconds
from mrf_matrix.planning.search.objectives import (
    ExpectedLoss,
    Objective,
    as_objective,
    check_records_known,
)
from mrf_matrix.planning.search.tuning import (
    ANY,
    AUTO,
    Space,
    Trial,
    TrialFile,
    Tuning,
    auto_kinds,
    default_spaces,
    designs_of,
    kind_word,
    not_tried,
    rank_trials,
    searchable_kind,
    split_by_law,
    structures_of,
)
from strategies.search.select import checked_time_limit

if TYPE_CHECKING:
    from distributed import Client


Progress = Callable[[str, int, int], None]
Design = dict[str, Any]

LEAST_IMAGINING = 10.0
"""Seconds that judging a first design may take, however short the limit."""


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
    progress: Progress | None = None,
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
    _check_imagining(goal, domain, n_records, limit)
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
    total = len(designs)
    jobs = bounded_jobs(n_jobs, total)

    def go_on(what: str, groups: list[list[Design]], quick: bool = False) -> None:
        """Try groups until the time is over, and keep what comes of it after each."""
        waiting = (group for group in groups if not clock.is_over)
        for trials in run_tasks(
            partial(search.run, quick=quick), waiting, n_jobs=jobs, client=client
        ):
            done.update({trial.key: trial for trial in trials})
            file.save(list(done.values()))
            if progress:
                progress(f"{what}, {clock.seconds:.0f} s", _count(designs, done), total)

    if progress:
        progress("designs", _count(designs, done), total)
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
    every = [_finished_trial(design, done, least) or not_tried(design, late) for design in designs]
    return Tuning(rank_trials(every, goal.tolerance), goal.name, {**fixed, "domain": domain})


def _may_be_ruled_out(design: Design, kind: str, goal: Objective) -> bool:
    usual = design.get("allocation", "matrix") == "matrix"
    what = kinds_named(kind_word(design, kind))[0]
    sought = what.chooses_strategies and is_auto(design.get("strategy", "auto"))
    return usual and sought and getattr(goal, "has_floor", False)


def _finished_trial(design: Design, done: Mapping[str, Trial], least: float) -> Trial | None:
    """Return a design's trial with the design as it was asked for: a file holds names of arrays."""
    found = done.get(key_of(design))
    if found is None:
        return None
    note = found.note
    if not found.searched and not note:
        note = (
            f"ruled out: {found.floor:.4g} without any noise. Cells are measured"
            if found.floor > least
            else "the time was over: cells are measured"
        )
    return replace(found, design=design, note=note)


def _count(designs: list[Design], done: Mapping[str, Trial]) -> int:
    return sum(key_of(design) in done for design in designs)


def _check_imagining(
    goal: Objective, domain: Domain, n_records: int | None, limit: float | None
) -> None:
    """Refuse a limit within which no design could be judged: that takes records of its own."""
    if limit is None or not isinstance(goal, ExpectedLoss) or n_records is None:
        return
    laws = len(goal.priors) * goal.n_targets
    seconds = imagining_seconds(domain.n_attributes, n_records, laws)
    if seconds > max(limit, LEAST_IMAGINING):
        raise ValueError(
            f"max_seconds={limit:g}: to judge one design over {domain.n_attributes} attributes by "
            f"imagined records takes about {seconds:.2g} s. Expected more, or objective='error', "
            f"which imagines none."
        )


def _checked_limit(name: str, seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ValueError(
            f"{name}={short_repr(seconds)}: expected a positive number of seconds, or None."
        )
    return float(seconds)
