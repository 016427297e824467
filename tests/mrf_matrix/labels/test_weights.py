"""Weights of counts: whole numbers whose neighbours are no further apart than the rate allows."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import exp, log
from sys import getsizeof

import numpy as np
import pytest

from mrf_matrix.labels import draw as module
from mrf_matrix.labels.draw import BITS, STEEPEST, bytes_of, weights

RATES = [
    Fraction(1, 10**400),
    Fraction(1, 2**60),
    Fraction(3, 10**17),
    Fraction(1, 10**6),
    Fraction(1, 7),
    Fraction(0.1),
    Fraction(5, 2),
    Fraction(40),
    Fraction(STEEPEST),
    Fraction(10**6),
]


def exceeds(found, rate):
    """Return whether some neighbour weighs more than ``exp(rate)`` times as much, exactly."""
    steep = min(rate, Fraction(10**4))  # no double is as large as the exponential of more
    with localcontext(Context(prec=600, rounding=ROUND_FLOOR)):
        most = (Decimal(steep.numerator) / Decimal(steep.denominator)).exp()
        return any(Decimal(two) > Decimal(one) * most for one, two in pairwise(found))


@pytest.mark.parametrize("rate", RATES, ids=float)
def test_one_record_more_weighs_no_less_and_no_more_than_the_rate_allows(rate):
    found = weights(rate, 3000).tolist()
    assert len(found) == 3001
    assert found[0] == 1 << BITS
    assert all(type(one) is int for one in found)
    assert found == sorted(found)
    assert not exceeds(found, rate)


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 7), Fraction(40)], ids=float)
def test_what_is_rounded_up_would_exceed_it(rate, monkeypatch):
    """The negative control: a step that is too large by one in 2**100 is found out."""

    def rounded_up(rate):
        context = Context(prec=400, rounding=ROUND_CEILING)
        exact = context.divide(Decimal(rate.numerator), Decimal(rate.denominator))
        step = int(context.multiply(context.exp(exact), Decimal(1 << BITS)))
        return step + (step >> 100)

    monkeypatch.setattr(module, "_step", rounded_up)
    assert exceeds(weights(rate, 6).tolist(), rate)


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 7), Fraction(5, 2)], ids=float)
def test_weights_are_those_of_the_exponential_mechanism(rate):
    found = weights(rate, 100)
    for n in (1, 2, 63, 64, 100):
        assert found[n] / 2**BITS == pytest.approx(exp(float(rate) * n), rel=1e-12)


def test_far_beyond_they_rise_less_steeply_in_pieces_twice_as_wide():
    rate, width = Fraction(2), STEEPEST // 2
    logs = np.array([log(one) for one in weights(rate, 8 * width).tolist()]) - BITS * log(2)
    rises = np.diff(logs)
    for piece, (start, end) in enumerate([(0, 1), (1, 3), (3, 7)]):
        np.testing.assert_allclose(rises[start * width : end * width], 2 / 2**piece, rtol=1e-9)
    assert logs[7 * width] == pytest.approx(3 * STEEPEST)


def test_a_rate_of_nothing_is_flat():
    assert set(weights(Fraction(0), 50).tolist()) == {1 << BITS}
    assert set(weights(Fraction(1, 2**70), 50).tolist()) == {1 << BITS}
    assert len(set(weights(Fraction(1, 2**50), 50).tolist())) == 51


@pytest.mark.parametrize(
    "rate", [Fraction(1, 10**9), Fraction(1, 10), Fraction(1), Fraction(255), Fraction(300)]
)
@pytest.mark.parametrize("largest", [1, 50, 2000, 60_000])
def test_no_weight_takes_more_than_is_said(largest, rate):
    found = weights(rate, largest)
    said = bytes_of(rate, largest)
    taken = 8 + getsizeof(found[-1])
    assert 0.8 * said - 16 <= taken <= said
    assert max(map(getsizeof, found.tolist())) == getsizeof(found[-1])


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 17, 64, 65])
def test_as_many_are_written_out_as_are_asked_for(largest):
    found = weights(Fraction(1, 3), largest)
    assert len(found) == largest + 1
    np.testing.assert_array_equal(found, weights(Fraction(1, 3), 65)[: largest + 1])
