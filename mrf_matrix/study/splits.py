"""The splits of a study: a forest, a strategy and scores each, kept in a file as they finish."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from sklearn.model_selection import train_test_split

from mrf_matrix.base.arrays import Codes
from mrf_matrix.base.work import run_tasks
from mrf_matrix.compilation import path_matrix
from mrf_matrix.datasets import Dataset
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, PathSource
from mrf_matrix.mechanisms.budget import Norm
from mrf_matrix.planning.plain_values import RunFile
from mrf_matrix.planning.plans.baselines import level_strategy
from mrf_matrix.study.calibration import all_metrics
from mrf_matrix.study.comparison import Score
from mrf_matrix.study.methods import (
    LEVEL_METHODS,
    QUERY_METHODS,
    Method,
    Setting,
)
from strategies import Family, Strategy, evaluate, select
from strategies.operators import RowKronecker

if TYPE_CHECKING:
    from distributed import Client


EVERY = 2.0  # seconds between two writings

Key = tuple[str, float | None, int, int]


class FitFile(RunFile):
    """Scores of a study, by method, ε, split and draw."""

    run, rows, writer = "study", "fits", "compare"
    same = "data set and settings"

    def __init__(self, path: str | PathLike[str] | None, request: Mapping[str, Any]) -> None:
        super().__init__(path, request)
        self.scores = {_key(score): score for score in self.load_rows(Score)}
        self._written = monotonic()

    def get(self, method: str, epsilon: float | None, split: int, draw: int) -> Score | None:
        return self.scores.get((method, epsilon, split, draw))

    def add(self, score: Score) -> None:
        """Keep a score; the file is written every two seconds."""
        self.scores[_key(score)] = score
        if monotonic() - self._written > EVERY:
            self.save()

    def save(self) -> None:
        """Write all scores, whole or not at all."""
        self.write([vars(one) for one in self.scores.values()])
        self._written = monotonic()


def _key(score: Score) -> Key:
    return score.method, score.epsilon, score.split, score.draw


Progress = Callable[[str, int, int], None]
"""Called with what is being done, the steps done and the steps in all."""

Found = tuple[Forest, Strategy, list[Score]]
"""Of a split: its forest, the strategy, and every score."""

QUERY_SHARE = 0.1
"""Part of the time limit for the test records: of the usual limit, a batch's usual second."""


@dataclass(frozen=True, eq=False)
class Splits:
    """A study under way: what is compared, in which settings, and where its fits are kept."""

    dataset: Dataset
    domain: Domain
    trees: PathSource
    methods: tuple[Method, ...]
    strategy: object
    settings: dict[str, Any]
    file: FitFile
    progress: Progress

    @property
    def n_fits(self) -> int:
        return fits_of_split(self.methods, len(self.settings["epsilons"]), self.settings["n_draws"])

    @property
    def steps_per_split(self) -> int:
        """Steps of a split, as reported to `progress`."""
        return 1 + len(self.query_methods) + self.n_fits

    @property
    def norm(self) -> Norm:
        """That of the noise: Laplace, or Gaussian under δ."""
        return "l2" if self.settings["delta"] else "l1"

    @property
    def query_methods(self) -> list[str]:
        """Keys of the methods whose strategies serve the test records."""
        return [method.key for method in self.methods if method.key in QUERY_METHODS]

    def run_in_process(self, splits: Sequence[tuple[int, int]], parts: list[Found]) -> None:
        """Run the splits in this process; an interrupt ends it, if there is a forest to tell of."""
        try:
            for one in splits:
                self.run_split(one, parts)
        except KeyboardInterrupt:
            if not parts:
                raise
        finally:
            self.file.save()

    def run_on_cluster(
        self, client: "Client", splits: Sequence[tuple[int, int]], progress: Progress
    ) -> list[Found]:
        if self.settings["noise"] != "research":
            raise ValueError(
                f"noise={self.settings['noise']!r} with client: expected 'research', for noise of "
                f"a release is drawn in this process only. Leave client out."
            )
        parts: list[Found] = []
        for found in run_tasks(self.run_split, splits, client=client):
            parts.append(found)
            progress("splits", len(parts), len(splits))
        return parts

    def run_split(self, numbered: tuple[int, int], parts: list[Found] | None = None) -> Found:
        """Grow one forest, choose its strategy, and score every method on one split.

        The split is given by its number and its seed; `parts` takes it as soon as it has a forest.
        """
        split, seed = numbered
        total = self.steps_per_split * self.settings["n_splits"]
        done = split * self.steps_per_split
        self.progress(f"split {split + 1}: selecting a strategy", done, total)
        forest = self.trees.grow(self.domain, random_state=seed)
        strategy = self._strategy_of_leaves(path_matrix(forest), seed)
        scores: list[Score] = []
        if parts is not None:
            parts.append((forest, strategy, scores))
        halves = train_test_split(
            self.dataset.codes,
            self.dataset.labels,
            test_size=self.settings["test_size"],
            random_state=seed % 2**31,
        )
        base = Setting(
            domain=self.domain,
            forest=forest,
            strategies={"matrix": strategy, **self._strategies_of_levels(forest)},
            epsilon=1.0,
            delta=self.settings["delta"],
            voting=self.settings["voting"],
            neighboring=self.settings["neighboring"],
            noise=self.settings["noise"],
            noise_state=None,
            seed=seed,
            given=self.dataset.domain,
            n_records=len(halves[0]),
        )
        for key in self.query_methods:
            done += 1
            self.progress(f"split {split + 1}: selecting a strategy for {key}", done, total)
            found = self._strategy_of_queries(key, base, halves[1])
            base = replace(base, strategies={**base.strategies, key: found})
        for step, (method, epsilon, draw) in enumerate(self._fits(), start=1):
            self.progress(f"split {split + 1}: {method.label}", done + step, total)
            score = self.file.get(method.key, epsilon, split, draw)
            if score is None:
                figures = _figures(method, self._setting(base, epsilon, draw), halves)
                score = Score(method.key, epsilon, split, draw, **figures)
                self.file.add(score)
            scores.append(score)
        return forest, strategy, scores

    def _strategy_of_leaves(self, workload: RowKronecker, seed: int) -> Strategy:
        if not _is_method(self.strategy):
            given = self.strategy
            matrix = given.matrix if isinstance(given, Strategy) else given
            return evaluate(workload, matrix, norm=self.norm)
        limit = self.settings["time_limit"]
        return select(
            workload, self.norm, method=self.strategy, random_state=seed, time_limit=limit
        )

    def _strategies_of_levels(self, forest: Forest) -> dict[str, Strategy]:
        asked = [one.key for one in self.methods if one in LEVEL_METHODS]
        return {
            key: level_strategy(forest, self.norm, key.removesuffix("_levels")) for key in asked
        }

    def _strategy_of_queries(self, key: str, base: Setting, queries: Codes) -> Strategy:
        """Select for the test records, in a small part of the time: each batch is served once."""
        limit = QUERY_SHARE * self.settings["time_limit"]
        method = self.strategy if _is_method(self.strategy) else "auto"
        model = QUERY_METHODS[key](base).set_params(strategy=method, time_limit=limit)
        chosen: Strategy = model.plan(queries).parts[0].strategy
        return chosen

    def _fits(self) -> Iterator[tuple[Method, float | None, int]]:
        for method in self.methods:
            if not method.spends:
                yield method, None, 0
                continue
            for epsilon in self.settings["epsilons"]:
                for draw in range(self.settings["n_draws"]):
                    yield method, epsilon, draw

    def _setting(self, base: Setting, epsilon: float | None, draw: int) -> Setting:
        """Fill in budget and noise seed of one fit; exact noise has no seed."""
        if epsilon is None:
            return base
        state = None
        if base.noise == "research":
            state = np.random.SeedSequence((base.seed, draw)).generate_state(1)[0]
        return replace(base, epsilon=epsilon, noise_state=None if state is None else int(state))


def fits_of_split(methods: Sequence[Method], n_epsilons: int, n_draws: int) -> int:
    """Return the fits of a split: what spends nothing is fitted once."""
    return sum(n_epsilons * n_draws if method.spends else 1 for method in methods)


def _figures(method: Method, setting: Setting, halves: Sequence[Any]) -> dict[str, Any]:
    """Fit on one half and return every figure of the other; probabilities where there are any."""
    train, test, train_labels, test_labels = halves
    model = method.build(setting).fit(train, train_labels)
    shares = None
    if hasattr(model, "predict_proba"):
        shares = np.zeros((len(test), setting.domain.n_classes))
        shares[:, model.classes_] = model.predict_proba(test)  # a class may not be in the half
    return all_metrics(test_labels, model.predict(test), shares)


def _is_method(strategy: object) -> TypeGuard[str | Family | Sequence[str | Family]]:
    """Tell a way to find a strategy from a strategy."""
    return isinstance(strategy, str | Family)
