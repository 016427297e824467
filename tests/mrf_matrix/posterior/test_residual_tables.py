"""Intercepts and margins from noisy tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.posterior import estimated_total, intercept, margin, shrunk_counts

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
