"""Pure and simplified forests as classifiers: conventions, votes by hand, the private twin."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from mrf_matrix import Attribute, MatrixForestClassifier, load_dataset
from mrf_matrix.estimators import (
    ForestClassifier,
    MultinomialForestClassifier,
    PureForestClassifier,
    SimplifiedBreimanForestClassifier,
)
from mrf_matrix.forests import (
    BreimanTrees,
    MultinomialTrees,
    PureTrees,
    RandomTrees,
    SimplifiedBreimanTrees,
)

MODELS = [PureForestClassifier, SimplifiedBreimanForestClassifier]


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


@pytest.mark.parametrize("model", MODELS)
def test_one_tree_scores_as_its_forest(car, model):
    forest = model(car.domain, n_trees=1, n_leaves=40, random_state=0).fit(car.X, car.y)
    assert forest.tree_scores(car.X, car.y).tolist() == [forest.score(car.X, car.y)]


def test_ties_of_even_forests_go_to_the_first_class_and_otherwise_in_the_papers_rule(car):
    """The rule I[sum >= m/2] of the pure forests' paper, as docs/forests/pure.md writes it."""
    X, y = car.array(), (car.labels > 0).astype(int)
    domain = replace(car.domain, target=Attribute("class", size=2))
    forest = PureForestClassifier(domain, n_trees=4, n_leaves=60, random_state=0).fit(X, y)
    votes = forest.predict_proba(X)[:, 1]
    ours = forest.predict(X)
    theirs = forest.classes_[(votes >= 0.5).astype(int)]
    assert (votes == 0.5).sum() > 20
    np.testing.assert_array_equal(ours[votes == 0.5], 0)
    np.testing.assert_array_equal(theirs[votes == 0.5], 1)
    np.testing.assert_array_equal(ours[votes != 0.5], theirs[votes != 0.5])


def test_simplified_trees_carry_no_private_release(car):
    model = MatrixForestClassifier(car.domain, forest=SimplifiedBreimanTrees(3, 5))
    with pytest.raises(ValueError, match=r"needs codes and labels.*use\s+PureTrees"):
        model.fit(car.X, car.y)


class Stumps:
    """A source of one's own: anything with `grow`."""

    def grow(self, domain, random_state=None):
        return RandomTrees(3, 1).grow(domain, random_state)


@pytest.mark.parametrize(
    ("trees", "named"),
    [
        (PureTrees(9, 25), PureForestClassifier(n_trees=9, n_leaves=25)),
        (SimplifiedBreimanTrees(9, 25), SimplifiedBreimanForestClassifier(n_trees=9, n_leaves=25)),
        (MultinomialTrees(9, b1=5), MultinomialForestClassifier(n_trees=9, b1=5)),
        (BreimanTrees(9, max_depth=3), None),
        (None, ForestClassifier(trees=BreimanTrees())),
        (Stumps(), None),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_source_of_trees_is_a_value(car, trees, named):
    made = ForestClassifier(car.domain, trees=trees, random_state=3)
    made = clone(made).fit(car.X[:400], car.y[:400])
    assert made.score(car.X, car.y) > 0.6
    if named is not None:
        named = clone(named).set_params(domain=car.domain, random_state=3)
        shares = named.fit(car.X[:400], car.y[:400]).predict_proba(car.X)
        np.testing.assert_array_equal(made.predict_proba(car.X), shares)


def test_what_grows_no_trees_is_refused(car):
    with pytest.raises(TypeError, match="trees is of type int: expected a source"):
        ForestClassifier(trees=7).fit(car.X, car.y)
