"""The residual forest: conventions, what is claimed and paid, and what it is worth."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from mrf_matrix import Attribute, Domain, PrivateNaiveBayesClassifier
from mrf_matrix.estimators import ResidualForestClassifier
from mrf_matrix.files.model_file import Replay
from mrf_matrix.kinds.model import Model
from mrf_matrix.kinds.tables import ADDITIVE
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.residual import ResidualStep
from mrf_matrix.residual.questions import ResidualRecords

INFINITE = float("inf")


def domain_of(sizes):
    return Domain.from_sizes(sizes, n_classes=2)


def true_odds(codes):
    return (
        1.2 * (codes[:, 0] - 1) + 0.8 * (codes[:, 1] - 1) + 1.5 * (codes[:, 2] == codes[:, 3]) - 0.5
    )


def records(n_records=3000, seed=0, copies=0):
    """Labels from two attributes, an interaction, and copies of the first attribute."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 3, size=(n_records, 5))
    codes = np.column_stack([codes, *[codes[:, 0]] * copies])
    labels = (generator.random(n_records) < expit(true_odds(codes))).astype(int)
    return codes, labels


def research(codes, **changes):
    parameters = {
        "noise": "research",
        "noise_state": 0,
        "random_state": 0,
        "n_records": len(codes),
    }
    parameters["domain"] = domain_of([3] * codes.shape[1])
    return ResidualForestClassifier(**(parameters | changes))


# Predictions follow from the releases alone ---------------------------------------------------


def test_predictions_are_a_function_of_the_releases():
    """The steps are taken again with the released answers, and no records."""
    codes, labels = records()
    model = research(codes).fit(codes, labels)
    told = model.transcript_.to_record(lambda plan: {})
    again = Model(ADDITIVE, *Replay(model.plan_, told).learn(ADDITIVE))
    assert np.array_equal(again.probabilities(codes), model.predict_proba(codes))


def test_records_are_counted_as_a_loop_would():
    codes, labels = records(150)
    table = ResidualRecords(codes, labels, [3] * 5)
    table.add((), np.array([[0.3]]))
    effects = np.random.default_rng(0).normal(size=9)
    table.add((1, 3), effects[:, None])
    step = ResidualStep("residuals", "", PureDP(INFINITE), "add_remove")
    counts = table.table(step, (4,))
    sums = counts.answers(step.mechanism(3).rounded.matrix)[:, 0] / step.units
    expected = np.zeros(3)
    for code, label in zip(codes, labels, strict=True):
        p = 1 / (1 + np.exp(-0.3 - effects[3 * code[1] + code[3]]))
        expected[code[4]] += (label - p) / (2 * max(p, 1 - p))
    assert np.allclose(sums, expected, atol=150 / 2048)


def test_number_of_records_is_estimated_where_it_is_not_public():
    codes, labels = records(5000)
    model = research(codes, n_records=None, epsilon=2).fit(codes, labels)
    assert model.score(codes, labels) > 0.7


def several(n_records=3000, seed=0, k=3):
    """Labels of k classes, named against their order, by softmax of effects of three attributes."""
    codes, _ = records(n_records, seed)
    weights = np.random.default_rng(9).normal(size=(3, 3, k))
    scores = sum(weights[i][codes[:, i]] for i in range(3))
    gumbel = np.random.default_rng(seed).gumbel(size=scores.shape)
    names = np.array([f"c{k - i}" for i in range(k)])
    return codes, names[np.argmax(scores + gumbel, axis=1)], softmax(scores, axis=1)[:, ::-1]


def domain_of_several(k=3):
    """Class codes run against the order of their names."""
    target = Attribute("class", categories=[f"c{k - i}" for i in range(k)])
    return Domain([Attribute(f"a{i}", size=3) for i in range(5)], target=target)


@pytest.mark.parametrize(("k", "budget"), [(3, {"epsilon": 4}), (6, {"epsilon": None, "rho": 2})])
def test_several_classes_are_told_apart(k, budget):
    codes, labels, _ = several(20_000, k=k)
    test, truth, shares = several(4000, seed=1, k=k)
    model = research(codes, domain=domain_of_several(k), **budget).fit(codes, labels)
    assert model.classes_.tolist() == sorted(set(labels))
    found = model.predict_proba(test)
    assert np.allclose(found.sum(axis=1), 1)
    assert np.abs(found - shares).mean() < 0.03
    best = np.mean(model.classes_[shares.argmax(axis=1)] == truth)
    assert model.score(test, truth) > best - 0.02
    odds = model.decision_function(test)
    assert np.allclose(odds, np.log(found / (1 - found)))
    assert np.array_equal(model.predict(test), model.classes_[odds.argmax(axis=1)])
    margin, width, above = model.vote_intervals(test)
    np.testing.assert_array_equal(above, width)
    assert (margin >= 0).all()
    assert 0 < np.mean(model.predict_or_abstain(test).mask == (margin <= width)) <= 1


def test_without_noise_five_passes_are_near_the_model_that_was_drawn_from():
    codes, labels, _ = several(20_000)
    _, _, shares = several(4000, seed=1)
    exact = research(codes, domain=domain_of_several(), epsilon=INFINITE, noise="exact")
    exact.set_params(noise_state=None)
    found = exact.fit(codes, labels).predict_proba(several(4000, seed=1)[0])
    assert np.abs(found - shares).mean() < 0.025


def test_residuals_of_several_classes_are_counted_as_a_loop_would():
    codes, _ = records(150)
    labels = np.random.default_rng(2).integers(0, 4, 150)
    effects = np.random.default_rng(0).normal(size=(3, 4))
    for norm, budget in (("l1", PureDP(INFINITE)), ("l2", ZCDP(INFINITE))):
        table = ResidualRecords(codes, labels, [3] * 5, 4)
        table.add((1,), effects)
        step = ResidualStep("residuals", "", budget, "add_remove", 4)
        counts = table.table(step, (4,))
        sums = counts.answers(step.mechanism(3).rounded.matrix) / step.units
        expected = np.zeros((3, 4))
        for code, label in zip(codes, labels, strict=True):
            p = softmax(effects[code[1]])
            moved = np.eye(4) - p  # of each label
            size = np.abs(moved).sum(axis=1) if norm == "l1" else np.linalg.norm(moved, axis=1)
            expected[code[4]] += moved[label] / size.max()
        assert np.allclose(sums, expected, atol=150 * 2 / 1024)


# What it is worth ----------------------------------------------------------------------------


@pytest.mark.slow
def test_copies_of_an_attribute_are_counted_once():
    """The log-loss of a product of tables suffers from copies; that of residuals does not."""
    train, labels = records(20_000, copies=6)
    test, truth = records(5000, seed=1, copies=6)

    def log_loss(shares):
        return -np.log(np.maximum(shares[np.arange(len(truth)), truth], 1e-12)).mean()

    odds = true_odds(test)
    bayes = PrivateNaiveBayesClassifier(
        domain_of([3] * 11), epsilon=2, noise="research", noise_state=0
    )
    best = log_loss(expit(np.column_stack([-odds, odds])))
    excess = [
        log_loss(model.fit(train, labels).predict_proba(test)) - best
        for model in (research(train, epsilon=2), bayes)
    ]
    assert excess[0] < 0.03
    assert excess[1] > 10 * excess[0]


@pytest.mark.slow
def test_interactions_are_found_where_the_budget_is_ample():
    train, labels = records(20_000)
    model = research(train, epsilon=4).fit(train, labels)
    assert (2, 3) in [block.attributes for block in model.posterior_.blocks]
    test, truth = records(5000, seed=1)
    best = np.mean((true_odds(test) > 0) == truth)  # of those who know how labels were drawn
    assert model.score(test, truth) > best - 0.01
