"""Pure and simplified forests as classifiers: conventions, votes by hand, the private twin."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from mrf_matrix import Domain, MatrixForestClassifier, load_dataset
from mrf_matrix.estimators.grown.pure_forest import (
    PlainForestClassifier,
    PureForestClassifier,
    SimplifiedBreimanForestClassifier,
)
from mrf_matrix.forests import PureTrees, SimplifiedBreimanTrees

MODELS = [PureForestClassifier, SimplifiedBreimanForestClassifier]


@parametrize_with_checks(
    [model("from_data", n_trees=20, n_leaves=40, random_state=0) for model in MODELS]
)
@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def car():
    return load_dataset("car")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("voting", ["hard", "weight"])
def test_votes_by_hand(car, model, voting):
    fitted = model(car.domain, n_trees=7, n_leaves=30, voting=voting, random_state=0)
    fitted.fit(car.X, car.y)
    leaves = fitted.forest_.apply(car.codes)
    votes = np.zeros((len(car.codes), 4))
    y = np.searchsorted(fitted.classes_, car.y)
    for tree in leaves.T:
        counts = np.zeros((fitted.forest_.n_leaves, 4))
        np.add.at(counts, (tree, y), 1)
        if voting == "hard":
            best = counts == counts.max(axis=1, keepdims=True)
            counts = best / best.sum(axis=1, keepdims=True)
        votes += counts[tree]
    np.testing.assert_allclose(
        fitted.predict_proba(car.X), votes / votes.sum(axis=1, keepdims=True)
    )
    assert fitted.score(car.X, car.y) > 0.7


@pytest.mark.parametrize("splits", ["uniform", "midpoint"])
def test_it_is_the_private_forest_without_noise(car, splits):
    plain = PureForestClassifier(
        car.domain, n_trees=9, n_leaves=25, splits=splits, random_state=5
    ).fit(car.X, car.y)
    source = PureTrees(9, 25, splits)
    twin = MatrixForestClassifier(
        car.domain, forest=source, epsilon=float("inf"), strategy="identity", random_state=5
    ).fit(car.X, car.y)
    assert plain.forest_ == twin.forest_
    np.testing.assert_array_equal(plain.leaf_values_, twin.leaf_values_)
    np.testing.assert_array_equal(plain.predict(car.X), twin.predict(car.X))


def test_pure_trees_carry_a_private_release(car):
    model = MatrixForestClassifier(
        car.domain,
        forest=PureTrees(9, 25),
        epsilon=2.0,
        strategy="identity",
        noise="research",
        noise_state=0,
        random_state=0,
    ).fit(car.X, car.y)
    assert model.score(car.X, car.y) > 0.6


def test_a_domain_is_required_and_parameters_are_checked(car):
    for model in MODELS:
        with pytest.raises(ValueError, match="domain=None"):
            model().fit(car.X, car.y)
        with pytest.raises(ValueError, match="voting='soft'"):
            model(car.domain, voting="soft").fit(car.X, car.y)
        with pytest.raises(ValueError, match="n_leaves=0"):
            clone(model(car.domain, n_leaves=0)).fit(car.X, car.y)
    with pytest.raises(ValueError, match="splits='best'"):
        PureForestClassifier(car.domain, splits="best").fit(car.X, car.y)


def test_the_common_part_grows_nothing():
    model = PlainForestClassifier()
    model.domain, model.voting, model.random_state = Domain.from_sizes([2], n_classes=2), "hard", 0
    with pytest.raises(TypeError, match="grows no forest of its own"):
        model.fit([[0], [1]], [0, 1])


def test_simplified_trees_carry_no_private_release(car):
    model = MatrixForestClassifier(car.domain, forest=SimplifiedBreimanTrees(3, 5))
    with pytest.raises(ValueError, match=r"needs codes and labels.*use\s+PureTrees"):
        model.fit(car.X, car.y)
