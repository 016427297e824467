"""Whole numbers below any limit: each exactly as likely, by rejection."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mrf_matrix.mechanisms.selection import Bits

LIMITS = {
    "two": 2,
    "five": 5,
    "seven": 7,
    "most of a word": 3 << 62,
    "a word": 1 << 64,
    "more than a word": (1 << 64) + 1,
    "many words": 1 << 1000,
    "most of many": (3 << 998) + 5,
}
SKEWED = ["five", "most of a word", "most of many"]
"""Limits that a number of as many bits, reduced to below them, shows to be skewed."""

DRAWS = 6000


@dataclass(frozen=True, eq=False)
class Fixed(Bits):
    """Bits that are written down."""

    left: list = field(default_factory=list)

    def words(self, count):
        return np.array([self.left.pop(0) for _ in range(count)], dtype=np.uint64)


def drawn(limit, draws=DRAWS):
    bits = Bits(np.random.default_rng(0))
    return [bits.number_below(limit) for _ in range(draws)]


def reduced(limit):
    """Return numbers that are reduced where they should be drawn again."""
    return [number % limit for number in drawn(1 << limit.bit_length())]


def evenness(numbers, limit):
    """Return the smaller p-value of chi-square: of where numbers lie, and of their remainders.

    `limit`: far above the number of parts, or at most that.
    """
    assert 0 <= min(numbers) <= max(numbers) < limit
    parts = min(limit, 16)
    starts = [-(-part * limit // parts) for part in range(parts + 1)]
    shares = [(end - start) / limit for start, end in pairwise(starts)]
    places = np.bincount([number * parts // limit for number in numbers], minlength=parts)
    last = np.bincount([number % parts for number in numbers], minlength=parts)
    of_places = stats.chisquare(places, len(numbers) * np.array(shares))
    return min(of_places.pvalue, stats.chisquare(last).pvalue)


@pytest.mark.parametrize("name", LIMITS)
def test_numbers_are_even(name):
    assert evenness(drawn(LIMITS[name]), LIMITS[name]) > 1e-4


@pytest.mark.parametrize("name", SKEWED)
def test_numbers_that_are_reduced_are_found_to_be_skewed(name):
    """The negative control."""
    assert evenness(reduced(LIMITS[name]), LIMITS[name]) < 1e-6


def test_every_bit_of_a_large_number_is_a_coin():
    size, draws = 1000, 4000
    raw = b"".join(number.to_bytes(size // 8, "little") for number in drawn(1 << size, draws))
    bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8)).reshape(draws, size)
    assert np.abs(bits.mean(axis=0) - 1 / 2).max() < 5 / 2 / np.sqrt(draws)


@given(limit=st.integers(1, 300))
def test_every_pattern_of_bits_is_its_number_or_drawn_again(limit):
    """So that each number comes of one pattern of as many."""
    size = limit.bit_length()
    patterns = np.random.default_rng(limit).permutation(1 << size).tolist()
    bits = Fixed(left=[pattern << (64 - size) | 1 for pattern in patterns])
    found = [bits.number_below(limit) for _ in range(limit)]
    assert sorted(found) == list(range(limit))
    assert found == [pattern for pattern in patterns if pattern < limit]


@given(number=st.integers(0), beyond=st.integers(1))
def test_any_number_below_any_limit_is_drawn(number, beyond):
    limit = number + beyond
    size = limit.bit_length()
    count = -(-size // 64)

    def words_of(value):
        return np.frombuffer(
            (value << (64 * count - size)).to_bytes(8 * count, "little"), dtype=np.uint64
        ).tolist()

    refused = words_of((1 << size) - 1) if limit < (1 << size) else []
    bits = Fixed(left=[*refused, *words_of(number), 77])
    assert bits.number_below(limit) == number
    assert bits.left == [77]  # no word more than are needed


def test_below_one_there_is_nothing():
    assert set(drawn(1, 100)) == {0}


@pytest.mark.parametrize("limit", [1, 2, 2**64, 2**64 + 1, 2**1000])
def test_the_systems_numbers_are_below_the_limit_too(limit):
    found = {Bits().number_below(limit) for _ in range(50)}
    assert 0 <= min(found) <= max(found) < limit
    assert len(found) == min(limit, 50)
