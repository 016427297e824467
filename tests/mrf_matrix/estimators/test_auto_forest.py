"""max_depth="auto": one measurement, everything else chosen from it, charged once."""

import pickle

import numpy as np
import pytest

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PureDP,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.estimators.auto_forest import cells_with_totals
from strategies.operators import MemoryCapError, memory_cap

INFINITE = float("inf")
MONKS = load_dataset("monks_1")


def auto(**changes):
    settings = {"max_depth": "auto", "n_trees": 16, "random_state": 0}
    return MatrixForestClassifier(MONKS.domain, **(settings | changes))


def test_depth_voting_and_shrinkage_come_from_the_release():
    model = auto(epsilon=2.0, noise="research", noise_state=0).fit(MONKS.X, MONKS.y)
    assert model.chosen_depth_ == model.choice_.depth == model.forest_.max_depth
    assert model.voting_and_shrinkage() == (model.choice_.voting, model.choice_.shrinkage)
    shares = model.predict_proba(MONKS.X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(MONKS.X))
    assert model.release_.sensitivity == model.release_.mechanism.rounded.sensitivity
    assert model.privacy_report_.expected_rms_per_leaf == pytest.approx(
        np.sqrt(model.leaf_variances_.mean()), rel=1e-3
    )


def test_the_ledger_is_charged_once():
    ledger = PrivacyLedger(PureDP(1))
    auto(epsilon=0.6, ledger=ledger).fit(MONKS.X, MONKS.y)
    assert len(ledger.charges) == 1
    with pytest.raises(ValueError, match=r"budget|ledger"):
        auto(epsilon=0.6, ledger=ledger).fit(MONKS.X, MONKS.y)
    assert len(ledger.charges) == 1


@pytest.mark.parametrize("name", ["car", "balance_scale"])
def test_without_noise_it_reaches_the_best_fixed_depth(name):
    """Within a standard error or so, on records that were not trained on."""
    data = load_dataset(name)
    domain = Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes)
    order = np.random.default_rng(1).permutation(len(data.codes))
    train, test = order[len(order) // 4 :], order[: len(order) // 4]

    def score(**settings):
        model = MatrixForestClassifier(
            domain, epsilon=INFINITE, n_trees=16, random_state=0, **settings
        ).fit(data.codes[train], data.labels[train])
        return model.score(data.codes[test], data.labels[test])

    depths = range(1, min(5, domain.n_attributes) + 1)
    fixed = [
        score(max_depth=depth, strategy="identity", voting=voting)
        for depth in depths
        for voting in ("hard", "weight")
    ]
    assert score(max_depth="auto") > max(fixed) - 0.04


def test_it_stores_nothing_private_and_is_saved(tmp_path):
    model = auto().fit(MONKS.X, MONKS.y)
    learned = set(vars(model)) - set(model.get_params(deep=False))
    assert learned == {
        "domain_", "classes_", "ensembles_", "privacy_report_", "choice_", "n_features_in_",
        "feature_names_in_",
    }  # fmt: skip
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(MONKS.X), model.predict(MONKS.X))
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(MONKS.X), model.predict_proba(MONKS.X))


def test_fitting_at_a_fixed_depth_forgets_the_choice():
    model = auto().fit(MONKS.X, MONKS.y)
    model.set_params(max_depth=1, strategy="identity").fit(MONKS.X, MONKS.y)
    with pytest.raises(AttributeError, match="nothing was chosen"):
        _ = model.chosen_depth_
    assert model.voting_and_shrinkage() == ("hard", "none")


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"epsilon": None, "rho": 0.5}])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_every_budget_and_relation(budget, neighboring):
    model = auto(**budget, neighboring=neighboring, splits="binary").fit(MONKS.X, MONKS.y)
    assert model.privacy_report_.noise == "exact"
    assert model.release_.neighboring == neighboring
    assert model.predict(MONKS.X).shape == MONKS.y.shape


def test_class_totals_get_their_share():
    assert cells_with_totals(MONKS.domain, 0).shape == (432, 432)
    matrix = cells_with_totals(MONKS.domain, 0.25)
    assert matrix.shape == (433, 432)
    np.testing.assert_allclose(matrix.to_dense().sum(axis=0), 1)
    totals = [
        auto(class_share=share, epsilon=0.1).fit(MONKS.X, MONKS.y).release_ for share in (0, 0.25)
    ]
    everything = np.ones((1, 432))
    without, with_share = (release.row_variances(everything)[0] for release in totals)
    assert with_share < without / 10


@pytest.mark.parametrize(
    "changes",
    [
        {"max_depth": "deep"}, {"class_share": 1.0}, {"class_share": -0.1}, {"class_share": True},
        {"n_ensembles": 2}, {"allocation": "per_tree"}, {"strategy": "p_identity"},
        {"max_features": 2}, {"feature_subsets": [[0]]}, {"budget_shares": [1]}, {"n_trees": 0},
        {"splits": "ternary"},
    ],
)  # fmt: skip
def test_what_would_not_be_used_is_refused_before_anything_is_spent(changes):
    ledger = PrivacyLedger(PureDP(1))
    with pytest.raises(ValueError, match=next(iter(changes))):
        auto(ledger=ledger, **changes).fit(MONKS.X, MONKS.y)
    assert not ledger.charges


def test_a_domain_too_large_to_enumerate_is_refused_before_anything_is_spent():
    ledger = PrivacyLedger(PureDP(1))
    with pytest.raises(MemoryCapError), memory_cap(5000):
        auto(ledger=ledger).fit(MONKS.X, MONKS.y)
    assert not ledger.charges


def test_domains_that_cannot_be_densified_are_served_by_structure():
    """19683 cells with class totals: no array of cells squared."""
    data = load_dataset("tic_tac_toe")
    model = MatrixForestClassifier(data.domain, max_depth="auto", n_trees=2, random_state=0)
    with memory_cap(2**24):
        model.fit(data.X, data.y)
    assert model.release_.matrix.shape[1] == 3**9
    assert model.predict(data.X).shape == data.y.shape
