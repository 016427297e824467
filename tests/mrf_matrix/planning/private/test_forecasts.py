"""The scale of kinds: its prior and what tables and residuals explain, against dense algebra."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from mrf_matrix import Domain
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning.private.correlated_effects import PAIRS, CorrelatedEffects, share_right
from mrf_matrix.planning.private.forecasts import (
    alike_codes,
    residuals_explain,
    shrunk,
    tables_explain,
)
from mrf_matrix.residual.sequence import residual_plan

D = 6


@pytest.fixture(scope="module")
def prior():
    return CorrelatedEffects.of(D)


def dense(prior, draw):
    c = prior.correlations[draw]
    return (1 - c) * np.eye(D) + c * np.ones((D, D))


def test_single_attributes_have_their_share_of_the_signal(prior):
    for draw, weights in enumerate(prior.weights):
        told = weights @ dense(prior, draw) @ weights
        assert_allclose(told, prior.pair_variance[draw] * (1 - PAIRS) / PAIRS)
        assert_allclose(prior.shown[draw], dense(prior, draw) @ weights)


def test_pairs_share_out_their_variance(prior):
    shares = (prior.shown**2 / (prior.shown**2).sum(axis=1, keepdims=True)).T
    first, second = np.triu_indices(D, 1)
    found = prior.pair_energy(shares[first], shares[second]).sum(axis=0)
    assert_allclose(found, prior.pair_variance)


@pytest.mark.parametrize(("variance", "lean"), [(1.0, 0.0), (4.0, 1.2), (0.2, -2.0)])
def test_the_share_right_is_that_of_normal_log_odds(variance, lean):
    rng = np.random.default_rng(0)
    positive = rng.random(400_000) < expit(lean)
    odds = np.where(positive, 1, -1) * variance / 2 + rng.normal(0, np.sqrt(variance), 400_000)
    right = ((odds + lean > 0) == positive).mean()
    found = share_right(np.array([variance]), np.array([lean]))[0]
    assert_allclose(found, right, atol=4e-3)


@pytest.mark.parametrize("variance", [0.0, 50.0, 5000.0])
def test_tables_of_single_attributes_by_dense_algebra(prior, variance):
    sizes, per_class = [3] * D, 500.0
    columns = np.tile(np.arange(D), (len(prior.weights), 1))
    found = tables_explain(
        prior, columns, [(i,) for i in range(D)], sizes, np.ones(D), per_class, (variance, variance)
    )
    expected = per_class / 3
    noise = 2 * (variance + expected) / expected**2
    kept = shrunk(prior.shown**2, np.full(D, noise))
    known = (1 + D / 3) / max(variance, 1e-9) if variance else np.inf
    for draw, value in enumerate(found):
        told = kept[draw] @ prior.shown[draw] ** 2
        scores = kept[draw] * prior.shown[draw]
        spent = scores @ dense(prior, draw) @ scores + (kept[draw] ** 2 * noise).sum()
        spent += min(8 / known / 1000**2, 1) if variance else 0
        assert_allclose(value, told**2 / spent, rtol=1e-6)


def test_without_noise_residuals_learn_what_tables_count_twice(prior):
    domain = Domain.from_sizes([2] * D, n_classes=2)
    plan = residual_plan(domain, PureDP(10**6), np.random.default_rng(0), n_records=10**9)
    found = residuals_explain(prior, plan, 1e9)
    whole = prior.pair_variance / PAIRS
    columns = np.tile(np.arange(D), (len(whole), 1))
    tables = tables_explain(
        prior, columns, [(i,) for i in range(D)], [2] * D, np.ones(D), 5e8, (0.0, 0.0)
    )
    assert (found <= whole * (1 + 1e-9)).all()
    assert (found > tables - 0.05 * whole).all()
    assert (found > 0.9 * whole).mean() > 0.8
    assert (tables < 0.9 * whole).mean() > 0.3


def test_residuals_by_dense_algebra(prior):
    """The first pass scaled to explain the most, then a visit of each largest effect in turn."""
    n_records, codes = 2000, 3
    domain = Domain.from_sizes([codes] * D, n_classes=2)
    plan = residual_plan(domain, PureDP(0.5), np.random.default_rng(0), n_records=n_records)
    assert len(plan.passes) == 1
    assert plan.pairs is None
    draws, R = range(len(prior.weights)), [dense(prior, i) for i in range(len(prior.weights))]
    alike = alike_codes(domain)[0]

    def bent_of(told, spent):
        right = share_right(told**2 / np.maximum(spent, 1e-12), prior.lean)
        return n_records / codes * np.maximum((1 - right) / 2, 0.02)

    bent = bent_of(np.zeros(len(R)), np.zeros(len(R)))[:, None]
    error = (plan.first.visits[0].variance + bent) / bent**2 / alike
    kept = shrunk(prior.shown**2, np.broadcast_to(error, prior.shown.shape))
    known, noise = kept * prior.shown, kept**2 * error
    for i in draws:
        told = prior.shown[i] @ known[i]
        scale = told / (known[i] @ R[i] @ known[i] + noise[i].sum())
        known[i], noise[i] = scale * known[i], scale**2 * noise[i]

    def covered():
        told = np.array([prior.shown[i] @ known[i] for i in draws])
        spent = np.array([known[i] @ R[i] @ known[i] + noise[i].sum() for i in draws])
        return told, spent

    bent = bent_of(*covered())
    largest = np.argsort(-np.abs(known), axis=1)
    for visit, step in enumerate(plan.passes[0].visits):
        at = [(i, largest[i, visit]) for i in draws]
        lacking = np.array([(R[i] @ (prior.weights[i] - known[i]))[j] for i, j in at])
        error = (step.variance + bent) / bent**2 / alike
        kept = shrunk(lacking**2, error)
        for (i, j), k, lack, e in zip(at, kept, lacking, error, strict=True):
            known[i, j] += k * lack
            noise[i, j] = (1 - k) ** 2 * noise[i, j] + k**2 * e
    told, spent = covered()
    expected = told**2 / (spent + 8 * plan.totals.variance / n_records**2)
    assert_allclose(residuals_explain(prior, plan, n_records), expected, rtol=1e-9)


def test_neighbouring_codes_of_ordered_attributes_say_the_same():
    domain = Domain.from_sizes([2, 10], n_classes=2)
    assert_allclose(alike_codes(domain), [1.0, 5.0])
