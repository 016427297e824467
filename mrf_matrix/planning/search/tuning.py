"""The result of a search: every trial, the best design, the Pareto front, a frame."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrf_matrix.base.display import Cells, Tabular
from mrf_matrix.planning.kinds.words import kinds_named
from mrf_matrix.planning.plain_values import plain, plain_figures
from mrf_matrix.planning.search.search_space import kind_word
from mrf_matrix.planning.search.trials import Trial


def ranked(trials: Iterable[Trial], tolerance: float) -> tuple[Trial, ...]:
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
        Best first (see `ranked`), then designs that were refused, then those that were not tried.
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
