"""What is measured in the rival benchmark: a name, and a factory of classifiers over codes.

A factory takes ``(domain, epsilon, n_records, seed)`` and returns an unfitted classifier of codes;
seeds below ``1000 (s + 1)`` from ``1000 s`` belong to split s, so that forests and strategies can
be made once a split. Add an entry to `OURS` to have a candidate measured beside the rivals.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from rival_worker import DELTA, METHODS
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivateForestClassifier,
)
from mrf_matrix.estimators import PosteriorForestClassifier, ResidualForestClassifier
from mrf_matrix.estimators.private_kinds import PrivateNaiveBayesClassifier

DRAWS_OF_A_SPLIT = 1000
PAPER = {  # trees, depth, ensembles q, attributes d̄ of each: the settings of the M-RF paper
    (4, 4, 4, 3, 3, 3): (128, 4, 1, None),  # Car
    (5, 5, 5, 5): (128, 2, 1, None),  # Balance
    (4, 3, 6, 5): (64, 2, 1, None),  # Iris
    13: (128, 2, 2, 4),  # Heart
    22: (125, 3, 5, 4),  # Mushroom
}
OWN = {12: (125, 3, 5, 4), 36: (128, 4, 5, 8), 123: (128, 4, 10, 10)}  # Adult, Chess, a9a
"""By attribute sizes, or their number. Ours keep an ensemble's cells near a thousand; depth stays
below d̄, since a tree that fixes every attribute only looks its cell up."""
SECONDS = 4.0

Factory = Callable[[Domain, float, int, int], Any]


def design(domain: Domain, seed: int) -> dict[str, Any]:
    """Return the forests of the paper's method on a domain; the seed is that of a fit."""
    known = PAPER | OWN
    default = (128, 4, 1, None)
    trees, depth, count, size = known.get(domain.sizes, known.get(len(domain.sizes), default))
    return {
        "n_trees": trees,
        "max_depth": depth,
        "n_ensembles": count,
        "max_features": size,
        "random_state": seed // DRAWS_OF_A_SPLIT,
        "time_limit": SECONDS / count,
    }


@lru_cache(maxsize=4)
def _trained_strategies(sizes: tuple[int, ...], n_classes: int, split: int) -> list[Any]:
    """Return the strategies of one split's forests; any budget and any records give the same."""
    domain = Domain.from_sizes(sizes, n_classes=n_classes)
    one = np.zeros((1, len(sizes)), dtype=np.int32)
    model = MatrixForestClassifier(
        domain, noise="research", **design(domain, split * DRAWS_OF_A_SPLIT)
    )
    model.fit(one, np.zeros(1, dtype=np.int32))
    return [part.strategy for part in model.ensembles_]


def matrix_training(domain: Domain, epsilon: float, n_records: int, seed: int) -> Any:
    """M-RF, batch training, hard voting as in the paper."""
    strategy = _trained_strategies(domain.sizes, domain.n_classes, seed // DRAWS_OF_A_SPLIT)
    return MatrixForestClassifier(
        domain,
        epsilon=epsilon,
        strategy=strategy,
        noise="research",
        noise_state=seed,
        **design(domain, seed),
    )


class PlannedOnce(ClassifierMixin, BaseEstimator):
    """Batch prediction whose strategies are selected once for the queries of a split."""

    chosen: dict[Any, list[Any]] = {}  # noqa: RUF012 -- shared by the fits of a split, on purpose

    def __init__(self, model: Any = None, seed: int = 0) -> None:
        self.model = model
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> "PlannedOnce":
        self.model.fit(X, y)
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        key = (self.seed // DRAWS_OF_A_SPLIT, X.tobytes())
        if key not in self.chosen:
            self.chosen.clear()
            plan = self.model.plan(X)
            self.chosen[key] = [answering.strategy for answering in plan.parts]
        self.model.set_params(strategy=self.chosen[key])
        return np.asarray(self.model.predict_proba(X))


def batch_prediction(domain: Domain, epsilon: float, n_records: int, seed: int) -> Any:
    """M-RF, batch prediction, weight voting as in the paper."""
    model = BatchPredictionClassifier(
        domain, epsilon=epsilon, noise="research", noise_state=seed, **design(domain, seed)
    )
    return PlannedOnce(model, seed)


def naive_bayes(domain: Domain, epsilon: float, n_records: int, seed: int) -> Any:
    """Private naive Bayes."""
    return PrivateNaiveBayesClassifier(domain, epsilon=epsilon, noise="research", noise_state=seed)


def of_public_size(kind: Any, delta: float = 0.0) -> Factory:
    """Return the factory of a forest that is told the number of records, at (ε, delta)."""

    def made(domain: Domain, epsilon: float, n_records: int, seed: int) -> Any:
        return kind(
            domain,
            epsilon=epsilon,
            delta=delta,
            n_records=n_records,
            noise="research",
            noise_state=seed,
            random_state=seed // DRAWS_OF_A_SPLIT,
        )

    return made


def posterior_forest_of_unknown_size(
    domain: Domain, epsilon: float, n_records: int, seed: int
) -> Any:
    """The posterior forest without the number of records: blocks are chosen for the assumed one."""
    made = of_public_size(PosteriorForestClassifier)(domain, epsilon, n_records, seed)
    return made.set_params(n_records=None)


def majority(domain: Domain, epsilon: float, n_records: int, seed: int) -> Any:
    """The most frequent class, known without noise; its share is its confidence."""
    return DummyClassifier(strategy="prior")


def random_forest(domain: Domain, epsilon: float, n_records: int, seed: int) -> Any:
    """scikit-learn's random forest, no privacy."""
    return RandomForestClassifier(n_estimators=128, random_state=seed)


def extra_trees(domain: Domain, epsilon: float, n_records: int, seed: int) -> Any:
    """scikit-learn's ExtraTrees, no privacy."""
    return ExtraTreesClassifier(n_estimators=128, random_state=seed)


WITHOUT_PRIVACY: dict[str, Factory] = {
    "majority class": majority,
    "random forest, no privacy": random_forest,
    "ExtraTrees, no privacy": extra_trees,
}
OURS: dict[str, Factory] = {
    "private forest": of_public_size(PrivateForestClassifier),
    "residual forest": of_public_size(ResidualForestClassifier),
    "posterior forest": of_public_size(PosteriorForestClassifier),
    "posterior forest, N not public": posterior_forest_of_unknown_size,
    "private naive Bayes": naive_bayes,
    "M-RF training": matrix_training,
    "M-RF prediction": batch_prediction,
    "private forest, δ": of_public_size(PrivateForestClassifier, DELTA),
    "residual forest, δ": of_public_size(ResidualForestClassifier, DELTA),
    "posterior forest, δ": of_public_size(PosteriorForestClassifier, DELTA),
}
"""Pure ε-DP but where a name ends in δ: (ε, `DELTA`)-DP."""
FOREIGN = tuple(METHODS)
"""Run by `rival_worker.py` under the interpreter that has them."""
