"""Records of the papers' sets, and the folds of ten times ten-fold cross-validation."""

import warnings
from collections.abc import Iterator
from itertools import islice

import numpy as np
from data_sets import as_numbers
from item import Run
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import RepeatedStratifiedKFold

from mrf_matrix import load_dataset

OWN = {"car": "car", "nursery": "nursery", "tic_tac_toe": "tic_tac_toe"}
BUNDLED = {"wdbc": load_breast_cancer, "wine": load_wine, "digits": load_digits}
FOLDS = 100
"""Of ten times ten-fold cross-validation: a whole run."""

MOST = 2_000
"""Records of a set that runs of fewer repeats take: of larger ones a stratified part."""

PARTLY = "Runs of fewer repeats than a whole one take a stratified part of 2 000 of larger sets."

Fold = tuple[np.ndarray, np.ndarray]


def raw_records(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return records (texts as texts) and classes, from the library where it has them."""
    if name in BUNDLED:
        return BUNDLED[name](return_X_y=True)
    if name in OWN:
        data = load_dataset(OWN[name])
        return data.array(), data.labels
    mixed, _, classes = as_numbers(name)
    return mixed, classes


def numeric_records(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return records as numbers, and classes."""
    if name in OWN:
        data = load_dataset(OWN[name])
        return data.codes.astype(float), data.labels
    if name in BUNDLED:
        return raw_records(name)
    _, table, classes = as_numbers(name)
    return table, classes


def in_reach(
    X: np.ndarray, y: np.ndarray, run: Run, whole: int = FOLDS, most: int = MOST
) -> tuple[np.ndarray, np.ndarray]:
    """Return the records, or in runs of fewer repeats a part with every class in its share."""
    if len(y) <= most or run.repeats >= whole:
        return X, y
    order = np.random.default_rng(0).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    kept = np.sort(order[np.linspace(0, len(y) - 1, most).astype(int)])
    return X[kept], y[kept]


def folds(y: np.ndarray, run: Run) -> Iterator[Fold]:
    """Yield the first `run.repeats` folds of ten times ten, the same for every method."""
    splitter = RepeatedStratifiedKFold(n_splits=10, n_repeats=10, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        yield from islice(splitter.split(np.zeros(len(y)), y), run.repeats)


def fold_scores(model: ClassifierMixin, X: np.ndarray, y: np.ndarray, run: Run) -> list[float]:
    """Return a model's accuracies in per cent on those folds."""
    return [
        100 * model.fit(X[train], y[train]).score(X[test], y[test]) for train, test in folds(y, run)
    ]
