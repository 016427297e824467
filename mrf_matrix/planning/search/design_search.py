"""`tune`: search designs without data, under bounds on time and memory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.shown import shown
from mrf_matrix.base.workers import computed
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms import as_budget
from mrf_matrix.mechanisms.budgets.budget import epsilon_or_default
from mrf_matrix.planning.kinds.words import kinds_named
from mrf_matrix.planning.search.design_trials import DesignTrials
from mrf_matrix.planning.search.objectives import as_objective
from mrf_matrix.planning.search.search_space import (
    ANY,
    Space,
    default_spaces,
    designs_of,
    structures_of,
)
from mrf_matrix.planning.search.stopwatch import Stopwatch
from mrf_matrix.planning.search.trials import Trial, TrialFile, design_key, not_tried
from mrf_matrix.planning.search.tuning import Tuning, ranked
from strategies.search.select import checked_time_limit

if TYPE_CHECKING:
    from distributed import Client

Progress = Callable[[str, int, int], None]
Design = dict[str, Any]


def tune(
    domain: Domain,
    *,
    epsilon: Any = None,
    rho: Any = None,
    n_records: int | None = None,
    mode: str = "auto",
    neighboring: str = "add_remove",
    objective: Any = "accuracy",
    objective_options: Mapping[str, Any] | None = None,
    space: Space | None = None,
    n_forests: int = 1,
    queries: Any = None,
    n_classes: int | None = None,
    time_limit: float = 1.0,
    max_seconds: float | None = None,
    max_release_seconds: float | None = None,
    max_bytes: int | None = None,
    n_jobs: int | None = None,
    client: "Client | None" = None,
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
        At most one; ``epsilon=1`` of neither.
    n_records : int, optional
        The *public* number of records; all objectives but "error" need it.
    mode : {"auto", "training", "prediction", "subsample", "posterior"}, default="auto"
        "auto" tries training (`MatrixForestClassifier`) and posterior forests; in a space of your
        own the modes are what its parameter ``"mode"`` says, training where it says nothing.
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
    max_seconds : float, optional
        Stop the search after this time by the clock: no further design is begun, and those that
        were not tried are trials with `Trial.stopped`. A design that was begun is finished. With
        ``resume`` the next call goes on from there; which designs are tried, not their values,
        depends on the machine.
    max_release_seconds : float, optional
        Refuse designs whose release is expected to take longer (`Plan.seconds`).
    max_bytes : int, optional
        Refuse designs with a larger array, when planned or released.
    n_jobs : int, optional
        Processes of joblib. The result does not depend on it.
    client : distributed.Client, optional
        A Dask cluster that tries the designs instead: public work. Nor does it depend on that.
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
    as_budget(epsilon=epsilon, rho=rho)
    checked_time_limit(time_limit)
    kind = ANY if mode == ANY else kinds_named(mode)[0].name
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
        "random_state": whole_number("random_state", random_state, 0),
    }
    designs = designs_of(default_spaces(domain, kind) if space is None else space)
    seconds = _checked_limit("max_release_seconds", max_release_seconds)
    most = None if max_bytes is None else whole_number("max_bytes", max_bytes)
    request = {
        "domain": domain.to_dict(),
        "objective": [repr(goal), getattr(goal, "function", None)],
        "n_forests": n_forests,
        "max_release_seconds": seconds,
        "max_bytes": most,
        **fixed,
    }
    file = TrialFile(resume, request)
    done = {trial.key: trial for trial in file.load()}
    limit = _checked_limit("max_seconds", max_seconds)
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
    if progress:
        progress("designs", _count(designs, done), total)
    groups = _to_do(designs, done, clock)
    for trials in computed(search.run, groups, n_jobs=n_jobs, client=client):
        done |= {trial.key: trial for trial in trials}
        file.save(list(done.values()))
        if progress:
            progress(f"designs, {clock.seconds:.0f} s", _count(designs, done), total)
    every = [_tried(design, done) or not_tried(design, clock.note) for design in designs]
    return Tuning(ranked(every, goal.tolerance), goal.name, {**fixed, "domain": domain})


def _to_do(
    designs: list[Design], done: Mapping[str, Trial], clock: Stopwatch
) -> Iterator[list[Design]]:
    """Yield groups of designs that are not finished, until the time is over."""
    left = [design for design in designs if design_key(design) not in done]
    for group in structures_of(left):
        if clock.is_over:
            return
        yield group


def _tried(design: Design, done: Mapping[str, Trial]) -> Trial | None:
    """Return a design's trial with the design as it was asked for: a file holds names of arrays."""
    found = done.get(design_key(design))
    return None if found is None else replace(found, design=design)


def _count(designs: list[Design], done: Mapping[str, Trial]) -> int:
    return sum(design_key(design) in done for design in designs)


def _checked_limit(name: str, seconds: Any) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ValueError(
            f"{name}={shown(seconds)}: expected a positive number of seconds, or None."
        )
    return float(seconds)
