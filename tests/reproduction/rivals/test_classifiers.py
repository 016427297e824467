"""Classifiers that papers compare with: what they learn, and what they state."""

import warnings

import numpy as np
import pytest
from rivals.classifiers import (
    BernoulliForestClassifier,
    BreimanForestClassifier,
    ComparisonForestClassifier,
    DenilForestClassifier,
    ObliqueForestClassifier,
)
from rivals.smooth_sensitivity_forest import SmoothSensitivityForestClassifier
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms import BudgetError, PrivacyLedger

PUBLIC = [
    BreimanForestClassifier(n_trees=30, random_state=0),
    BreimanForestClassifier(n_trees=30, variant="SE", random_state=0),
    BreimanForestClassifier(n_trees=30, variant="M", random_state=0),
    DenilForestClassifier(n_trees=30, random_state=0),
    BernoulliForestClassifier(n_trees=30, random_state=0),
    ComparisonForestClassifier(n_trees=30, random_state=0),
    ComparisonForestClassifier(n_trees=30, supervised=True, random_state=0),
    ObliqueForestClassifier(n_trees=30, random_state=0),
    ObliqueForestClassifier(n_trees=30, split="mpsvm_p", random_state=0),
]


@pytest.fixture(scope="module")
def coded():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 900) for size in (3, 4, 2)], axis=1)
    domain = Domain.from_sizes((3, 4, 2), 2)
    return domain, codes, (codes[:, 0] * 2 + codes[:, 1] > 3).astype(int)


@pytest.mark.parametrize("classifier", PUBLIC, ids=repr)
def test_iris_is_learned_from_raw_values(classifier):
    X, y = load_iris(return_X_y=True)
    forest = clone(classifier).fit(X[::2], y[::2])
    assert forest.score(X[1::2], y[1::2]) > 0.88
    shares = forest.predict_proba(X[1::2])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    scores = forest.tree_scores(X[1::2], y[1::2])
    assert scores.mean() == pytest.approx(shares[np.arange(75), y[1::2]].mean())
    again = clone(classifier).fit(X[::2], y[::2])
    np.testing.assert_array_equal(again.predict(X), forest.predict(X))


def test_scikit_learn_accepts_forests_of_comparisons():
    forest = ComparisonForestClassifier(n_trees=10, supervised=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(forest, on_fail=None)
    assert not [one["check_name"] for one in found if one["status"] == "failed"]


@pytest.mark.parametrize("rule", ["smooth", "count"])
def test_smooth_sensitivity_forest(coded, rule):
    domain, codes, y = coded
    forest = SmoothSensitivityForestClassifier(
        domain, epsilon=4, n_trees=5, max_depth=3, label_rule=rule, random_state=0
    ).fit(codes, y)
    assert forest.score(codes, y) > 0.7
    assert ("NOT PRIVATE" in forest.statement_) == (rule == "smooth")


def test_labels_by_counts_are_charged_once_and_labels_by_smooth_sensitivity_never(coded):
    domain, codes, y = coded
    ledger = PrivacyLedger(epsilon=1)
    given = {"epsilon": 0.75, "n_trees": 2, "max_depth": 2, "ledger": ledger}
    SmoothSensitivityForestClassifier(domain, label_rule="count", **given).fit(codes, y)
    assert ledger.spent == 0.75
    with pytest.raises(BudgetError, match="remains"):
        SmoothSensitivityForestClassifier(domain, label_rule="count", **given).fit(codes, y)
    with pytest.raises(ValueError, match=r"ledger was given, but label_rule='smooth' is not"):
        SmoothSensitivityForestClassifier(domain, ledger=ledger).fit(codes, y)
    wrong = given | {"epsilon": 10**9, "ledger": PrivacyLedger(epsilon=10**12)}
    with pytest.raises(ValueError, match="rate="):
        SmoothSensitivityForestClassifier(domain, label_rule="count", **wrong).fit(codes, y)
    with pytest.raises(BudgetError, match=r"delta=1e-06: expected 0.* one choice a record"):
        SmoothSensitivityForestClassifier(domain, delta=1e-6).fit(codes, y)
    with pytest.raises(ValueError, match="label_rule='odd'"):
        SmoothSensitivityForestClassifier(domain, label_rule="odd").fit(codes, y)
