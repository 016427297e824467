"""Class totals: averaged by inverse variance, exact without noise, plausible under any."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mrf_matrix.posterior import BlockTable, class_totals


def totals_table(values, variance):
    return BlockTable((), (), [values], variance)


def test_estimates_are_averaged_by_inverse_variance():
    block = BlockTable((0,), (4,), np.array([[1000.0, 2000.0]] * 4), 9.0)  # variance 36 of sums
    found = class_totals([block], totals_table([4200.0, 7900.0], 4.0))
    assert found.error == pytest.approx((1 / 36 + 1 / 4) ** -0.5)
    expected = np.array([4000 / 36 + 4200 / 4, 8000 / 36 + 7900 / 4]) / (1 / 36 + 1 / 4)
    assert_allclose(found.values, expected, rtol=1e-4)  # hardly shrunk: 2 in 4000


@pytest.mark.parametrize("values", [[3.0, 7.0], [1.0, 0.0], [1.0], [0.0, 2.0, 1.0], [1e6, 1.0]])
def test_exact_counts_stay(values):
    found = class_totals([BlockTable((0,), (2,), np.array([values, values]) / 2, 0.0)])
    assert found.error == 0
    assert_allclose(found.values, values, atol=0.011, rtol=1e-2)
    assert (found.values > 0).all()


def test_an_exact_source_outweighs_noisy_ones():
    noisy = BlockTable((0,), (1,), [[50.0, -20.0]], 100.0)
    assert_allclose(class_totals([noisy], totals_table([30.0, 70.0], 0.0)).values, [30, 70])


def test_nothing_counted_is_still_positive():
    assert (class_totals([totals_table([0.0, 0.0], 0.0)]).values > 0).all()


@given(
    values=st.lists(st.floats(-1e7, 1e7), min_size=1, max_size=150),
    variance=st.floats(0, 1e13),
)
def test_totals_are_positive_and_shares_sum_to_one(values, variance):
    found = class_totals([totals_table(values, variance)])
    assert (found.values > 0).all()
    assert np.isfinite(found.values).all()
    assert_allclose(found.shares.sum(), 1)
    numbers = np.asarray(values)
    before, after = (
        np.subtract.outer(numbers, numbers),
        np.subtract.outer(found.values, found.values),
    )
    assert (before * after >= -1e-6 * np.abs(before * after).max(initial=0)).all()  # order is kept


def test_many_classes_keep_their_order_under_noise():
    """A least share of 1 % each would make 150 classes equal, whatever was measured."""
    values = np.linspace(500.0, 1500.0, 150)
    found = class_totals([totals_table(values, 1.0)])
    assert_allclose(found.values, values, rtol=0.01)


def test_the_number_of_records_is_the_mean_of_a_normal_cut_off_at_zero():
    rng = np.random.default_rng(0)
    for sums in (-30.0, 0.0, 40.0, 400.0):
        draws = rng.normal(sums, 20.0, size=2_000_000)
        kept = draws[draws > 0]
        if len(kept) > 10_000:
            found = class_totals([totals_table([sums], 400.0)]).values.sum()
            assert found == pytest.approx(kept.mean(), rel=0.02)


def test_shrinkage_helps_where_noise_is_large():
    rng = np.random.default_rng(1)
    true = np.array([260.0, 340.0, 300.0, 100.0])
    raw, shrunk = [], []
    for _ in range(200):
        noisy = true + rng.normal(0, 200, size=4)
        raw.append(((noisy - true) ** 2).sum())
        shrunk.append(((class_totals([totals_table(noisy, 4e4)]).values - true) ** 2).sum())
    assert np.mean(shrunk) < 0.6 * np.mean(raw)
