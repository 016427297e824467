"""Every classifier of the front door keeps scikit-learn's conventions; exceptions have reasons."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from mrf_matrix import Attribute, Domain, estimators

INFINITE = float("inf")
NOT_PICKLED = "it holds the records for later predictions, and so refuses to be pickled"
EXCEPTIONS = {
    "BatchPredictionClassifier": {
        "check_estimators_pickle": NOT_PICKLED,
    },
    "SubsampleAggregateClassifier": {
        "check_estimators_pickle": NOT_PICKLED,
    },
}
"""Checks that a classifier fails by design, and why."""

FAST = {
    "domain": "from_data", "epsilon": INFINITE, "noise": "research", "noise_state": 0,
    "random_state": 0, "n_trees": 3, "max_depth": 2, "strategy": "identity", "time_limit": 0.2,
    "n_clients": 1,
}  # fmt: skip
"""Small and without noise: the checks ask for accuracy, and for the same answers twice."""

CLASSIFIERS = [
    name
    for name in estimators.__all__
    if name.endswith("Classifier") and not name.startswith("Released")
]


def made(name, **changes):
    classifier = getattr(estimators, name)()
    known = classifier.get_params()
    return classifier.set_params(**{k: v for k, v in (FAST | changes).items() if k in known})


SECONDS_EACH = {"ResidualForestClassifier", "PooledForestClassifier", "LabelTreeClassifier"}
VARIANTS = [
    ("BatchPredictionClassifier", {"keep_records_in_pickle": True}),
    ("SubsampleAggregateClassifier", {"keep_records_in_pickle": True, "voting": "hard"}),
    ("FederatedForestClassifier", {"mode": "collaborative", "n_clients": 2}),
    ("FederatedForestClassifier", {"mode": "ncff", "n_clients": 2}),
]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(pytest.param(n, {}, marks=[pytest.mark.slow] * (n in SECONDS_EACH)) for n in CLASSIFIERS),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in VARIANTS),
    ],
)
def test_every_classifier_keeps_the_conventions(name, changes):
    exceptions = {} if "keep_records_in_pickle" in changes else EXCEPTIONS.get(name, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(
            made(name, **changes), expected_failed_checks=exceptions, on_fail=None
        )
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert not failed
    excused = {one["check_name"] for one in found if one["status"] == "xfail"}
    assert excused == set(exceptions)


ALONE = Domain(
    [Attribute("a", size=3), Attribute("b", size=2)], target=Attribute("y", categories=["only"])
)


@pytest.mark.parametrize("epsilon", [1, INFINITE])
@pytest.mark.parametrize(
    ("name", "changes"),
    [*((name, {}) for name in CLASSIFIERS), ("PooledForestClassifier", {"beside": "additive"})],
)
@pytest.mark.filterwarnings("ignore::mrf_matrix.mechanisms.BudgetWarning")
def test_a_domain_of_one_class_is_answered_with_it(name, changes, epsilon):
    X = np.column_stack([np.arange(30) % 3, np.arange(30) % 2])
    model = made(name, domain=ALONE, epsilon=epsilon, n_queries=30, **changes)
    model.fit(X, ["only"] * 30)
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_allclose(model.predict_proba(X), np.ones((30, 1)))
