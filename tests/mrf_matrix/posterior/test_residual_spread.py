"""The curvature that spread log odds leave, against sums over records and over the line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import norm

from mrf_matrix import Domain
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.posterior import ClassStates
from mrf_matrix.posterior.residuals.spread import (
    LARGEST_SPREAD,
    LEAST_SPREAD,
    curvature_at,
    spread_at,
    widening,
)
from mrf_matrix.residual.learning import ResidualReleases, learned
from mrf_matrix.residual.records import ResidualRecords
from mrf_matrix.residual.sequence import residual_plan

INTERCEPTS = st.floats(-5, 5)


@pytest.mark.parametrize("intercept", [-3.0, 0.0, 1.5])
@pytest.mark.parametrize("spread", [0.01, 1.0, 9.0, 40.0])
def test_the_curvature_is_that_of_a_mixture_of_two_normals(intercept, spread):
    odds = np.linspace(-80, 80, 400_001)
    p, share, root = expit(odds), expit(intercept), np.sqrt(spread)
    ones = norm.pdf(odds, intercept + spread / 2, root)
    zeros = norm.pdf(odds, intercept - spread / 2, root)
    density = share * ones + (1 - share) * zeros
    # the odds are right about the labels: the curvature needs no weight of its own
    assert np.allclose(share * ones, p * density, atol=1e-12)
    expected = np.trapezoid(density * np.minimum(p, 1 - p) / 2, odds)
    assert curvature_at(intercept, spread) == pytest.approx(expected, rel=1e-5)


@given(INTERCEPTS, st.floats(1e-3, 100))
def test_the_spread_is_found_again(intercept, spread):
    found = spread_at(intercept, curvature_at(intercept, spread))
    assert curvature_at(intercept, found) == pytest.approx(
        curvature_at(intercept, spread), rel=1e-6
    )


@given(INTERCEPTS)
def test_no_spread_is_beyond_its_bounds(intercept):
    assert spread_at(intercept, 0.25) == LEAST_SPREAD
    assert spread_at(intercept, 0.0) == LARGEST_SPREAD


@given(INTERCEPTS, st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.integers(0, 99))
def test_no_table_narrows_the_spread(intercept, effects, seed):
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(effects)))
    assert widening(intercept, shares, np.array(effects)) >= -1e-12


def test_fine_codes_of_a_normal_attribute_widen_by_its_squared_distance():
    x = np.linspace(-7, 7, 2001)
    shares = norm.pdf(x, 0.7) + norm.pdf(x, -0.7)
    effects = 1.4 * x
    assert widening(0.0, shares / shares.sum(), effects) == pytest.approx(1.4**2, rel=1e-6)


def test_the_curvature_follows_the_records_where_attributes_are_independent(monkeypatch):
    """Measured before the first table alone, it is near that of the records after each."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    X = (rng.random((20_000, 8)) < np.where(y == 1, 0.7, 0.3)[:, None]).astype(np.int64)
    domain = Domain.from_sizes([2] * 8, n_classes=2)
    plan = residual_plan(domain, PureDP(float("inf")), rng, n_records=len(y))
    seen = []
    visited = ClassStates.visited

    def noted(self, *given):
        states, gained = visited(self, *given)
        p = states.posterior.probabilities(X)
        seen.append((states.curvature, p.min(axis=1).mean() / 2))
        return states, gained

    monkeypatch.setattr(ClassStates, "visited", noted)
    learned(plan, ResidualReleases(ResidualRecords(X, y, domain.sizes), "exact", None))
    ours, true = np.array(seen[:8]).T
    assert np.abs(ours / true - 1).max() < 0.2  # sums of few bits are no normal odds
    assert true[-1] < 0.4 * 0.25  # which one number for the whole pass would be


@pytest.mark.parametrize("intercept", [-1e4, -40.0, 40.0, 1e4])
def test_certain_classes_widen_by_what_certainty_leaves(intercept):
    """Weights of classes so rare that their shares would be nothing stay weights."""
    shares, effects = np.array([0.25, 0.75]), np.array([-1.0, 1.0])
    found = widening(intercept, shares, effects)
    assert np.isfinite(found)
    if abs(intercept) < 100:  # both classes' shares are those of exp(±δ / 2) about the certain one
        rare = shares * np.exp(-np.sign(intercept) * effects)
        gap = np.sign(intercept) * (shares - rare / rare.sum()) @ effects
        assert found == pytest.approx(gap, rel=1e-6)
