"""What one record adds to a table of residuals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.posterior import (
    CURVATURE_CAP,
    RESIDUAL_CAP,
    UNITS,
    Link,
    curvature_units,
    estimated_total,
    intercept,
    margin,
    residual_units,
    shrunk_counts,
)

LOG_ODDS = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 700.0, -800.0, np.inf, -np.inf])


@given(LOG_ODDS, st.integers(0, 1))
def test_residuals_and_curvatures_are_capped_integers_for_any_log_odds(log_odds, label):
    units = residual_units(np.array([log_odds]), np.array([label]))
    assert units.dtype == np.int64
    assert 0 <= units[0] * (2 * label - 1) <= RESIDUAL_CAP
    curvature = curvature_units(np.array([log_odds]))
    assert curvature.dtype == np.int64
    assert 0 <= curvature[0] <= CURVATURE_CAP


def test_residuals_are_the_weighted_ones_to_half_a_unit():
    log_odds = np.linspace(-8, 8, 201)
    p = 1 / (1 + np.exp(-log_odds))
    weights = 0.5 / np.maximum(p, 1 - p)
    for label in (0, 1):
        units = residual_units(log_odds, np.full(len(p), label))
        assert np.abs(units / UNITS - weights * (label - p)).max() <= 0.5 / UNITS + 1e-12
    assert np.abs(curvature_units(log_odds) / UNITS - weights * p * (1 - p)).max() <= 0.5 / UNITS


def test_residuals_of_records_that_follow_the_model_are_nothing_on_average():
    log_odds = np.linspace(-6, 6, 101)
    p = 1 / (1 + np.exp(-log_odds))
    ones, zeros = (residual_units(log_odds, np.full(len(p), y)) / UNITS for y in (1, 0))
    assert np.abs(p * ones + (1 - p) * zeros).max() <= 0.5 / UNITS


NORMS = ("l1", "l2")


def norm_of(units, norm):
    return np.abs(units).sum(axis=1) if norm == "l1" else (units.astype(object) ** 2).sum(axis=1)


@given(st.lists(LOG_ODDS, min_size=3, max_size=60), st.sampled_from(NORMS))
def test_all_residuals_of_a_record_are_bounded_together(scores, norm):
    """Exactly, on the integer grid, whatever the label: rounding is no excuse."""
    k = len(scores)
    link = Link(k, norm)
    units = link.residual_units(np.tile(scores, (k, 1)), np.arange(k))
    assert units.dtype == np.int64
    cap = link.residual_cap if norm == "l1" else link.residual_cap**2
    assert norm_of(units, norm).max() <= cap
    assert np.abs(units).sum(axis=1).max() <= link.largest_sum
    assert (units.sum(axis=1) == 0).all()
    assert (units[np.arange(k), np.arange(k)] >= 0).all()
    curvature = link.curvature_units(np.array([scores]))
    assert 0 <= curvature[0] <= link.curvature_cap


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", [3, 7])
def test_residuals_of_several_classes_are_the_weighted_ones(norm, k):
    scores = np.random.default_rng(0).normal(0, 2, (200, k))
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    link, moved = Link(k, norm), np.eye(k) - p[:, None, :]  # record, label, class
    sizes = np.abs(moved).sum(axis=2) if norm == "l1" else np.linalg.norm(moved, axis=2)
    weights = 1 / sizes.max(axis=1)
    mean = np.zeros((200, k))
    for label in range(k):
        units = link.residual_units(scores, np.full(200, label)) / UNITS
        assert np.abs(units - weights[:, None] * moved[:, label]).max() <= k / UNITS
        mean += p[:, [label]] * units
    assert np.abs(mean).max() <= k / UNITS  # nothing where labels follow the model
    curvature = weights * (1 - (p**2).sum(axis=1))
    assert np.abs(link.curvature_units(scores) / UNITS - curvature).max() <= 0.5 / UNITS + 1e-12


# Intercepts and margins from noisy tables --------------------------------------------------------


COUNTS = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=6)
VARIANCES = st.floats(0, 1e18)


@given(COUNTS, VARIANCES, st.floats(1, 1e9))
def test_margins_are_positive_shares_whatever_the_noise(counts, variance, n_records):
    shares = margin(np.array(counts), variance, n_records)
    assert shares.min() > 0
    assert np.isclose(shares.sum(), 1)


def test_margins_without_noise_are_the_shares():
    assert np.allclose(margin(np.array([10.0, 30.0, 60.0]), 0.0, 100.0), [0.1, 0.3, 0.6])


def test_counts_that_noise_explains_are_the_expected_ones():
    expected = np.array([50.0, 50.0])
    assert np.array_equal(shrunk_counts(np.array([60.0, 40.0]), expected, 1e4), expected)
    assert np.allclose(shrunk_counts(np.array([60.0, 40.0]), expected, 0.0), [60, 40])
    half = shrunk_counts(np.array([60.0, 40.0]), expected, 50.0)
    assert np.allclose(half, [55, 45])


def test_intercepts_are_the_log_odds_and_fade_with_noise():
    base, unknown = intercept(np.array([250.0, 750.0]), 0.0, 1000.0)
    assert base == pytest.approx(np.log(3))
    assert unknown == pytest.approx(1e-3)
    noisy, more = intercept(np.array([250.0, 750.0]), 1e5, 1000.0)
    assert 0 < noisy < base
    assert more > unknown
    drowned, _ = intercept(np.array([-5e4, 9e4]), 1e10, 1000.0)
    assert abs(drowned) < 0.2  # a lean of many times the records says nothing


def test_totals_are_the_public_number_or_what_was_released():
    assert estimated_total(np.array([3.0, -9.0]), 70) == 70
    assert estimated_total(np.array([30.0, 9.0]), None) == 39
    assert estimated_total(np.array([3.0, -9.0]), None) == 1
