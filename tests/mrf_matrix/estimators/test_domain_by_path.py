"""A domain by the path of its file is as public as the domain itself; "from_data" is not."""

import numpy as np
import pytest

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PosteriorForestClassifier,
    PrivacyLeakWarning,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    ResidualForestClassifier,
    count_stream,
    plan,
    tune,
)
from mrf_matrix.estimators import LabelTreeClassifier, PooledForestClassifier

DOMAIN = Domain.from_sizes([3, 2], n_classes=2)
X, Y = np.array([[0, 1], [1, 0], [2, 1], [0, 0]] * 5), np.array([0, 1, 1, 0] * 5)
KINDS = {
    MatrixForestClassifier: {"n_trees": 2, "max_depth": 1, "strategy": "identity"},
    BatchPredictionClassifier: {"n_trees": 2, "max_depth": 1, "strategy": "identity"},
    PosteriorForestClassifier: {},
    PrivateForestClassifier: {},
    PrivateNaiveBayesClassifier: {},
    ResidualForestClassifier: {},
    LabelTreeClassifier: {},
    PooledForestClassifier: {},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_is_as_public_as_its_domain(kind, tmp_path):
    path = str(tmp_path / "domain.json")
    DOMAIN.save(path)
    for given in (path, tmp_path / "domain.json"):
        model = kind(given, **KINDS[kind]).fit(X, Y)
        model.predict(X)
        assert model.domain_ == DOMAIN
        assert model.privacy_report_.noise == "exact"
        assert model.privacy_report_.statement.startswith("Private release")


def test_under_delta_a_path_takes_the_noise_that_its_domain_takes(tmp_path):
    DOMAIN.save(tmp_path / "domain.json")
    for kind, settings in KINDS.items():
        made = [kind(one, delta=1e-6, **settings) for one in (DOMAIN, tmp_path / "domain.json")]
        first, other = (one._budget for one in made)
        assert first == other, kind


def test_a_federated_plan_is_taken_by_its_domains_path(tmp_path):
    DOMAIN.save(tmp_path / "domain.json")
    settings = {"epsilon": 1, "n_trees": 2, "max_depth": 1, "strategy": "identity"}
    planned = plan(DOMAIN, parties=2, random_state=0, **settings)
    with pytest.raises(ValueError, match="release") as error:  # there is none, and no more is wrong
        MatrixForestClassifier(tmp_path / "domain.json", **settings).fit_release(planned)
    assert "domain of the plan" not in str(error.value)


def test_a_domain_read_off_the_records_claims_nothing():
    with pytest.warns(PrivacyLeakWarning):
        model = PosteriorForestClassifier("from_data").fit(X, Y)
    assert not model.privacy_report_.statement.startswith("Private release")
    with pytest.raises(TypeError, match="expected a Domain or the path"):
        PosteriorForestClassifier("from_nowhere").fit(X, Y)


def test_counts_and_searches_take_a_path(tmp_path):
    path = tmp_path / "domain.json"
    DOMAIN.save(path)
    assert count_stream([(X, Y)], path).counts.sum() == len(Y)
    found = tune(path, epsilon=1, objective="error",
                 space={"max_depth": [1], "n_trees": [2], "strategy": ["identity"]})  # fmt: skip
    assert found.best.leaves > 0
