"""DP batch training: by hand, several ensembles, one release of many forests, laws and refusals."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

import strategies
from mrf_matrix import (
    ZCDP,
    Domain,
    MatrixForestClassifier,
    Provenance,
    PureDP,
    RandomTrees,
    count_stream,
    expected_error,
    load_dataset,
    load_model,
    measure,
    path_matrix,
    prediction_workload,
    query_matrix,
    reconstruct,
    save_model,
)
from mrf_matrix.compilation import leaf_incidence
from mrf_matrix.error import direct_error
from mrf_matrix.estimators import from_release
from mrf_matrix.forests import LearnedStructureError
from mrf_matrix.mechanisms import row_variances
from mrf_matrix.voting import forest_votes, leaf_votes
from strategies.operators import Identity, RowSpaceError

INFINITE = float("inf")


def research(car, **changes):
    parameters = {
        "n_trees": 16,
        "max_depth": 3,
        "strategy": "identity",
        "noise": "research",
        "noise_state": 0,
        "random_state": 0,
    }
    return MatrixForestClassifier(car.domain, **(parameters | changes))


@pytest.mark.parametrize("kind", ["matrix", "per_tree"])
def test_an_infinite_budget_is_the_forest_without_privacy(car, kind):
    model = research(car, allocation=kind, epsilon=INFINITE, noise_state=None).fit(car.X, car.y)
    leaves = model.forest_.apply(car.codes)
    expected = np.zeros((model.forest_.n_leaves, 4))
    for tree in range(model.forest_.n_trees):
        np.add.at(expected, (leaves[:, tree], car.labels), 1)
    order = np.argsort(car.domain.classes)
    np.testing.assert_array_equal(model.leaf_values_, expected[:, order])
    assert model.privacy_report_.noise == "none"
    assert "NOT A PRIVATE RELEASE" in str(model.privacy_report_)


def test_disjoint_data_uses_each_record_once(car):
    model = research(car, allocation="disjoint", epsilon=INFINITE, noise_state=None)
    assert model.plan().coins
    assert model.fit(car.X, car.y).leaf_values_.sum() == len(car.y)
    assert not model.plan_.coins  # what would tell which tree a record is in stays with the fit


def test_record_order_does_not_matter(car):
    order = np.random.default_rng(0).permutation(len(car.codes))
    straight = research(car).fit(car.X, car.y)
    domain = Domain.from_sizes(car.domain.sizes, n_classes=4)
    shuffled = MatrixForestClassifier(**{**straight.get_params(), "domain": domain}).fit(
        car.codes[order], car.labels[order]
    )
    classes = np.argsort(car.domain.classes)
    np.testing.assert_array_equal(shuffled.leaf_values_[:, classes], straight.leaf_values_)


@pytest.mark.slow
def test_accuracy_on_car_is_what_was_measured_on_the_published_code(car):
    """The published code: .75 at ε=1 and .82 at ε=2; Laplace on every tree .36 and .44."""
    wanted = {("matrix", 1.0): 0.75, ("matrix", 2.0): 0.82, ("per_tree", 1.0): 0.36}
    for (kind, epsilon), expected in wanted.items():
        scores = []
        for seed in range(4):
            train, test, train_y, test_y = train_test_split(
                car.codes, car.labels, test_size=0.2, random_state=seed
            )
            model = MatrixForestClassifier(
                Domain.from_sizes(car.domain.sizes, n_classes=4),
                epsilon=epsilon,
                allocation=kind,
                strategy="identity",
                noise="research",
                noise_state=seed,
                random_state=seed,
            )
            scores.append(model.fit(train, train_y).score(test, test_y))
        assert abs(np.mean(scores) - expected) < 0.06, (kind, epsilon, scores)


def test_a_strategy_for_the_other_norm_is_refused(car):
    fitted = research(car).fit(car.X, car.y)
    with pytest.raises(ValueError, match="norm"):
        research(car, epsilon=None, rho=1, forest=fitted.forest_, strategy=fitted.strategy_).fit(
            car.X, car.y
        )


def test_a_forest_over_another_domain_is_refused(car):
    forest = RandomTrees(n_trees=2, max_depth=1).grow(Domain.from_sizes([2, 2]), random_state=0)
    with pytest.raises(ValueError, match="same domain"):
        research(car, forest=forest).fit(car.X, car.y)


# A line a step ------------------------------------------------------------------------------------


CAR = load_dataset("car")
FOREST = RandomTrees(n_trees=8, max_depth=2).grow(CAR.domain, random_state=0)
PATHS = path_matrix(FOREST)
QUERIES = query_matrix(CAR.codes, CAR.domain)
TABLE = count_stream([(CAR.X, CAR.y)], CAR.domain)
SORTED = np.argsort(CAR.domain.classes)  # classifiers sort their classes
NORMS = {PureDP: "l1", ZCDP: "l2"}


@pytest.mark.parametrize("voting", ["hard", "weight"])
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5), PureDP(float("inf"))], ids=repr)
def test_every_step_is_the_classifier_s(budget, voting):
    A = strategies.select(PATHS, NORMS[type(budget)], method="workload_itself")
    y = measure(A, TABLE, budget, noise="research", random_state=3)
    C = reconstruct(y, PATHS)[:, SORTED]
    V = leaf_incidence(PATHS, QUERIES) @ leaf_votes(C, voting)
    labels = np.sort(CAR.domain.classes)[V.argmax(axis=1)]

    claim = {budget.parameter: budget.exact if not budget.is_infinite else float("inf")}
    model = MatrixForestClassifier(
        CAR.domain, **claim, forest=FOREST, strategy=A, voting=voting,
        noise="research", noise_state=3,
    ).fit(CAR.X, CAR.y)  # fmt: skip
    assert np.array_equal(model.release_.answers, y.answers)
    assert np.array_equal(model.leaf_values_, C)
    assert np.array_equal(model.model_.votes(CAR.codes), V)
    assert np.array_equal(model.predict(CAR.X), labels)
    # integers are measured, so that A itself takes answers back to a millionth of a record
    for found in (A.reconstruction(PATHS) @ y.values, PATHS @ (A.pinv @ y.values)):
        np.testing.assert_allclose(found[:, SORTED], C, atol=1e-4)
    assert budget.is_infinite == (y.noise == "none")
    assert str(y).startswith("NOT A PRIVATE RELEASE")


def test_several_ensembles_are_measured_one_after_the_other():
    model = MatrixForestClassifier(
        CAR.domain, epsilon=1, n_trees=6, max_depth=2, n_ensembles=2, max_features=3,
        strategy="identity", random_state=0, noise="research", noise_state=3,
    ).fit(CAR.X, CAR.y)  # fmt: skip
    stream = np.random.default_rng(3)
    for one in model.ensembles_:
        counts = TABLE.marginal(one.features)
        y = measure(one.strategy, counts, PureDP(0.5), noise="research", random_state=stream)
        leaves = reconstruct(y, path_matrix(one.forest))
        assert np.array_equal(leaves, one.leaf_values)


@pytest.mark.parametrize(
    "W", [PATHS, prediction_workload(PATHS, QUERIES[:20]), Identity(CAR.domain.size)],
    ids=["leaves", "queries", "cells"],
)  # fmt: skip
def test_one_call_gives_the_errors_of_leaves_queries_or_cells(W):
    A = strategies.evaluate(W, Identity(CAR.domain.size))
    known = expected_error(A, W, epsilon=1).row_variances
    y = measure(A, TABLE, PureDP(1), noise="research", random_state=0)
    np.testing.assert_allclose(row_variances(y, W), known)
    np.testing.assert_allclose(A.row_errors(W) * y.variance, known)  # of sensitivity 1
    assert len(known) == W.shape[0]
    assert direct_error(W, epsilon=1).row_variances.shape == known.shape


# Several ensembles --------------------------------------------------------------------------------


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
    design = {"n_ensembles": 4, "max_features": 2, "n_trees": 4, "max_depth": 1}
    features = [
        [part.ensemble.features for part in forest(random_state=seed, **design).plan().parts]
        for seed in (0, 0, 1)
    ]
    assert features[0] == features[1] != features[2]


# One release, many forests ------------------------------------------------------------------------


CELLS = Identity(CAR.domain.size, CAR.domain.sizes)


@pytest.fixture(scope="module")
def eight_trees():
    return MatrixForestClassifier(
        CAR.domain, n_trees=8, max_depth=3, strategy=CELLS, random_state=0
    ).fit(CAR.X, CAR.y)


@pytest.mark.parametrize("voting", ["hard", "weight", "product", "shares", "posterior"])
def test_the_same_forest_predicts_as_the_fitted_one(eight_trees, voting):
    again = from_release(
        eight_trees.release_, CAR.domain, forest=eight_trees.forest_, voting=voting
    )
    other = eight_trees.voted_by(voting)
    np.testing.assert_array_equal(again.predict(CAR.X), other.predict(CAR.X))
    np.testing.assert_allclose(again.predict_proba(CAR.X), other.predict_proba(CAR.X))


def test_other_depths_are_forests_of_their_own(eight_trees):
    """Without noise: the forest that would have been fitted."""
    exact = MatrixForestClassifier(
        CAR.domain, epsilon=float("inf"), n_trees=2, max_depth=1, strategy=CELLS
    ).fit(CAR.X, CAR.y)
    deep = RandomTrees(16, 5).grow(CAR.domain, random_state=3)
    fitted = MatrixForestClassifier(
        CAR.domain, epsilon=float("inf"), forest=deep, strategy=CELLS
    ).fit(CAR.X, CAR.y)
    asked = from_release(exact.release_, CAR.domain, forest=deep, voting="hard")
    np.testing.assert_array_equal(asked.predict(CAR.X), fitted.predict(CAR.X))


def test_depths_vote_together(eight_trees):
    several = [RandomTrees(4, depth).grow(CAR.domain, random_state=depth) for depth in (1, 2, 4)]
    mixed = from_release(eight_trees.release_, CAR.domain, forest=several, voting="weight")
    apart = [
        from_release(eight_trees.release_, CAR.domain, forest=one, voting="weight")._votes(CAR.X)
        for one in several
    ]
    np.testing.assert_allclose(mixed._votes(CAR.X), sum(apart))
    (ensemble,) = mixed.ensembles_
    assert set(ensemble.forest.depth[ensemble.forest.leaves]) == {1, 2, 4}
    for voting in ("product", "shares", "posterior"):
        shares = mixed.voted_by(voting).predict_proba(CAR.X)
        np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_it_is_saved_like_any_other(eight_trees, tmp_path):
    asked = from_release(eight_trees.release_, CAR.domain, forest=RandomTrees(4, 2), random_state=0)
    save_model(asked, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(CAR.X), asked.predict_proba(CAR.X))
    assert loaded.privacy_report_ == asked.privacy_report_


def test_what_the_release_cannot_answer_is_refused(eight_trees):
    stumps = RandomTrees(2, 1).grow(CAR.domain, random_state=0)
    narrow = MatrixForestClassifier(CAR.domain, forest=stumps, allocation="per_tree")
    release = narrow.fit(CAR.X, CAR.y).release_
    with pytest.raises(RowSpaceError):
        from_release(release, CAR.domain, forest=RandomTrees(4, 3), random_state=0)
    other = Domain.from_sizes([2, 2], n_classes=4)
    with pytest.raises(ValueError, match="sizes"):
        from_release(eight_trees.release_, other, forest=RandomTrees(1, 1))
    with pytest.raises(ValueError, match="forest has a domain"):
        from_release(
            eight_trees.release_, CAR.domain, forest=RandomTrees(1, 1).grow(other, random_state=0)
        )
    with pytest.raises(TypeError, match="Release"):
        from_release(eight_trees, CAR.domain, forest=stumps)
    with pytest.raises(TypeError, match="forest="):
        from_release(eight_trees.release_, CAR.domain, forest="deep")
    with pytest.raises(ValueError, match="at least one"):
        from_release(eight_trees.release_, CAR.domain, forest=[])
    with pytest.raises(ValueError, match="domain=None"):
        from_release(eight_trees.release_, forest=stumps)


def test_a_structure_learned_from_records_is_refused(eight_trees):
    from dataclasses import replace

    grown = RandomTrees(1, 1).grow(CAR.domain, random_state=0)
    learned = replace(grown, provenance=Provenance.from_records("forest"))
    with pytest.raises(LearnedStructureError):
        from_release(eight_trees.release_, CAR.domain, forest=learned)
