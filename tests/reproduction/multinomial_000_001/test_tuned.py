"""Nested cross-validation: what is chosen, and how a stopped run goes on."""

import json

import numpy as np
import pytest
from joblib import parallel_config
from multinomial_000_001.ranks import paired_ranks
from multinomial_000_001.tuned_scores import tuned_scores
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.neighbors import KNeighborsClassifier

X, Y = load_iris(return_X_y=True)
FEW = {"n_repeats": 2, "n_folds": 3, "n_inner": 2}
GRID = {"n_neighbors": [1, 45]}


class Stopping(ClassifierMixin, BaseEstimator):
    """Says that it was asked to fit."""

    def __init__(self, level=0):
        self.level = level

    def fit(self, X, y):
        raise RuntimeError("fitted")


def test_the_better_parameter_is_chosen_without_the_fold():
    found = tuned_scores(KNeighborsClassifier(), GRID, X, Y, **FEW)
    assert found.scores.shape == (6,)
    assert found.parameters == [{"n_neighbors": 1}] * 6
    assert found.scores.mean() > 0.9


def test_folds_are_those_of_every_other_classifier():
    with parallel_config(backend="threading", n_jobs=2):
        first = tuned_scores(KNeighborsClassifier(), GRID, X, Y, **FEW).scores
    same = tuned_scores(KNeighborsClassifier(), {"n_neighbors": [1]}, X, Y, **FEW).scores
    np.testing.assert_array_equal(first, same)
    worst = tuned_scores(DummyClassifier(), {"strategy": ["prior"]}, X, Y, **FEW).scores
    ranks = paired_ranks({"iris": {"near": first, "prior": worst}})
    assert ranks.average_ranks.tolist() == [1, 2]


def test_a_stopped_run_goes_on(tmp_path):
    file = tmp_path / "new" / "folds.jsonl"
    whole = tuned_scores(KNeighborsClassifier(), GRID, X, Y, **FEW, kept_in=file)
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 7
    file.write_text("".join(lines[:4]) + lines[4][:7])  # stopped while it wrote the fourth fold
    steps = []
    again = tuned_scores(
        KNeighborsClassifier(),
        GRID,
        X,
        Y,
        **FEW,
        kept_in=file,
        progress=lambda what, done, total: steps.append((done, total)),
    )
    assert steps == [(3, 6), (4, 6), (5, 6)]
    np.testing.assert_array_equal(again.scores, whole.scores)
    assert file.read_text().splitlines(keepends=True) == lines
    one = FEW | {"n_repeats": 1}
    np.testing.assert_array_equal(
        tuned_scores(KNeighborsClassifier(), GRID, X, Y, **one, kept_in=file).scores,
        whole.scores[:3],
    )


def test_what_is_kept_is_not_run_again(tmp_path):
    file = tmp_path / "folds.jsonl"
    with pytest.raises(RuntimeError, match="fitted"):
        tuned_scores(Stopping(), {"level": [0]}, X, Y, **FEW, kept_in=file)
    row = json.dumps({"score": 0.5, "chosen": {"level": 0}}) + "\n"
    file.write_text(file.read_text() + 6 * row)
    found = tuned_scores(Stopping(), {"level": [0]}, X, Y, **FEW, kept_in=file)
    assert found.scores.tolist() == [0.5] * 6


def test_folds_of_other_settings_are_refused(tmp_path):
    file = tmp_path / "folds.jsonl"
    tuned_scores(DummyClassifier(), {"strategy": ["prior"]}, X, Y, **FEW, kept_in=file)
    with pytest.raises(ValueError, match="other settings"):
        tuned_scores(KNeighborsClassifier(), GRID, X, Y, **FEW, kept_in=file)


@pytest.mark.parametrize("content", ["a thesis\nwithout an end of line", "[1]\n[2", "", "x"])
def test_a_file_of_something_else_stays_as_it_is(content, tmp_path):
    file = tmp_path / "thesis.txt"
    file.write_text(content)
    with pytest.raises(ValueError, match="Name another file"):
        tuned_scores(KNeighborsClassifier(), GRID, X, Y, **FEW, kept_in=file)
    assert file.read_text() == content


@pytest.mark.parametrize("name", ["n_repeats", "n_folds", "n_inner"])
def test_numbers_are_checked(name):
    with pytest.raises(ValueError, match=f"{name}=0"):
        tuned_scores(KNeighborsClassifier(), GRID, X, Y, **FEW | {name: 0})
