"""Intervals of votes that are released in batches: coverage, batches, and what they cost."""

from itertools import cycle, product

import numpy as np
import pytest

from mrf_matrix import (
    BatchPredictionClassifier,
    Domain,
    PrivacyLedger,
    SubsampleAggregateClassifier,
)
from mrf_matrix.mechanisms import BudgetError
from mrf_matrix.voting.margin_widths import margin_quantile

INFINITE = float("inf")
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
    for seed in range(12):
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
    expected = margin_quantile(0.95, 2, gaussian=False) * deviation
    assert width == pytest.approx(expected, rel=0.05)
    used_up = fitted("cells", epsilon=0.05, noise="research")
    used_up.predict(first)
    with pytest.raises(BudgetError, match="n_batches=1"):
        used_up.predict_or_abstain(second)


def test_labels_are_withheld_where_the_interval_holds_zero():
    model = fitted("leaves", epsilon=0.5, noise="research", noise_state=1)
    labels = model.predict_or_abstain(QUERIES, 0.8)
    margin, width, above = model.vote_intervals(QUERIES, 0.8)
    np.testing.assert_array_equal(above, width)
    np.testing.assert_array_equal(labels.mask, margin <= width)
    np.testing.assert_array_equal(labels.data, model.predict(QUERIES))
    assert 0 < labels.mask.mean() < 1
    endless = fitted("cells", epsilon=INFINITE)
    ties = np.diff(endless._votes(QUERIES), axis=1).ravel() == 0
    np.testing.assert_array_equal(endless.predict_or_abstain(QUERIES).mask, ties)
    with pytest.raises(ValueError, match="level"):
        model.vote_intervals(QUERIES, 2)
