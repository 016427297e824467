"""Permute-and-flip: its law by all orders, the sampler by its law, privacy by all neighbours."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy import stats

from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.mechanisms.selection.exponential import LARGEST_GAP, Rate, probabilities
from mrf_matrix.mechanisms.selection.permute_and_flip import flip_probabilities, permute_and_flip

GAPS = [[0], [0, 0], [0, 3], [5, 0, 1], [0, 0, 2, 7], [3, 1, 0, 0, 4]]


def by_all_orders(gaps, rate):
    """Return the law by the definition: options are looked at in each order, one after another."""
    found, orders = np.zeros(len(gaps)), list(permutations(range(len(gaps))))
    for order in orders:
        left = 1.0
        for option in order:
            taken = np.exp(-rate * gaps[option])
            found[option] += left * taken / len(orders)
            left *= 1 - taken
    return found


def law(scores, rate):
    """Return the law of each row of scores, (rows, k)."""
    scores = np.asarray(scores)
    return flip_probabilities((scores.max(axis=-1, keepdims=True) - scores).T, rate).T


@pytest.mark.parametrize("rate", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("gaps", GAPS)
def test_the_law_is_that_of_all_orders(gaps, rate):
    np.testing.assert_allclose(
        flip_probabilities(np.array(gaps)[:, None], rate)[:, 0],
        by_all_orders(gaps, rate),
        rtol=1e-12,
    )


@pytest.mark.parametrize("k", [2, 33, 1000])
def test_laws_of_many_options_are_laws(k):
    gaps = np.random.default_rng(0).integers(0, 40, (k, 7))
    gaps[0] = 0
    found = flip_probabilities(gaps, 0.3)
    np.testing.assert_allclose(found.sum(axis=0), 1, rtol=1e-9)
    assert found.min() >= 0


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2)])
def test_draws_follow_the_law(rate):
    times, gaps = 20_000, np.array([0, 1, 1, 6])
    drawn = permute_and_flip(
        np.repeat(gaps[:, None], times, axis=1), Rate.below(rate), Bits(np.random.default_rng(0))
    )
    seen = np.bincount(drawn, minlength=4)
    expected = flip_probabilities(gaps[:, None], float(rate))[:, 0]
    assert stats.chisquare(seen, times * expected).pvalue > 1e-4
    other = probabilities(gaps[:, None], np.ones((4, 1), bool), Rate.below(rate))[:, 0]
    assert stats.chisquare(seen, times * other).pvalue < 1e-6  # the exponential mechanism's


@pytest.mark.parametrize("tiny", [Fraction(1, 10**9), Fraction(1, 10**12), Fraction(3, 2**40)])
def test_tiny_rates_are_kept(tiny):
    """A rate begins far behind the point where there are many records."""
    found = Rate.below(tiny)
    assert tiny * (1 - Fraction(1, 2**12)) < found.value <= tiny
    assert found.units * LARGEST_GAP < 2**62
    gaps = np.repeat([[0], [LARGEST_GAP - 1]], 3000, axis=1)
    chance = float(np.exp(-float(found.value) * (LARGEST_GAP - 1))) / 2
    seen = permute_and_flip(gaps, found, Bits(np.random.default_rng(0))).mean()
    assert abs(seen - chance) < 5 * (chance / 3000) ** 0.5


def test_every_column_has_its_own_options():
    gaps = np.array([[0, 9, 5, LARGEST_GAP], [9, 0, 5, 0], [9, 9, 0, LARGEST_GAP]])
    drawn = permute_and_flip(gaps, Rate.below(100), Bits())
    assert drawn.tolist() == [0, 1, 2, 1]
    assert permute_and_flip(gaps[:, :0], Rate.below(1), Bits()).shape == (0,)


def test_the_best_is_told_no_less_often_than_by_the_exponential_mechanism():
    for gaps in GAPS[1:]:
        column = np.array(gaps)[:, None]
        usual = probabilities(column, np.ones(column.shape, bool), Rate.below(1))[:, 0]
        flips, best = flip_probabilities(column, 1.0)[:, 0], int(np.argmin(gaps))
        assert flips[best] >= usual[best] - 1e-6


TABLES = {k: np.array(list(product(range(5), repeat=k))) for k in (2, 3)}


def largest_ratio(k, rate):
    """Return the largest log ratio of neighbouring tables' laws, one record more either way."""
    found, tables = 0.0, TABLES[k]
    here = np.log(law(tables, rate))
    for c in range(k):
        more = np.log(law(tables + np.eye(k, dtype=int)[c], rate))
        found = max(found, np.abs(more - here).max())
    return found


@pytest.mark.parametrize("rate", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("k", [2, 3])
def test_one_record_more_is_within_the_rate_and_reaches_it(k, rate):
    assert largest_ratio(k, rate) <= rate * (1 + 1e-9)
    assert largest_ratio(k, rate) > rate * 0.999
    assert largest_ratio(k, 1.2 * rate) > rate  # the negative control


@pytest.mark.parametrize("order", [1.05, 2.0, 16.0])
@pytest.mark.parametrize("k", [2, 3])
def test_under_zcdp_it_costs_more_than_the_exponential_mechanism(k, order):
    rate, tables = 0.1, TABLES[k]
    here, most = law(tables, rate), 0.0
    for c in range(k):
        more = law(tables + np.eye(k, dtype=int)[c], rate)
        for one, other in ((here, more), (more, here)):
            moments = (one * (one / other) ** (order - 1)).sum(axis=1)
            most = max(most, float(np.log(moments).max()) / (order - 1) / order)
    assert rate**2 / 8 * 1.05 < most <= rate**2 / 2 * (1 + 1e-9)
    if k == 2 and order < 2:
        assert most > 0.9 * rate**2 / 2  # and nearly as much as that
