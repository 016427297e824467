"""Several ensembles in training: subsets, shares, votes that add up, one charge a fit."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, Provenance, RandomTrees
from mrf_matrix.forests import LearnedStructureError
from mrf_matrix.forests.ensembles import EnsembleDesign
from mrf_matrix.mechanisms import BudgetError, PrivacyLedger, PureDP
from mrf_matrix.voting import forest_votes, leaf_votes

INFINITE = float("inf")
DOMAIN = Domain.from_sizes([3, 2, 4, 2, 3], n_classes=3)


@pytest.fixture(scope="module")
def records():
    generator = np.random.default_rng(5)
    codes = np.stack([generator.integers(size, size=80) for size in DOMAIN.sizes], axis=1)
    return codes.astype(np.int32), generator.integers(3, size=80)


def forest(**changes):
    parameters = {
        "n_trees": 10,
        "max_depth": 2,
        "strategy": "identity",
        "noise": "research",
        "noise_state": 0,
        "random_state": 0,
    }
    return MatrixForestClassifier(DOMAIN, **(parameters | changes))


@pytest.mark.parametrize("allocation", ["matrix", "per_tree", "disjoint"])
@pytest.mark.parametrize("voting", ["hard", "weight"])
def test_votes_of_ensembles_add_up(records, allocation, voting):
    model = forest(n_ensembles=3, max_features=3, allocation=allocation, voting=voting)
    model.fit(*records)
    assert [one.forest.n_trees for one in model.ensembles_] == [4, 3, 3]
    expected = sum(
        forest_votes(
            one.forest,
            np.ascontiguousarray(records[0][:, one.features]),
            leaf_votes(one.leaf_values, voting),
        )
        for one in model.ensembles_
    )
    np.testing.assert_array_equal(model._votes(records[0]), expected)


def test_each_ensemble_has_its_own_attributes_and_share(records):
    shares = [1, 1, 2]
    model = forest(n_ensembles=3, max_features=3, budget_shares=shares, epsilon=1).fit(*records)
    assert all(len(one.features) == 3 for one in model.ensembles_)
    assert len({one.features for one in model.ensembles_}) > 1
    budgets = [one.release.budget for one in model.ensembles_]
    assert budgets == [PureDP(Fraction(1, 4)), PureDP(Fraction(1, 4)), PureDP(Fraction(1, 2))]
    report = model.privacy_report_
    assert report.budget == "PureDP(epsilon=1)"
    assert len(report.measurements) == 3
    assert report.to_dict()["measurements"][2]["budget"] == "PureDP(epsilon=0.5)"


def test_attributes_by_hand_by_name_or_position(records):
    model = forest(feature_subsets=[["x4", 0], [1, 2, -2]]).fit(*records)
    assert [one.features for one in model.ensembles_] == [(4, 0), (1, 2, 3)]
    assert model.ensembles_[0].forest.domain.names == ("x4", "x0")


def test_an_infinite_budget_counts_exactly_in_every_ensemble(records):
    codes, labels = records
    model = forest(n_ensembles=2, max_features=2, epsilon=INFINITE, noise_state=None)
    for one in model.fit(codes, labels).ensembles_:
        leaves = one.forest.apply(np.ascontiguousarray(codes[:, one.features]))
        counts = np.zeros((one.forest.n_leaves, 3))
        for column in leaves.T:
            np.add.at(counts, (column, labels), 1)
        np.testing.assert_array_equal(one.leaf_values, counts)


def test_attributes_of_several_ensembles_are_asked_for_one_by_one(records):
    model = forest(n_ensembles=2, max_features=2).fit(*records)
    for name in ("forest_", "strategy_", "release_", "leaf_values_"):
        with pytest.raises(AttributeError, match="ensembles_"):
            getattr(model, name)
        assert getattr(forest().fit(*records), name) is not None


def test_forests_may_be_given_one_for_each(records):
    parts = [DOMAIN.select([0, 1]), DOMAIN.select([2, 3, 4])]
    forests = [RandomTrees(3, 2).grow(part, random_state=i) for i, part in enumerate(parts)]
    model = forest(forest=forests, feature_subsets=[[0, 1], [2, 3, 4]]).fit(*records)
    assert [one.forest for one in model.ensembles_] == forests
    grown = forest(forest=RandomTrees(2, 1), n_ensembles=2, max_features=2).fit(*records)
    assert [one.forest.n_trees for one in grown.ensembles_] == [2, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"forest": [RandomTrees(2, 1)] * 3, "n_ensembles": 2}, "3 for 2 ensembles"),
        ({"strategy": ["identity"] * 3, "n_ensembles": 2}, "3 for 2 ensembles"),
        ({"n_ensembles": True}, "n_ensembles=True"),
        ({"max_features": 0}, "max_features=0"),
        ({"feature_subsets": "x0"}, "feature_subsets='x0'"),
        ({"feature_subsets": ["x0", "x1"]}, "feature_subsets holds 'x0'"),
        ({"budget_shares": "even"}, "budget_shares='even'"),
        ({"n_ensembles": 2, "budget_shares": [1, 0]}, "share"),
    ],
)
def test_bad_designs_are_named(records, changes, message):
    with pytest.raises(ValueError, match=message):
        forest(**changes).fit(*records)


def test_learned_structures_must_have_been_paid_for(records):
    grown = RandomTrees(2, 2).grow(DOMAIN, random_state=0)
    learned = dataclasses.replace(grown, provenance=Provenance.from_records("forest"))
    with pytest.raises(LearnedStructureError):
        forest(forest=learned).fit(*records)
    forest(forest=learned, epsilon=INFINITE, noise_state=None).fit(*records)
    paid = dataclasses.replace(grown, provenance=Provenance.spent(PureDP(1)))
    assert "structure cost" in forest(forest=paid).fit(*records).privacy_report_.notes[0]


def test_one_charge_a_fit_and_none_after_a_refusal(records):
    ledger = PrivacyLedger(epsilon=1)
    model = forest(ledger=ledger, epsilon=Fraction(1, 3), n_ensembles=2, max_features=2)
    for bad in ({"max_features": 9}, {"strategy": "no_such"}, {"noise": "float"}):
        with pytest.raises(ValueError, match=r".+"):
            forest(ledger=ledger, **bad).fit(*records)
    with pytest.raises(ValueError, match="differ in length"):
        model.fit(records[0], records[1][:-1])
    assert ledger.spent == 0
    for _ in range(3):
        model.fit(*records)
    assert ledger.spent == 1
    with pytest.raises(BudgetError):
        model.fit(*records)
    assert len(ledger.charges) == 3


@pytest.mark.parametrize("allocation", ["matrix", "per_tree", "disjoint"])
@pytest.mark.parametrize("budget", [{"epsilon": 0.6}, {"epsilon": None, "rho": 0.2}])
def test_expected_vote_and_leaf_errors_are_the_simulated(records, allocation, budget):
    """Many classes are many independent noise draws: one fit simulates thousands."""
    draws = 3000
    domain = Domain.from_sizes(DOMAIN.sizes, n_classes=draws)
    sure = {"epsilon": INFINITE, "rho": None, "noise_state": None}
    model = MatrixForestClassifier(
        **forest(
            n_ensembles=2, max_features=3, allocation=allocation, voting="weight", **budget
        ).get_params()
        | {"domain": domain}
    ).fit(*records)
    exact = MatrixForestClassifier(**model.get_params() | sure).fit(*records)
    queries = records[0][:12]
    errors = model._votes(queries) - exact._votes(queries)
    expected = model.expected_vote_error(queries)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(np.sqrt(np.mean(expected**2)), rel=0.03)
    leaves = np.concatenate(
        [
            (one.leaf_values - true.leaf_values).ravel()
            for one, true in zip(model.ensembles_, exact.ensembles_, strict=True)
        ]
    )
    leaf = model.privacy_report_.expected_rms_per_leaf
    assert np.sqrt(np.mean(leaves**2)) == pytest.approx(leaf, rel=0.03)


def test_subsets_differ_between_seeds_and_repeat_with_one():
    design = EnsembleDesign(n_ensembles=4, max_features=2, n_trees=4, max_depth=1)
    features = [
        tuple(one.features for one in design.grow(DOMAIN, np.random.default_rng(seed)))
        for seed in (0, 0, 1)
    ]
    assert features[0] == features[1] != features[2]
