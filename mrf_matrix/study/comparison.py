"""What a study found: every figure, its summary, and the strategies known beforehand."""

from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from mrf_matrix.base.checks import one_word
from mrf_matrix.base.display import Cells, Tabular
from mrf_matrix.study.methods import METHODS, Method
from mrf_matrix.study.metrics import METRICS
from mrf_matrix.study.strategy_table import StrategyRow


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
        See `mrf_matrix.study.metrics`; None where the method gives no probabilities, or the test
        records not every class.
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
            [
                method.label,
                *(
                    self.summary(method.key, e if method.spends else None).mean
                    for e in self.epsilons
                ),
            ]
            for method in self.methods
        ]
        return ["method", *(f"ε={epsilon:g}" for epsilon in self.epsilons)], rows

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
