"""The file of a tree beside residuals: predicts to the last bit, and holds what fits together."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mrf_matrix import Domain, PrivateForestClassifier, load_model, save_model
from mrf_matrix.estimators import PooledForestClassifier
from mrf_matrix.study import importance

SIZES = (3, 2, 4, 2, 3)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
GENERATOR = np.random.default_rng(0)
N = 600
X = GENERATOR.integers(0, SIZES, size=(N, 5))
Y = (GENERATOR.random(N) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)
BUDGETS = [
    {},
    {"epsilon": 8},  # the tree has less than half
    {"rho": 0.5},
    {"epsilon": 2, "delta": 1e-6},
    {"epsilon": 2, "neighboring": "replace_one"},
    {"n_records": None},
]


def pooled(**changes):
    usual = {"n_records": N, "random_state": 0, "beside": "additive"}
    return PooledForestClassifier(DOMAIN, **usual | changes)


@pytest.mark.parametrize("changes", BUDGETS, ids=str)
def test_a_loaded_forest_predicts_identically(tmp_path, changes):
    model = pooled(**changes).fit(X, Y)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert_array_equal(loaded.vote_intervals(X), model.vote_intervals(X))
    assert loaded.privacy_report_ == model.privacy_report_
    assert importance(loaded) == importance(model)
    assert loaded.plan_.tables == model.plan_.tables
    save_model(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_inside_of_a_private_forest_it_is_read_too(tmp_path):
    wide, n = Domain.from_sizes([4] * 12, n_classes=2), 4000
    codes, classes = GENERATOR.integers(0, 4, size=(n, 12)), GENERATOR.integers(0, 2, size=n)
    model = PrivateForestClassifier(wide, epsilon=1, n_records=n, random_state=0)
    save_model(model.fit(codes, classes), tmp_path / "m")
    assert model.plan_.measured == "additive pool"
    loaded = load_model(tmp_path / "m")
    assert_array_equal(loaded.predict_proba(codes), model.predict_proba(codes))
    assert loaded.privacy_report_ == model.privacy_report_
