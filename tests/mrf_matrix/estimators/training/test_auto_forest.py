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
from mrf_matrix.choosing import forest_contest
from mrf_matrix.compilation import path_matrix
from mrf_matrix.estimators import from_release
from mrf_matrix.estimators.training import auto_forest
from mrf_matrix.mechanisms import ZCDP, reconstruct, row_variances
from mrf_matrix.planning.blocks.automatic_tables import Measured, planned_tables
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.voting import leaf_noise
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
    assert model.release_.sensitivity == pytest.approx(1)  # each cell once, in records
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
        "feature_names_in_", "_claim_record", "plan_",
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


EVERYTHING = tuple(range(6))


@pytest.mark.parametrize("blocks", [(EVERYTHING,), tuple((i,) for i in EVERYTHING)])
def test_class_totals_get_their_share(blocks):
    """Of epsilon as L1 weights, of rho as squares of L2 weights."""
    assert Measured((EVERYTHING,), 0).matrix(MONKS.domain, PureDP(1)).shape == (432, 432)
    for budget, power in ((PureDP(1), 1), (ZCDP(1), 2)):
        columns = Measured(blocks, 0.25).matrix(MONKS.domain, budget).to_dense() ** power
        np.testing.assert_allclose(columns.sum(axis=0), 1)
        np.testing.assert_allclose(columns[-1], 0.25)  # the class totals come last


def test_class_totals_are_told_by_their_share():
    totals = [
        auto(class_share=share, epsilon=0.1, strategy="identity", n_trees=2)
        .fit(MONKS.X, MONKS.y)
        .release_
        for share in (0, 0.25)
    ]
    everything = np.ones((1, 432))
    without, with_share = (row_variances(release, everything)[0] for release in totals)
    assert with_share < without / 10


def planned(epsilon, domain=MONKS.domain, **changes):
    settings = {
        "neighboring": "add_remove", "n_records": None, "class_share": 0.1, "strategy": "auto",
        "n_trees": 80,
    }  # fmt: skip
    return planned_tables(domain, PureDP(epsilon), **(settings | changes))


def test_tables_are_measured_where_cells_would_drown_and_the_records_have_no_say():
    assert not planned(0.1).are_cells
    assert planned(8).are_cells
    assert planned(INFINITE).are_cells
    assert planned(0.1, strategy="identity").are_cells
    assert planned(0.5, n_records=10**6).are_cells
    assert not planned(0.5, n_records=300).are_cells
    shapes = {
        auto(epsilon=0.1).fit(MONKS.X[:rows], MONKS.y[:rows]).release_.matrix.shape
        for rows in (5, 432)
    }
    assert shapes == {(1 + sum(MONKS.domain.sizes), 432)}
    with memory_cap(432 * 8 * 100):
        for epsilon in (8, INFINITE):  # the leaves of all cells in 80 trees would not fit
            assert not planned(epsilon).are_cells
    one = Domain.from_sizes([1, 1, 5], n_classes=2)
    assert planned(0.01, one).are_cells  # its only table is that of the cells


def test_tables_of_single_attributes_make_naive_bayes():
    """At a small budget: one tree an attribute, far better than cells, and said to be planned."""
    data, scores = load_dataset("car"), []
    domain = Domain.from_sizes(data.domain.sizes, n_classes=4)
    for strategy in ("auto", "identity"):
        model = MatrixForestClassifier(
            domain, epsilon=0.5, max_depth="auto", strategy=strategy, noise="research",
            noise_state=1, n_trees=8, random_state=0, n_records=1700,
        ).fit(data.codes, data.labels)  # fmt: skip
        scores.append(model.score(data.codes, data.labels))
        assert ("tables of 6 attributes" in str(model.privacy_report_)) == (strategy == "auto")
    assert scores[0] > scores[1] + 0.05
    model.set_params(strategy="auto").fit(data.codes, data.labels)
    assert (model.chosen_depth_, model.forest_.n_trees) == (1, 6)
    assert model.voting_and_shrinkage() == ("product", "none")
    assert "planned without data" in repr(model.choice_)
    assert "NOT A PRIVATE RELEASE" in repr(model.choice_)
    again = from_release(model.release_, domain, forest=model.choice_)
    np.testing.assert_array_equal(again.predict(data.codes), model.predict(data.codes))


def test_a_domain_too_large_for_cells_is_served_by_tables(tmp_path):
    domain = Domain.from_sizes([3] * 40, n_classes=2)
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 3, size=(400, 40))
    labels = (codes[:, 0] > 0).astype(int)
    model = MatrixForestClassifier(domain, epsilon=50, max_depth="auto", random_state=0)
    model.fit(codes, labels)
    assert model.score(codes, labels) > 0.9
    save_model(model, tmp_path / "m")
    np.testing.assert_allclose(
        load_model(tmp_path / "m").predict_proba(codes), model.predict_proba(codes), rtol=1e-9
    )
    model.set_params(epsilon=INFINITE).fit(codes, labels)  # no noise is no room for the cells
    assert model.release_.matrix.shape[0] == 1 + 3 * 40
    assert model.score(codes, labels) > 0.9


def refuse(*_, **__):
    raise MemoryCapError("no room")


def test_a_release_that_was_paid_for_is_kept_whatever_fails_after_it(monkeypatch):
    ledger = PrivacyLedger(PureDP(4))
    model = auto(ledger=ledger, strategy="identity", n_trees=2).fit(MONKS.X, MONKS.y)
    before = model.release_
    monkeypatch.setattr(forest_contest.CellRace, "labels", refuse)
    with pytest.raises(MemoryCapError) as caught:
        model.fit(MONKS.X, MONKS.y)
    assert any("from_release" in note for note in caught.value.__notes__)
    monkeypatch.undo()
    assert len(ledger.charges) == 2
    assert model.release_ is not before
    assert not hasattr(model, "ensembles_")  # nothing of the fit before
    assert from_release(model.release_, MONKS.domain, forest=auto_forest.RandomTrees(4, 2))
    model.set_params(max_depth=1).fit(MONKS.X, MONKS.y)
    assert model.release_ is model.ensembles_[0].release


@pytest.mark.parametrize("name", ["part_of_forest", "default_contest"])
def test_public_work_that_fails_costs_nothing(monkeypatch, name):
    ledger = PrivacyLedger(PureDP(1))
    monkeypatch.setattr(auto_forest, name, refuse)
    with pytest.raises(MemoryCapError, match="no room"):
        auto(ledger=ledger).fit(MONKS.X, MONKS.y)
    assert not ledger.charges


def test_noise_and_strategies_are_worked_out_once_and_before_the_measurement(monkeypatch):
    """Nothing public is left to do, or done again, when the records have been measured."""
    model, asked = auto(strategy="identity", n_trees=4), []
    plain = leaf_noise.noise_of_release

    def noting(*given):
        asked.append(hasattr(model, "release_"))
        return plain(*given)

    monkeypatch.setattr("mrf_matrix.choosing.cell_race.noise_of_release", noting)
    monkeypatch.setattr(leaf_noise, "noise_of_release", noting)
    monkeypatch.setattr(PlanPart, "answers", refuse)
    model.fit(MONKS.X, MONKS.y)
    model.set_params(voting="posterior").predict(MONKS.X)
    assert asked == [False] * 5
    monkeypatch.undo()
    trained = model.ensembles_[0]
    training_answers = reconstruct(model.release_, path_matrix(model.forest_))
    np.testing.assert_allclose(trained.leaf_values, training_answers, rtol=1e-9, atol=1e-9)
    plainly = leaf_noise.NoisyLeaves(model.forest_, trained.leaf_values, model.release_)
    np.testing.assert_allclose(trained.leaves.variances, plainly.variances)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_depth": "deep"}, {"class_share": 1.0}, {"class_share": -0.1}, {"class_share": True},
        {"n_ensembles": 2}, {"allocation": "per_tree"}, {"strategy": "p_identity"},
        {"max_features": 2}, {"feature_subsets": [[0]]}, {"budget_shares": [1]}, {"n_trees": 0},
        {"splits": "ternary"}, {"n_records": 0},
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
        auto(ledger=ledger, strategy="identity").fit(MONKS.X, MONKS.y)
    assert not ledger.charges


def test_domains_that_cannot_be_densified_are_served_by_structure():
    """19683 cells with class totals: no array of cells squared."""
    data = load_dataset("tic_tac_toe")
    model = MatrixForestClassifier(
        data.domain, max_depth="auto", n_trees=2, strategy="identity", random_state=0
    )
    with memory_cap(2**24):
        model.fit(data.X, data.y)
    assert model.release_.matrix.shape[1] == 3**9
    assert model.predict(data.X).shape == data.y.shape
