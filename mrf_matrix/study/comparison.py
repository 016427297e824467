"""What a study found: every figure, its summary, and the strategies known beforehand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite, isnan, nan, sqrt
from typing import Any

import numpy as np

from mrf_matrix.base.checks import one_word
from mrf_matrix.base.display import Cells, Tabular, latex_table
from mrf_matrix.compilation import path_matrix
from mrf_matrix.error import ExpectedError, direct_error, expected_error
from mrf_matrix.forests import Forest
from mrf_matrix.planning.plans.baselines import RULES, distinct_leaves, level_strategy
from mrf_matrix.study.calibration import METRICS, SMALLER_IS_BETTER
from mrf_matrix.study.methods import METHODS, Method
from strategies import Strategy, select
from strategies.operators import MemoryCapError, RowSpaceError

FAMILIES = {"distinct leaves": "workload_itself", "identity: each cell": "identity"}


@dataclass(frozen=True)
class StrategyRow:
    """One strategy for the training workload ``W = T``."""

    name: str  # what it is called on screen
    # sensitivity, loss: ``‖A‖₁`` and ``‖A‖₁² ‖W A⁺‖²_F``
    sensitivity: float
    loss: float
    lower_bound: float  # certified lower bound on the loss of every strategy for the workload
    # expected root-mean-square error of one leaf value at each ε, in records per class
    rms_per_leaf: dict[float, float]
    note: str | None = None  # why the family cannot serve the workload; its figures are NaN then
    is_selected: bool = False  # the one that `select` found

    @property
    def certified_ratio(self) -> float:
        """Loss over lower bound: the strategy is within this factor of optimal."""
        return self.loss / self.lower_bound if self.lower_bound > 0 else float("inf")

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sensitivity": _finite_or_none(self.sensitivity),
            "loss": _finite_or_none(self.loss),
            "lower_bound": self.lower_bound,
            "rms_per_leaf": [
                {"epsilon": epsilon, "rms": _finite_or_none(rms)}
                for epsilon, rms in self.rms_per_leaf.items()
            ],
            "note": self.note,
            "is_selected": self.is_selected,
        }


def _finite_or_none(figure: float) -> float | None:
    """Return a figure for JSON, which has no NaN."""
    return figure if isfinite(figure) else None


def strategy_rows(
    forest: Forest,
    selected: Strategy,
    epsilons: Sequence[float],
    neighboring: str,
    delta: float = 0.0,
) -> tuple[StrategyRow, ...]:
    """Return the baselines and the selected strategy for a forest's leaves, without data.

    `forest`: its decision-path matrix T is the workload; `selected`: what was selected for it;
    `epsilons`: budgets to give errors at; `neighboring`: the neighbouring relation; `delta`: of an
    (ε, δ) claim by Gaussian noise, or 0.
    """
    workload, norm = path_matrix(forest), selected.norm
    leaves, n_rows = distinct_leaves(forest), workload.shape[0]
    budget: dict[str, Any] = {
        "epsilon": epsilons[0], "delta": delta, "neighboring": neighboring
    }  # fmt: skip

    def row(name: str, sensitivity: float, loss: float, error: ExpectedError) -> StrategyRow:
        rms = {
            epsilon: sqrt(error.at(epsilon=epsilon, delta=delta).total / n_rows)
            for epsilon in epsilons
        }
        return StrategyRow(name, sensitivity, loss, selected.lower_bound, rms)

    baselines: dict[str, Callable[[], Strategy]] = {
        name: partial(select, leaves, norm=norm, method=family)
        for name, family in FAMILIES.items()
        if family != selected.method  # it is a row already
    }
    for rule in RULES:
        baselines[f"{rule} levels"] = partial(level_strategy, forest, norm, rule)
    size = workload.sensitivity(norm)
    direct = direct_error(workload, **budget)
    served, refused = [row("each tree, as measured", size, size**2 * n_rows, direct)], []
    for name, find in baselines.items():
        try:
            found = find()
        except (RowSpaceError, MemoryCapError) as refusal:  # anything else is a bug
            note, nothing = " ".join(str(refusal).split()), dict.fromkeys(epsilons, nan)
            refused.append(StrategyRow(name, nan, nan, selected.lower_bound, nothing, note))
        else:
            error = expected_error(found, **budget)
            served.append(row(name, found.sensitivity, found.loss, error))
    error = expected_error(selected, **budget)
    chosen = row(f"selected: {selected.method}", selected.sensitivity, selected.loss, error)
    return (*served, replace(chosen, is_selected=True), *refused)


@dataclass(frozen=True)
class Score:
    """Figures of one fit on the test records.

    Attributes
    ----------
    method : str
        Key of the method, see `METHODS`.
    epsilon : float or None
        Budget of the fit; None for methods that do not spend any.
    split, draw : int
        Number of the train/test split (and forest), and of the noise draw.
    accuracy : float
        Share of test records whose class was predicted.
    balanced_accuracy, auc, log_loss, brier, calibration : float or None
        See `mrf_matrix.study.calibration`; None where the method gives no probabilities, or the
        test records not every class.
    """

    method: str
    epsilon: float | None
    split: int
    draw: int
    accuracy: float
    balanced_accuracy: float | None = None
    auc: float | None = None
    log_loss: float | None = None
    brier: float | None = None
    calibration: float | None = None


@dataclass(frozen=True)
class Summary:
    """One method at one ε: mean, standard error of the mean, number of fits that have the figure.

    The mean is None where none has it.
    """

    method: str
    epsilon: float | None
    mean: float | None
    standard_error: float
    n_fits: int

    def __str__(self) -> str:
        """Write the mean with its error behind a ±; nothing where no fit has the figure."""
        if self.mean is None:
            return ""
        error = "" if isnan(self.standard_error) else f" ± {self.standard_error:.3f}"
        return f"{self.mean:.3f}{error}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, which has no NaN."""
        return vars(self) | ({"standard_error": None} if isnan(self.standard_error) else {})


@dataclass(frozen=True, eq=False)
class Comparison(Tabular):
    """Everything that one study found.

    Attributes
    ----------
    dataset : str
        Name of the data set.
    settings : dict
        All settings of the study.
    strategies : tuple of StrategyRow
        Strategies for the first forest, with their errors; computed without data.
    scores : tuple of Score
        Every fit.
    methods : tuple of Method
        The methods of the study, in the order of tables and legends.
    unfinished : int
        Fits that an interrupt left undone.
    """

    dataset: str
    settings: dict[str, Any]
    strategies: tuple[StrategyRow, ...]
    scores: tuple[Score, ...]
    methods: tuple[Method, ...] = METHODS
    unfinished: int = 0

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The budgets of the study, in order."""
        return tuple(self.settings["epsilons"])

    def summary(self, method: str, epsilon: float | None, metric: str = "accuracy") -> Summary:
        """Return mean and standard error of a figure of a method at an ε.

        Raises
        ------
        ValueError
            If the metric is none of `METRICS`.
        """
        name = one_word("metric", metric, list(METRICS))
        found = [
            getattr(s, name) for s in self.scores if s.method == method and s.epsilon == epsilon
        ]
        values = np.array([value for value in found if value is not None])
        spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
        mean = float(values.mean()) if len(values) else None
        return Summary(method, epsilon, mean, float(spread), len(values))

    @property
    def cells(self) -> Cells:
        """One row a method, with the mean accuracy at every ε."""
        rows = [
            [method.label, *(one.mean for one in self.summaries_of(method))]
            for method in self.methods
        ]
        return ["method", *(f"ε={epsilon:g}" for epsilon in self.epsilons)], rows

    def to_latex(self) -> str:
        """Return mean accuracies with their standard errors as a LaTeX tabular (booktabs)."""
        header, _ = self.cells
        return latex_table(
            [[method.label, *map(str, self.summaries_of(method))] for method in self.methods],
            header,
        )

    def summaries_of(self, method: Method, metric: str = "accuracy") -> list[Summary]:
        """Return a method's summary at every ε, the same one for methods that do not spend."""
        budgets = self.epsilons if method.spends else [None] * len(self.epsilons)
        return [self.summary(method.key, epsilon, metric) for epsilon in budgets]

    def ranking(self, metric: str = "accuracy") -> tuple[Method, ...]:
        """Return the methods that spend, best first by the mean of a figure over all ε."""
        sign = 1.0 if metric in SMALLER_IS_BETTER else -1.0

        def mean_figure(method: Method) -> float:
            means = [one.mean for one in self.summaries_of(method, metric)]
            known = [one for one in means if one is not None]
            return sign * sum(known) / len(known) if known else inf

        return tuple(sorted((one for one in self.methods if one.spends), key=mean_figure))

    def summaries(self, metric: str = "accuracy") -> tuple[Summary, ...]:
        """Return the summary of every method at every ε it was run at."""
        return tuple(
            self.summary(method.key, epsilon, metric)
            for method in self.methods
            for epsilon in (self.epsilons if method.spends else (None,))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the study as plain values, ready for JSON."""
        return {
            "schema_version": 1,
            "dataset": self.dataset,
            "settings": self.settings,
            "unfinished": self.unfinished,
            "methods": [method.to_dict(self.settings["noise"]) for method in self.methods],
            "strategies": [row.to_dict() for row in self.strategies],
            "summaries": [summary.to_dict() for summary in self.summaries()],
            "summaries_by_metric": {
                metric: [one.to_dict() for one in self.summaries(metric)] for metric in METRICS
            },
            "scores": [vars(score) for score in self.scores],
        }
