"""DP batch prediction: free repeats, planned batches, errors known beforehand, nothing leaked."""

import copy
import pickle
from itertools import cycle, product

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.base import clone

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    PrivacyLedger,
    SubsampleAggregateClassifier,
    path_matrix,
    prediction_workload,
    query_matrix,
)
from mrf_matrix.mechanisms import BudgetError, PrivateDataError, PureDP
from strategies.operators import RowScaled

INFINITE = float("inf")
SMALL = Domain.from_sizes([3, 2, 4], n_classes=3)


@pytest.fixture(scope="module")
def records():
    generator = np.random.default_rng(5)
    codes = np.stack([generator.integers(size, size=60) for size in SMALL.sizes], axis=1)
    return codes.astype(np.int32), generator.integers(3, size=60)


@pytest.fixture(scope="module")
def queries():
    generator = np.random.default_rng(6)
    return np.stack([generator.integers(size, size=9) for size in SMALL.sizes], axis=1)


def small(**changes):
    parameters = {
        "n_trees": 6,
        "max_depth": 2,
        "strategy": "identity",
        "noise": "research",
        "noise_state": 0,
        "random_state": 0,
    }
    return BatchPredictionClassifier(SMALL, **(parameters | changes))


def counted(model, codes, labels, queries, k):
    """Weight votes by a loop over ensembles and trees."""
    votes = np.zeros((len(queries), k))
    for one in model.ensembles_:
        mine = one.forest.apply(one.view(codes.astype(np.int32)))
        asked = one.forest.apply(one.view(queries.astype(np.int32)))
        for row, leaves in enumerate(asked):
            for tree, leaf in enumerate(leaves):
                np.add.at(votes[row], labels[mine[:, tree] == leaf], 1)
    return votes


ENSEMBLES = [{}, {"n_ensembles": 3, "max_features": 2}, {"feature_subsets": [[0, 2], ["x1", "x0"]]}]


@pytest.mark.parametrize("changes", ENSEMBLES)
def test_an_infinite_budget_gives_the_exact_weight_votes(records, queries, changes):
    model = small(epsilon=INFINITE, noise_state=None, **changes).fit(*records)
    votes = model._votes(queries)
    np.testing.assert_array_equal(votes, counted(model, *records, queries, 3))
    np.testing.assert_array_equal(model.predict(queries), votes.argmax(axis=1))
    assert "NOT A PRIVATE RELEASE" in model.privacy_report_.statement


def test_repeats_are_free_and_the_same(records, queries):
    ledger = PrivacyLedger(epsilon=1)
    model = small(ledger=ledger).fit(*records)
    assert ledger.spent == 0
    labels = model.predict(queries)
    shares = model.predict_proba(queries)
    np.testing.assert_array_equal(shares.argmax(axis=1), labels)
    np.testing.assert_array_equal(model.predict(queries[::-1]), labels[::-1])
    np.testing.assert_array_equal(model.predict(queries[:2]), labels[:2])
    assert model.plan(queries) is None
    assert len(model.batches_) == 1
    assert ledger.spent == 1
    assert [charge.amount for charge in ledger.charges] == [1]


def test_queries_beyond_the_planned_batches_are_refused(records, queries):
    model = small(n_batches=2, epsilon=1).fit(*records)
    for part in (queries[:2], queries[2:5]):
        model.predict(part)
    assert [batch.plan.budget for batch in model.batches_] == [PureDP(0.5)] * 2
    first = model.predict(queries[:5])
    with pytest.raises(BudgetError, match="n_batches=2"):
        model.predict(queries)
    np.testing.assert_array_equal(model.predict(queries[:5]), first)
    assert "PureDP(epsilon=1) of PureDP(epsilon=1)" in model.privacy_report_.budget


def test_batches_have_noise_of_their_own(records, queries):
    model = small(n_batches=2).fit(*records)
    model.predict(queries[:4])
    model.predict(queries[4:])
    noise = [
        batch.releases[0].answers
        - next(iter(model._fitted.tables)).answers(batch.releases[0].matrix)
        for batch in model.batches_
    ]
    shared = min(len(noise[0]), len(noise[1]))
    assert not np.array_equal(noise[0][:shared], noise[1][:shared])


def test_nothing_is_spent_when_the_plan_fails(records, queries):
    ledger = PrivacyLedger(epsilon=1)
    model = small(ledger=ledger, strategy=np.ones((1, 24))).fit(*records)
    with pytest.raises(ValueError, match="row"):
        model.predict(queries)
    assert ledger.spent == 0
    assert not model.batches_


def test_duplicates_in_a_batch_are_weights(records, queries):
    doubled = np.concatenate([queries, queries[:3], queries[:1]])
    model = small(strategy="auto", time_limit=0.5).fit(*records)
    plan = model.plan(doubled)
    assert len(plan.queries) == len(np.unique(queries, axis=0))
    assert plan.multiplicity.sum() == len(doubled)
    every = np.concatenate([np.repeat(q[None], m, 0) for q, m in zip(*asked(plan), strict=True)])
    forest = model.ensembles_[0].forest
    workload = RowScaled(np.sqrt(plan.parts[0].aim.weights), plan.parts[0].workload)
    repeated = answering_workload(forest, every)
    np.testing.assert_allclose(workload.gram_dense(), repeated.T @ repeated)


def asked(plan):
    return plan.queries, plan.multiplicity


def answering_workload(forest, queries):
    return prediction_workload(path_matrix(forest), query_matrix(queries, forest.domain)).to_dense()


def test_the_plan_needs_no_records_and_reports_the_error(records, queries):
    model = small()
    plan = model.plan(queries)
    assert "batch" in repr(plan)
    model.fit(*records).predict(queries)
    report = model.privacy_report_
    assert report.expected_rms_per_vote == pytest.approx(plan.rms_per_vote)
    assert report.expected_rms_per_leaf is None
    assert "records" in str(report)


def test_pickling_and_copying_are_refused_unless_asked_for(records, queries):
    model = small().fit(*records)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivateDataError, match="keep_records_in_pickle"):
            leak(model._fitted.tables)
    with pytest.raises(PrivateDataError):
        pickle.dumps(model)
    kept = small(keep_records_in_pickle=True).fit(*records)
    again = pickle.loads(pickle.dumps(kept))
    np.testing.assert_array_equal(again.predict(queries), kept.predict(queries))
    assert not hasattr(clone(kept), "ensembles_")
    assert "private" in repr(model._fitted.tables)


@pytest.mark.slow
def test_a_thousand_queries_on_car_as_in_figure_3b(car):
    """The paper: about 90 % at ε=2 with 16 trees of depth 4, trained on the whole set."""
    generator = np.random.default_rng(1)
    chosen = generator.choice(len(car.codes), 1000, replace=False)
    domain = Domain.from_sizes(car.domain.sizes, n_classes=4)
    scores = []
    for seed in range(3):
        model = BatchPredictionClassifier(
            domain, epsilon=2, n_trees=16, max_depth=4, random_state=seed
        ).fit(car.codes, car.labels)
        scores.append(model.score(car.codes[chosen], car.labels[chosen]))
    assert np.mean(scores) > 0.87, scores


# Intervals ---------------------------------------------------------------------------------------


PURE, CONCENTRATED = {"epsilon": 3}, {"epsilon": None, "rho": 1}
SIZES = (4, 5, 3)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
RNG = np.random.default_rng(0)
CODES = np.stack([RNG.integers(0, size, 400) for size in SIZES], axis=1)
LABELS = (CODES[:, 0] + RNG.integers(0, 3, 400) > 2).astype(int)
QUERIES = np.unique(CODES, axis=0)
MODES = {
    "cells": (BatchPredictionClassifier, {"strategy": "identity"}),
    "ensembles": (
        BatchPredictionClassifier,
        {
            "n_ensembles": 2,
            "max_features": 2,
            "strategy": "identity",
        },
    ),
    "hard leaves": (SubsampleAggregateClassifier, {"voting": "hard", "strategy": "identity"}),
    "leaves": (SubsampleAggregateClassifier, {"voting": "weight", "strategy": "workload_itself"}),
    "each query": (SubsampleAggregateClassifier, {"allocation": "per_query"}),
}


def fitted(kind, **changes):
    make, settings = MODES[kind]
    given = {"n_trees": 3, "max_depth": 1, "random_state": 0, "time_limit": 0.3}
    return make(DOMAIN, **(given | settings | changes)).fit(CODES, LABELS)


@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        *product(["cells"], [PURE, CONCENTRATED]),
        *zip(list(MODES)[1:], cycle([PURE, CONCENTRATED])),
    ],
    ids=str,
)
def test_intervals_cover_the_margin_without_noise(kind, budget):
    level, covered, halved = 0.9, [], []
    without = fitted(kind, epsilon=1e6, noise="research", noise_state=0)  # and the same coins
    true = without._votes(QUERIES)
    for seed in range(8):
        model = fitted(kind, noise="research", noise_state=seed, **budget)
        votes = model._votes(QUERIES)
        margin, width, _ = model.vote_intervals(QUERIES, level)
        np.testing.assert_allclose(margin, np.abs(votes[:, 0] - votes[:, 1]))
        off = np.abs((votes[:, 0] - votes[:, 1]) - (true[:, 0] - true[:, 1]))
        covered.append((off <= width + 1e-9).mean())
        halved.append((off <= width / 4).mean())
    assert np.mean(covered) >= level - 0.04
    assert np.mean(halved) < level  # the negative control


def test_each_batch_has_the_noise_of_its_own_share():
    ledger = PrivacyLedger(epsilon=1)
    model = fitted("cells", epsilon=0.05, n_batches=2, ledger=ledger, noise="research")
    first, second = QUERIES[:20], QUERIES[20:]
    model.predict(first)
    spent = ledger.spent
    width = model.vote_intervals(first)[1]
    assert ledger.spent == spent  # answered already
    later = model.vote_intervals(second)[1]
    assert ledger.spent == 2 * spent  # new ones are released
    np.testing.assert_allclose(model.vote_intervals(QUERIES)[1], np.concatenate([width, later]))
    deviation = np.sqrt(2 * model.batches_[0].plan.row_variances)
    missed = brentq(lambda u: (1 + u / 2) * np.exp(-u) - 0.05, 0, 20)  # by two Laplace draws
    np.testing.assert_allclose(width, missed / 2 * deviation, rtol=0.02)
    used_up = fitted("cells", epsilon=0.05, noise="research")
    used_up.predict(first)
    with pytest.raises(BudgetError, match="n_batches=1"):
        used_up.predict_or_abstain(second)
