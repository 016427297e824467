"""What a study found: every accuracy, its summary, and the strategies known beforehand."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mrf_matrix.study.methods import METHODS, Method
from mrf_matrix.study.strategy_table import StrategyRow


@dataclass(frozen=True)
class Score:
    """Test accuracy of one fit.

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
    """

    method: str
    epsilon: float | None
    split: int
    draw: int
    accuracy: float


@dataclass(frozen=True)
class Summary:
    """Accuracies of one method at one ε: mean, standard error of the mean, number of fits."""

    method: str
    epsilon: float | None
    mean: float
    standard_error: float
    n_fits: int


@dataclass(frozen=True, eq=False)
class Comparison:
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
    """

    dataset: str
    settings: dict[str, Any]
    strategies: tuple[StrategyRow, ...]
    scores: tuple[Score, ...]
    methods: tuple[Method, ...] = METHODS

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The budgets of the study, in order."""
        return tuple(self.settings["epsilons"])

    def summary(self, method: str, epsilon: float | None) -> Summary:
        """Return mean and standard error of a method at an ε."""
        values = np.array(
            [s.accuracy for s in self.scores if s.method == method and s.epsilon == epsilon]
        )
        spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
        return Summary(method, epsilon, float(values.mean()), float(spread), len(values))

    def summaries(self) -> tuple[Summary, ...]:
        """Return the summary of every method at every ε it was run at."""
        return tuple(
            self.summary(method.key, epsilon)
            for method in self.methods
            for epsilon in (self.epsilons if method.spends else (None,))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the study as plain values, ready for JSON."""
        return {
            "schema_version": 1,
            "dataset": self.dataset,
            "settings": self.settings,
            "methods": [method.to_dict(self.settings["noise"]) for method in self.methods],
            "strategies": [row.to_dict() for row in self.strategies],
            "summaries": [vars(summary) for summary in self.summaries()],
            "scores": [vars(score) for score in self.scores],
        }
