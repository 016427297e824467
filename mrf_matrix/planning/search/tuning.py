"""Designs that a search tries, its time, finished trials, and the result."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from math import inf, nan
from typing import Any

import numpy as np

from mrf_matrix.base.checks import checked_n_records, short_repr
from mrf_matrix.base.display import Cells, Tabular
from mrf_matrix.domain import Domain
from mrf_matrix.planning.plain_values import RunFile, key_of, plain, plain_figures
from mrf_matrix.planning.plans.plan_kind import KINDS, PlanKind, kinds_named
from mrf_matrix.residual.sequence import most_codes, sequence_budget
from mrf_matrix.residual.step import suits_residual_forest

Space = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]

PARAMETERS = (
    "kind", "max_depth", "n_trees", "n_ensembles", "max_features", "splits", "strategy",
    "allocation", "voting", "budget_shares", "n_blocks", "blocks",
)  # fmt: skip
ANY = "auto"
"""The word for a search over kinds."""

AUTO = ("tables", "matrix")
"""Kinds that a search tries where it is told none: both release a forest for any later query."""

SEQUENCE = "additive"
"""The kind that it tries besides, where `auto_kinds` says so."""

FEW_TREES, MANY_TREES = 16, 128


def default_space(domain: Domain, kind: str) -> dict[str, list[Any]]:
    """Return a space that holds shallow and deep, few and many, for any domain.

    Parameters
    ----------
    domain : Domain
    kind : {"tables", "additive", "matrix", "naive_bayes", "batch", "subsample"}
        "additive" and "naive_bayes" have one design: the space is empty.
    """
    what = searchable_kind(kind)
    if not what.grows_trees:
        return {"n_blocks": ["auto"]} if what.chooses_blocks else {}
    splittable = sum(size > 1 for size in domain.sizes)
    depths = [depth for depth in (1, 2, 3, 4) if depth <= max(1, splittable)]
    return {
        "max_depth": depths,
        "n_trees": [FEW_TREES, MANY_TREES],
        "splits": ["multiway", "binary"],
        "strategy": ["auto"],
        "voting": sorted(what.imagined_votings),
    }


def default_spaces(
    domain: Domain, kind: str, several: Sequence[str] = AUTO
) -> list[dict[str, list[Any]]]:
    if kind != ANY:
        return [default_space(domain, kind)]
    return [{"kind": [one], **default_space(domain, one)} for one in several]


def auto_kinds(
    domain: Domain, *, epsilon: object, delta: object, rho: object, n_records: int | None
) -> tuple[str, ...]:
    """Return the kinds that a search tries where it is told none, for one claim.

    Residual forests are among them where `suits_residual_forest` says so of the noise that they
    would take, and no attribute has too many codes for one.

    >>> domain = Domain.from_sizes([5] * 8, n_classes=2)
    >>> auto_kinds(domain, epsilon=1, delta=0, rho=None, n_records=20_000)
    ('tables', 'additive', 'matrix')
    >>> auto_kinds(domain, epsilon=1, delta=0, rho=None, n_records=200)
    ('tables', 'matrix')
    """
    records = checked_n_records(n_records)
    if domain.target is None or records is None:
        return AUTO
    d, k = domain.n_attributes, domain.n_classes
    budget = sequence_budget(epsilon, delta, rho, d, records, k)
    suits = suits_residual_forest(records, budget, d, k) and max(domain.sizes) <= most_codes(k)
    return (AUTO[0], SEQUENCE, *AUTO[1:]) if suits else AUTO


def designs_of(space: Space) -> list[dict[str, Any]]:
    """Return all combinations of a space, or of each of several, the last parameter fastest.

    Raises ValueError if a name is unknown, or a list empty or no list.
    """
    if isinstance(space, str) or not isinstance(space, Mapping | Sequence):
        raise ValueError(
            f"space={space!r}: expected lists of values by parameter, or a list of such spaces."
        )
    if not isinstance(space, Mapping):
        return [design for one in space for design in designs_of(one)]
    checked: dict[str, list[Any]] = {}
    for name, values in space.items():
        if name not in PARAMETERS:
            raise ValueError(
                f"space holds {name!r}: expected parameters among {', '.join(PARAMETERS)}."
            )
        listed = list(values) if isinstance(values, list | tuple | range) else None
        if not listed:
            raise ValueError(f"space[{name!r}]={values!r}: expected a list of at least one value.")
        checked[name] = [one.item() if isinstance(one, np.generic) else one for one in listed]
    return [dict(zip(checked, chosen, strict=True)) for chosen in product(*checked.values())]


def searchable_kind(kind: object) -> PlanKind:
    """Return the kind of a word, whose designs can be compared without data.

    Raises ValueError if there is none, or only one design of it.
    """
    first = kinds_named(kind)[0]
    if first.is_sequence and not first.imagined_votings:
        able = dict.fromkeys(repr(one.name) for one in KINDS if one.imagined_votings)
        raise ValueError(
            f"kind={short_repr(kind)}: its designs are not compared. Expected 'auto' of a whole "
            f"search, or one of {', '.join(able)}."
        )
    return first


def kind_word(design: Mapping[str, Any], kind: str) -> str:
    """Return the word for a design's kind: its own, that of the search, or matrix."""
    return str(design.get("kind") or (AUTO[-1] if kind == ANY else kind))


def split_by_law(designs: list[dict[str, Any]], delta: float, kind: str) -> list[dict[str, Any]]:
    """Return designs of an (ε, δ) claim, each with Gaussian noise of δ and with Laplace noise of ε.

    A residual forest compares both itself.
    """
    if not delta:
        return designs
    return [
        design if law is None else {**design, "delta": law}
        for design in designs
        for law in ((None,) if kind_word(design, kind) == SEQUENCE else (delta, 0.0))
    ]


def structures_of(designs: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group designs that differ in voting only: they share a plan."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for design in designs:
        shared = {name: value for name, value in design.items() if name != "voting"}
        groups.setdefault(key_of(shared), []).append(design)
    return list(groups.values())


@dataclass(frozen=True)
class Trial:
    """One design that was tried.

    Attributes
    ----------
    design : dict
        Its parameters.
    value : float
        The objective, smaller is better; infinite where the design was refused.
    rms_per_vote : float
        Expected error of a weight vote, in records per class; NaN where votes multiply.
    measurements : int
        Noise draws of the release for each class.
    leaves : int
        Leaves of all trees.
    nbytes : int
        Bytes that a fit holds at its peak, as expected (`peak_bytes`).
    seconds : float
        Seconds from the start of its group (designs that differ in voting) to its end.
    note : str
        Why it was refused, or not tried.
    stopped : bool
        Not tried: the time of the search was over. Its figures are unknown.
    floor : float
        The objective without any noise, where it was asked: no strategy is below it.
    searched : bool
        Whether a strategy was sought. Otherwise cells are measured, and the floor is above what
        others reach (or the time was over): see the note.
    """

    design: dict[str, Any]
    value: float
    rms_per_vote: float
    measurements: int
    leaves: int
    nbytes: int
    seconds: float
    note: str = ""
    stopped: bool = False
    floor: float = -inf
    searched: bool = True

    @property
    def key(self) -> str:
        """Tell designs apart."""
        return key_of(self.design)

    def row(self) -> dict[str, Any]:
        """Return design and figures in one flat row."""
        figures = asdict(replace(self, design={}))
        return {**self.design, **{name: figures[name] for name in figures if name != "design"}}


def not_tried(design: dict[str, Any], note: str) -> Trial:
    return Trial(design, inf, nan, 0, 0, 0, 0.0, note, stopped=True)


def refusal(design: dict[str, Any], note: str, seconds: float) -> Trial:
    return Trial(design, inf, nan, 0, 0, 0, seconds, note)


TOO_LONG = "not tried"  # what the note of a residual forest begins with that was not judged


def is_too_long(trial: Trial) -> bool:
    """Tell whether a trial was refused for lack of time alone: more time would try it."""
    return not trial.stopped and trial.note.startswith(TOO_LONG)


def finished_trial(design: dict[str, Any], done: Mapping[str, Trial], least: float) -> Trial | None:
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


class TrialFile(RunFile):
    """Finished trials of a search."""

    run, rows, writer = "search", "trials", "tune"
    same = "domain, budget, kind and objective"

    def load(self) -> list[Trial]:
        """Return the finished trials."""
        return self.load_rows(Trial)

    def save(self, trials: list[Trial]) -> None:
        """Write all finished trials."""
        self.write(
            [
                {**asdict(replace(trial, design={})), "design": json.loads(trial.key)}
                for trial in trials
            ]
        )


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


def rank_trials(trials: Iterable[Trial], tolerance: float) -> tuple[Trial, ...]:
    """Return trials by their objective, but first the simplest of those that are as good.

    `tolerance`: differences that mean nothing: of the designs that are no further above the least
    objective, the one with the fewest measurements comes first (Breiman's parsimony).
    """
    found = sorted(trials, key=lambda trial: (trial.value, trial.stopped, trial.leaves))
    if not found or not np.isfinite(found[0].value):
        return tuple(found)
    near = [trial for trial in found if trial.value <= found[0].value + tolerance]
    first = min(near, key=lambda trial: (trial.measurements, trial.value))
    return (first, *(trial for trial in found if trial is not first))


def _column(values: list[Any]) -> list[Any]:
    """Return values of one kind, for a column of a frame: words where they are of several."""
    known = [value for value in values if value is not None]
    numbers = all(isinstance(value, int | float) for value in known)
    if numbers or all(isinstance(value, str) for value in known):
        return values
    return [None if value is None else str(plain(value)) for value in values]


@dataclass(frozen=True, eq=False, repr=False)
class Tuning(Tabular):
    """What a search without data found.

    Attributes
    ----------
    trials : tuple of Trial
        Best first (`rank_trials`), then designs that were refused, then those that were not tried.
    objective : str
        Name of what was minimised.
    request : dict
        Domain, kind, budget and seed, as the estimators take them.
    """

    trials: tuple[Trial, ...]
    objective: str
    request: dict[str, Any]

    @property
    def best(self) -> Trial:
        """The trial of the least objective, or the simplest of those that are as good."""
        if not self.trials or not np.isfinite(self.trials[0].value):
            reasons = sorted({trial.note for trial in self.trials if trial.note})
            told = "; ".join(reasons[:3]) or "the space is empty"
            raise ValueError(
                f"no design was feasible: {told.removesuffix('.')}. "
                f"Enlarge the space, or the bounds on time and memory."
            )
        return self.trials[0]

    @property
    def stopped(self) -> tuple[Trial, ...]:
        """Designs that were not tried, because the time of the search was over."""
        return tuple(trial for trial in self.trials if trial.stopped)

    @property
    def kind(self) -> str:
        """Kind of the best design: which classifier releases it."""
        return self.kind_of(self.best)

    def kind_of(self, trial: Trial) -> str:
        """Return the word for a design's kind."""
        return kind_word(trial.design, self.request["kind"])

    @property
    def best_params(self) -> dict[str, Any]:
        """The best design's parameters with budget, relation and seed: a classifier's arguments.

        `mrf_matrix.estimators.from_design` makes the classifier, that of `kind`.
        """
        return self.params_of(self.best)

    def params_of(self, trial: Trial) -> dict[str, Any]:
        """Return the arguments of the classifier that releases a design."""
        used = (*kinds_named(self.kind_of(trial))[0].parameters, "delta")
        chosen = {
            name: value
            for name, value in trial.design.items()
            if value is not None and name in used
        }
        fixed = ("epsilon", "delta", "rho", "neighboring", "random_state")
        last = tuple(name for name in ("n_records", "time_limit") if name in used)
        return {**{name: self.request[name] for name in fixed + last}, **chosen}

    def rows(self) -> list[dict[str, Any]]:
        """Return one flat dict for each trial, best first."""
        return [trial.row() for trial in self.trials]

    @property
    def cells(self) -> Cells:
        """One row a trial, best first; what a design does not have is None."""
        rows = self.rows()
        designs = [name for trial in self.trials for name in trial.design]
        names = list(dict.fromkeys([*designs, *(name for row in rows for name in row)]))
        columns = [_column([row.get(name) for row in rows]) for name in names]
        return names, list(zip(*columns, strict=True))

    def pareto(self, first: str = "value", second: str = "measurements") -> tuple[Trial, ...]:
        """Return the trials that no other beats in both of two figures, by the first.

        Parameters
        ----------
        first, second : str
            Figures of `Trial` to be small: "value", "rms_per_vote", "measurements", "leaves",
            "nbytes" or "seconds". Designs that have no such figure, or were ruled out before a
            strategy was sought, are left out.
        """
        ranked = sorted(
            (
                trial
                for trial in self.trials
                if trial.searched and np.isfinite(trial.value + getattr(trial, second))
            ),
            key=lambda trial: (getattr(trial, first), getattr(trial, second)),
        )
        front: list[Trial] = []
        for trial in ranked:
            if not front or getattr(trial, second) < getattr(front[-1], second):
                front.append(trial)
        return tuple(front)

    def to_dict(self) -> dict[str, Any]:
        """Return the search as plain values, ready for JSON; what is not finite is None."""
        return plain_figures(
            {
                "objective": self.objective,
                "request": {k: v for k, v in self.request.items() if k != "domain"},
                "best": self.best.row(),
                "best_params": self.best_params,
                "kind": self.kind,
                "trials": self.rows(),
            }
        )

    def __repr__(self) -> str:
        feasible = sum(np.isfinite(trial.value) for trial in self.trials)
        late = f", {len(self.stopped)} not tried for lack of time" if self.stopped else ""
        counts = f"{feasible} of {len(self.trials)} designs feasible{late}"
        if not feasible:
            return f"Tuning({counts})"
        return (
            f"Tuning({counts}, best {self.objective}={self.best.value:.4g} by {self.best.design})"
        )
