"""DP batch training: conventions, laws, and refusals before any budget is spent."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from mrf_matrix import Attribute, Domain, MatrixForestClassifier, RandomTrees, load_dataset
from mrf_matrix.base.checks import structure_generator
from mrf_matrix.planning.kinds.kind import one_leaf_each
from mrf_matrix.release import curator

INFINITE = float("inf")


@pytest.fixture(scope="module")
def car():
    return load_dataset("car")


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


@pytest.mark.parametrize("kind", ["matrix", "per_tree", "disjoint"])
@pytest.mark.parametrize("rule", ["hard", "weight"])
def test_every_allocation_and_voting_predicts(car, kind, rule):
    strategy = {"strategy": "identity"} if kind == "matrix" else {}
    model = research(car, allocation=kind, voting=rule, **strategy).fit(car.X, car.y)
    assert set(model.predict(car.X)) <= set(model.classes_)
    shares = model.predict_proba(car.X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(car.X))


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


def test_adding_a_record_moves_no_other_between_trees(car):
    forest = RandomTrees(n_trees=5, max_depth=2).grow(car.domain, random_state=0)
    leaves = [
        one_leaf_each(forest, car.codes[:stop], np.random.default_rng(3)) for stop in (100, 101)
    ]
    np.testing.assert_array_equal(leaves[0], leaves[1][:100])


def test_structure_is_reproducible_and_exact_noise_is_not(car):
    first, second = (
        research(car, noise="exact", noise_state=None).fit(car.X, car.y) for _ in range(2)
    )
    np.testing.assert_array_equal(first.forest_.attribute, second.forest_.attribute)
    assert not np.array_equal(first.leaf_values_, second.leaf_values_)


def test_research_noise_is_reproducible(car):
    first, second = (research(car).fit(car.X, car.y) for _ in range(2))
    np.testing.assert_array_equal(first.leaf_values_, second.leaf_values_)
    other = research(car, noise_state=1).fit(car.X, car.y)
    assert not np.array_equal(first.leaf_values_, other.leaf_values_)


def test_zcdp_uses_gaussian_noise(car):
    model = research(car, epsilon=None, rho=Fraction(1, 2)).fit(car.X, car.y)
    assert model.strategy_.norm == "l2"
    assert "ZCDP" in model.privacy_report_.budget


def test_record_order_does_not_matter(car):
    order = np.random.default_rng(0).permutation(len(car.codes))
    straight = research(car).fit(car.X, car.y)
    domain = Domain.from_sizes(car.domain.sizes, n_classes=4)
    shuffled = MatrixForestClassifier(**{**straight.get_params(), "domain": domain}).fit(
        car.codes[order], car.labels[order]
    )
    classes = np.argsort(car.domain.classes)
    np.testing.assert_array_equal(shuffled.leaf_values_[:, classes], straight.leaf_values_)


def test_accuracy_on_car_is_what_was_measured_on_the_published_code(car):
    """FINDINGS: .75 at ε=1 and .82 at ε=2; Laplace on every tree .36 and .44."""
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


BAD = {
    "epsilon": [0, -1, float("nan"), "1", True],
    "voting": ["soft"],
    "allocation": ["everywhere"],
    "strategy": ["no_such_family"],
    "neighboring": ["bounded"],
    "noise": ["float"],
    "n_trees": [0],
    "max_depth": [-1, 1.5],
    "splits": ["ternary"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_bad_parameters_are_named_before_anything_is_measured(car, name, value, monkeypatch):
    def spent(*args, **kwargs):
        raise AssertionError("the records were measured")

    monkeypatch.setattr(curator, "measure", spent)
    with pytest.raises((ValueError, TypeError)) as refusal:
        research(car, **{name: value}).fit(car.X, car.y)
    assert name in str(refusal.value) or repr(value) in str(refusal.value)


def test_a_missing_domain_is_refused(car):
    with pytest.raises(ValueError, match="domain=None"):
        MatrixForestClassifier().fit(car.X, car.y)
    with pytest.raises(
        TypeError,
        match=r"a Domain or the path of a domain file \(.json\); only fit takes 'from_data' too",
    ):
        MatrixForestClassifier(domain=3).fit(car.X, car.y)
    with pytest.raises(ValueError, match="target"):
        MatrixForestClassifier(Domain.from_sizes([2, 2])).fit([[0, 1]], [0])


def test_bad_records_are_refused(car):
    model = research(car)
    with pytest.raises(ValueError, match="records"):
        model.fit(car.codes[:0], car.y[:0])
    with pytest.raises(ValueError, match="differ in length"):
        model.fit(car.X, car.y[:-1])
    wrong = car.y.copy().astype(object)
    wrong[3] = "excellent"
    with pytest.raises(ValueError, match="not in the categories"):
        model.fit(car.X, wrong)


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


def test_reading_the_domain_off_the_records_warns():
    with pytest.warns(UserWarning, match="domain"):
        MatrixForestClassifier("from_data", n_trees=2, max_depth=1, strategy="identity").fit(
            [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], ["a", "b", "a"]
        )


def test_no_seed_count_or_record_is_stored(car):
    model = research(car, noise="exact", noise_state=None, n_trees=3).fit(car.X, car.y)
    stored = set(vars(clone(model)))  # parameters
    learned = set(vars(model)) - stored
    assert learned == {
        "model_",
        "n_features_in_",
        "feature_names_in_",
    }
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(car.X), model.predict(car.X))


def test_feature_names_are_checked_on_predict():
    pandas = pytest.importorskip("pandas")
    domain = Domain([Attribute("a", size=2), Attribute("b", size=2)], target=Attribute("c", size=2))
    frame = pandas.DataFrame({"a": [0, 1, 1], "b": [0, 0, 1]})
    model = MatrixForestClassifier(domain, n_trees=2, max_depth=1, strategy="identity")
    model.fit(frame, [0, 1, 1])
    with pytest.raises(ValueError, match="c"):
        model.predict(frame.rename(columns={"b": "c"}))


def test_structure_generator_takes_every_random_state():
    assert structure_generator(np.random.RandomState(0)).integers(10) >= 0
    generator = np.random.default_rng(0)
    assert structure_generator(generator) is generator
