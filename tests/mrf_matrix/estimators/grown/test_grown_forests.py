"""Classifiers over grown forests: what they accept, predict, claim and refuse."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

from mrf_matrix.base.checks import readable
from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.estimators import (
    ForestClassifier,
    MultinomialForestClassifier,
    MultinomialMatrixForestClassifier,
)
from mrf_matrix.estimators.forest_classifier import code_values, ready_to_encode
from mrf_matrix.forests import BreimanTrees
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
    coding = code_values(X, np.zeros(len(X)), None)
    codes = coding.domain.encode(ready_to_encode(coding, X)).ravel()
    assert codes.tolist() == list(range(len(values)))
    np.testing.assert_array_equal(coding.centres[0][codes], X.ravel())
    near = coding.domain.encode(ready_to_encode(coding, X + 1e-9)).ravel()
    np.testing.assert_array_equal(near, codes)


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
    assert f"at epsilon {readable(spent)} each" in report.notes[-1]
    assert f"spends epsilon {readable(spent / 6)} on its attribute" in report.notes[0]


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


def test_accuracy_grows_with_the_budget(coded):
    domain, codes, y = coded
    scores = [
        MultinomialForestClassifier(
            domain,
            epsilon=epsilon,
            n_trees=8,
            max_depth=4,
            structure_score="majority",
            label_score="count",
            disjoint=True,
            noise="research",
            noise_state=1,
        )
        .fit(codes, y)
        .score(codes, y)
        for epsilon in (0.01, 10)
    ]
    assert scores[1] > 0.9
    assert scores[1] > scores[0]


@pytest.mark.parametrize("parts", ["coins", "all"])
def test_two_stages(coded, parts):
    domain, codes, y = coded
    settings = {"epsilon": 20, "parts": parts, "strategy": "identity", "n_trees": 4}
    forest = MultinomialMatrixForestClassifier(domain, **settings).fit(codes, y)
    assert forest.score(codes, y) > 0.9
    assert forest.predict_proba(codes[:3]).shape == (3, 2)
    assert "PureDP(epsilon=20)" in forest.privacy_report_.statement
    assert forest.leaf_values_.shape == (forest.forest_.n_leaves, 2)
    endless = MultinomialMatrixForestClassifier(domain, **(settings | {"epsilon": float("inf")}))
    assert "NOT A PRIVATE RELEASE" in str(endless.fit(codes, y).privacy_report_)
    total = endless.leaf_values_.reshape(-1, 2)[endless.forest_.leaf_tree == 0].sum()
    assert total == len(y) if parts == "all" else 500 < total < 750


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


def test_from_data_warns_and_is_not_silent(coded):
    _, codes, y = coded
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="taken from the records"):
            MultinomialForestClassifier("from_data", epsilon=1).fit(codes, y)
