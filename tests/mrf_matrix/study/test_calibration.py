"""Calibration error: nothing for a calibrated forecast, and the gap of one that is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.study import expected_calibration_error, reliability


def forecast(rng, n=200_000):
    """Return calibrated probabilities of two classes, and what happened."""
    high = rng.uniform(0.5, 1.0, size=n)
    truth = (rng.random(n) > high).astype(int)
    return truth, np.column_stack([high, 1 - high])


def test_a_calibrated_forecast_has_no_calibration_error():
    truth, shares = forecast(np.random.default_rng(0))
    assert expected_calibration_error(truth, shares) < 0.01
    sure = np.round(shares)  # negative control
    assert expected_calibration_error(truth, sure) == pytest.approx(0.25, abs=0.01)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_it_is_the_sum_over_bins_written_out(seed, n_bins):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), size=40)
    truth = rng.integers(0, 3, size=40)
    total = 0.0
    for m in range(n_bins):
        inside = [
            i
            for i in range(40)
            if m <= shares[i].max() * n_bins
            and (shares[i].max() * n_bins < m + 1 or m == n_bins - 1)
        ]
        if inside:
            right = np.mean([shares[i].argmax() == truth[i] for i in inside])
            total += len(inside) / 40 * abs(right - np.mean([shares[i].max() for i in inside]))
    assert expected_calibration_error(truth, shares, n_bins) == pytest.approx(total)
    curve = reliability(truth, shares, n_bins)
    assert curve.counts.sum() == 40
    assert (np.diff(curve.confidence) > 0).all()


def test_classes_have_names():
    shares = [[0.9, 0.1], [0.2, 0.8]]
    named = expected_calibration_error(["no", "yes"], shares, classes=["no", "yes"])
    assert named == expected_calibration_error([0, 1], shares) == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [[0.5, 0.5]], 0), "n_bins=0"),
        (([0], [[0.5, 0.5]], True), "n_bins=True"),
        (([0, 1], [[0.5, 0.5]]), "y has shape"),
        (([0], [0.5, 0.5]), "proba has shape"),
        (([], np.zeros((0, 2))), "proba has shape"),
        (([0], [[0.9, 0.3]]), "sum to 1"),
        (([0], [[1.5, -0.5]]), "expected probabilities"),
        (([0], [[np.nan, 0.5]]), "expected probabilities"),
    ],
)
def test_what_are_no_probabilities_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(*arguments)


def test_classes_must_fit_the_columns():
    with pytest.raises(ValueError, match="classes"):
        expected_calibration_error([0], [[0.5, 0.5]], classes=["a", "b", "c"])
