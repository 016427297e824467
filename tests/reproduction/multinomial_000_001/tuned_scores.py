"""Accuracy of a classifier whose parameters are searched within every training fold."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    RepeatedStratifiedKFold,
    StratifiedKFold,
)

from mrf_matrix.base import whole_file
from mrf_matrix.base.arrays import AnyInts, Array, Values
from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.fields import parse_json
from mrf_matrix.base.files import content_of
from mrf_matrix.base.work import run_tasks
from mrf_matrix.domain.columns import plain_array
from mrf_matrix.study.splits import Progress

MAX_BYTES = 256 * 1024**2
Grid = Mapping[str, Sequence[object]] | Sequence[Mapping[str, Sequence[object]]]
Fold = tuple[AnyInts, AnyInts]


@dataclass(frozen=True, eq=False)
class TunedScores:
    """Every fold's score, and the parameters that its own inner search chose.

    Attributes
    ----------
    scores : ndarray of shape (n_repeats * n_folds,)
        Accuracy on the fold, in order: folds of a repeat are next to each other.
    parameters : list of dict
        Chosen without looking at the fold.
    """

    scores: Array
    parameters: list[dict[str, Any]]


def tuned_scores(
    classifier: ClassifierMixin,
    grid: Grid,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_repeats: int = 10,
    n_folds: int = 10,
    n_inner: int = 5,
    random_state: int = 0,
    kept_in: "str | PathLike[str] | None" = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> TunedScores:
    """Return scores of nested cross-validation: a search inside of every training fold.

    It costs ``n_repeats * n_folds * (n_inner * size of the grid + 1)`` fits; a grid of one setting
    is not searched. Not private: the records choose. Folds depend on `random_state` alone, so
    scores of several classifiers are paired, as `paired_ranks` wants them.

    Parameters
    ----------
    classifier : scikit-learn classifier
    grid : mapping of parameter to values, or a list of them
        As of scikit-learn's `GridSearchCV`.
    X : array of shape (N, d)
    y : array of shape (N,)
    n_repeats, n_folds, n_inner : int
        Repeats of the outer folds, outer folds and inner folds; all are stratified.
    random_state : int
        Seed of the folds.
    kept_in : path, optional
        A file of one JSON line a fold. Those that it holds are not run again, so that a stopped
        run goes on, and more repeats add to fewer.
    n_jobs : int, optional
        Processes; a fold is a task.
    progress : callable, optional
        Called as ``progress("fold", done, total)`` before every fold.

    Raises
    ------
    ValueError
        If a number is out of range, or the file is of other settings.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from rivals.classifiers import BreimanForestClassifier
    >>> found = tuned_scores(
    ...     BreimanForestClassifier(n_trees=5, random_state=0),
    ...     {"min_points": [2, 40]},
    ...     *load_iris(return_X_y=True),
    ...     n_repeats=1,
    ...     n_folds=3,
    ...     n_inner=2,
    ... )
    >>> found.scores.shape, found.parameters[0]["min_points"] in (2, 40)
    ((3,), True)
    """
    records, classes = plain_array("X", X), plain_array("y", y)
    folds = whole_number("n_folds", n_folds, 2)
    inner = whole_number("n_inner", n_inner, 2)
    total = whole_number("n_repeats", n_repeats) * folds
    settings = {
        "classifier": repr(classifier),
        "grid": json.loads(json.dumps(grid)),
        "n_folds": folds,
        "n_inner": inner,
        "random_state": random_state,
        "n_records": len(classes),
    }
    file = None if kept_in is None else Path(kept_in)
    rows = _kept_rows(file, settings)[:total]
    work = partial(_searched, classifier, grid, inner, random_state, records, classes)
    drawn = _outer_folds(records, classes, folds, n_repeats, random_state)
    for row in run_tasks(work, islice(drawn, len(rows), None), n_jobs=n_jobs):
        if progress is not None:
            progress("fold", len(rows), total)
        rows.append(row)
        if file is not None:
            with file.open("a") as opened:
                opened.write(json.dumps(row) + "\n")
    return TunedScores(np.array([row["score"] for row in rows]), [row["chosen"] for row in rows])


def _outer_folds(
    X: Values, y: Values, n_folds: int, n_repeats: int, random_state: int
) -> Iterator[Fold]:
    """Yield the outer folds; classes of fewer records than folds are in some of them only."""
    splitter = RepeatedStratifiedKFold(
        n_splits=n_folds, n_repeats=n_repeats, random_state=random_state
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        yield from splitter.split(X, y)


def _searched(
    classifier: ClassifierMixin,
    grid: Grid,
    n_inner: int,
    random_state: int,
    X: Values,
    y: Values,
    fold: Fold,
) -> dict[str, Any]:
    """Search on the training part of a fold, fit there, and score on the rest."""
    train, test = fold
    settings = list(ParameterGrid(grid))
    if len(settings) == 1:
        only = clone(classifier).set_params(**settings[0]).fit(X[train], y[train])
        return {"score": float(np.mean(only.predict(X[test]) == y[test])), "chosen": settings[0]}
    inner = StratifiedKFold(n_inner, shuffle=True, random_state=random_state)
    search = GridSearchCV(
        clone(classifier), grid, cv=inner, scoring="accuracy", error_score="raise"
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        search.fit(X[train], y[train])
    right = search.predict(X[test]) == y[test]
    return {"score": float(np.mean(right)), "chosen": search.best_params_}


def _kept_rows(file: Path | None, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the folds that a file holds; begin it where there is none.

    A last line that was not written to its end is dropped; a file of something else stays as it is.
    """
    if file is None:
        return []
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as begun:
            begun.write(json.dumps(settings).encode() + b"\n")
        return []
    text = content_of(file, MAX_BYTES)
    whole = text[: text.rfind(b"\n") + 1]
    try:
        lines: list[Any] = [parse_json(line, finite=False) for line in whole.splitlines()]
    except ValueError:
        lines = []
    head, rows = (lines[0], lines[1:]) if lines else (None, [])
    if head != settings:
        raise ValueError(
            f"kept_in={str(file)!r} holds no folds, or those of other settings: expected those of "
            f"this call. Name another file."
        )
    if whole != text:
        with whole_file(file) as mended:
            mended.write(whole)
    return rows
