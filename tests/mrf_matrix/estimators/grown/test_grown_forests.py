"""Classifiers over grown forests: what they accept, predict, claim and refuse."""

import re
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

from mrf_matrix import Attribute, MatrixForestClassifier
from mrf_matrix.domain import Domain
from mrf_matrix.estimators import (
    ForestClassifier,
    MultinomialForestClassifier,
    MultinomialMatrixForestClassifier,
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
from mrf_matrix.mechanisms import PrivacyLedger, PureDP

PUBLIC = [
    MultinomialForestClassifier(n_trees=30, random_state=0),
    ForestClassifier(trees=BreimanTrees(30), random_state=0),
]
SIZES = (3, 4, 2)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def coded():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 900) for size in SIZES], axis=1)
    return Domain.from_sizes(SIZES, 2), codes, (codes[:, 0] * 2 + codes[:, 1] > 3).astype(int)


@pytest.mark.parametrize("classifier", PUBLIC, ids=repr)
def test_trees_scores_are_the_shares_of_their_votes(classifier, iris):
    """A tree's hard vote is its class: the mean score is the mean vote for the true class."""
    X, y = np.asarray(iris[0]), np.array(["c", "a", "b"])[iris[1]]  # sorted otherwise than coded
    forest = clone(classifier).fit(X[::2], y[::2])
    scores = forest.tree_scores(X[1::2], y[1::2])
    shares = forest.predict_proba(X[1::2])
    of_truth = shares[np.arange(len(shares)), np.searchsorted(forest.classes_, y[1::2])]
    assert scores.shape == (30,)
    assert scores.mean() == pytest.approx(of_truth.mean())
    with pytest.raises(ValueError, match="inconsistent"):
        forest.tree_scores(X, y[1:])


@pytest.mark.parametrize("classifier", PUBLIC, ids=repr)
def test_iris_is_learned_from_raw_values(classifier, iris):
    X, y = iris
    forest = clone(classifier).fit(X[::2], y[::2])
    assert forest.score(X[1::2], y[1::2]) > 0.88
    shares = forest.predict_proba(X[1::2])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares[np.arange(75), forest.predict(X[1::2])] == shares.max(axis=1)).all()
    again = clone(classifier).fit(X[::2], y[::2])
    np.testing.assert_array_equal(again.predict(X), forest.predict(X))


@pytest.mark.parametrize(
    "classifier",
    [
        ForestClassifier(trees=BreimanTrees(10, min_points=2), random_state=0),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_scikit_learn_accepts_them(classifier):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        failed = [
            (result["check_name"], result["exception"])
            for result in check_estimator(classifier, on_fail=None)
            if result["status"] == "failed"
        ]
    assert not failed


@pytest.mark.parametrize("classifier", PUBLIC, ids=repr)
def test_names_and_texts_in_a_frame(classifier):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"colour": rng.choice(["red", "green", "blue"], 300), "size": rng.normal(size=300)}
    )
    y = np.where((frame["colour"] == "green") ^ (frame["size"] > 0), "yes", "no")
    forest = clone(classifier).fit(frame, y)
    assert forest.score(frame, y) > 0.8
    assert forest.predict(pd.DataFrame({"colour": ["mauve"], "size": [0.1]}))[0] in {"yes", "no"}
    assert forest.classes_.tolist() == ["no", "yes"]


def test_the_order_of_public_classes_does_not_matter():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(200, 2))
    y = np.where(codes[:, 0] == 1, "a", "z")
    for classes in (["a", "z"], ["z", "a"]):
        domain = Domain(
            [Attribute("p", size=3), Attribute("q", size=3)], Attribute("y", categories=classes)
        )
        forest = MultinomialForestClassifier(domain, n_trees=15, random_state=0)
        assert forest.fit(codes, y).score(codes, y) == 1
        private = MultinomialForestClassifier(
            domain, epsilon=float("inf"), n_trees=15, max_depth=3, structure_score="majority"
        )
        assert private.fit(codes, y).score(codes, y) == 1
        two = MultinomialMatrixForestClassifier(domain, epsilon=1000, strategy="identity")
        assert two.fit(codes, y).score(codes, y) > 0.95


@pytest.mark.parametrize("values", [[3.0], [1.0, 2.0], [0.5, 0.75, 9.0], list(range(40))])
def test_every_value_gets_its_own_code(values):
    X = np.array(values, dtype=float)[:, None]
    names = np.arange(len(values))
    told_apart = ForestClassifier(trees=BreimanTrees(30, min_points=1), random_state=0)
    told_apart.fit(np.tile(X, (4, 1)), np.tile(names, 4))
    assert told_apart.predict(X).tolist() == told_apart.predict(X + 1e-9).tolist() == names.tolist()


def test_private_forests_need_a_domain_and_no_counts(coded):
    domain, codes, y = coded
    with pytest.raises(ValueError, match=r"min_points=5 with a budget.*Algorithm 1's line 3"):
        MultinomialForestClassifier(domain, epsilon=1, min_points=5).fit(codes, y)
    with pytest.raises(ValueError, match=r"b1, b3 with a budget"):
        MultinomialForestClassifier(domain, epsilon=1, b1=3, b3=4).fit(codes, y)
    with pytest.raises(ValueError, match="domain=None"):
        MultinomialForestClassifier(epsilon=1).fit(codes, y)
    with pytest.raises(ValueError, match="never seedable"):
        MultinomialForestClassifier(domain, epsilon=1, noise_state=0).fit(codes, y)


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_private_forests_state_their_claim(coded, disjoint, neighboring):
    domain, codes, y = coded
    forest = MultinomialForestClassifier(
        domain, epsilon=3, n_trees=6, max_depth=3, disjoint=disjoint, neighboring=neighboring
    ).fit(codes, y)
    report = forest.privacy_report_
    assert report.statement.startswith("Private release: PureDP(epsilon=3)")
    assert neighboring in str(report)
    assert report.to_dict()["noise"] == "exact"
    assert [one.budget for one in forest.forest_.provenance.spendings] == [PureDP(3)]
    assert forest.forest_.max_depth <= 3
    spent = Fraction(3, (1 if disjoint else 6) * (2 if neighboring == "replace_one" else 1))
    for share, note in ((spent, report.notes[-1]), (spent / 6, report.notes[0])):
        told = re.search(r"epsilon (\S+) (?:each|on its attribute)", note)[1]
        assert Fraction(told) == share


def test_exact_choices_cannot_be_seeded_and_research_ones_can(coded):
    domain, codes, y = coded
    settings = {"epsilon": 1, "n_trees": 8, "max_depth": 3, "random_state": 0}
    make = MultinomialForestClassifier
    exact = [make(domain, **settings).fit(codes, y).forest_ for _ in range(2)]
    assert exact[0] != exact[1]
    research = [
        make(domain, noise="research", noise_state=5, **settings).fit(codes, y) for _ in range(2)
    ]
    assert research[0].forest_ == research[1].forest_
    np.testing.assert_array_equal(research[0].leaf_labels_, research[1].leaf_labels_)
    assert research[0].privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")
    assert "research noise" in research[0].forest_.source


def test_the_plan_adds_up():
    domain = Domain.from_sizes([3, 2], 2)

    def planned(parts, share=0.3):
        made = MultinomialMatrixForestClassifier(domain, parts=parts, structure_share=share)
        return made.plan()

    plan = planned("all")
    assert plan.structure + plan.counts == PureDP(1)
    assert plan.structure == PureDP(0.3)
    coins = planned("coins")
    assert coins.structure == coins.counts == PureDP(1)
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match="structure_share"):
            planned("coins", share)
    with pytest.raises(ValueError, match="parts='half'"):
        planned("half")


# estimator -> the ledger's words


def test_what_is_not_private_takes_no_ledger(coded):
    domain, codes, y = coded
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(ValueError, match=r"ledger was given, but epsilon=None"):
        MultinomialForestClassifier(domain, ledger=ledger).fit(codes, y)


# Pure and simplified forests ----------------------------------------------------------------------


MODELS = [PureForestClassifier, SimplifiedBreimanForestClassifier]


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
