"""What one record adds to a table of residuals."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.posterior import CURVATURE_CAP, RESIDUAL_CAP, UNITS, curvature_units, residual_units

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
