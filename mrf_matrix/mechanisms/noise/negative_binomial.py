"""Exact draws of negative binomial variables, by integers alone.

Negative binomials of one q add: shapes r and r' sum to shape r + r'. So the geometric variables
that discrete Laplace noise is made of can be drawn by several parties, a share each.

A draw inverts the distribution function at a uniform real number U, of which 64 bits are drawn at
first. The function is known as integers that bound it from below and above; where 64 bits of U do
not settle between two values, more bits of both are taken. No float is rounded anywhere, so the law
is exact, and one word a draw is enough but for one draw in 2**50.
"""

import os
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from mrf_matrix.base.arrays import Longs, Words

WordSource = Callable[[int], Words]  # returns so many uniform 64-bit words

LARGEST_TABLED_SCALE = 4096  # largest scale t whose table, of about 45 t whole numbers, is made

GUARD = 64  # bits that tables are computed with beyond those that are used

WORD = 64
BLOCK = 2**20


def system_words(count: int) -> Words:
    """Return uniform words from the operating system, which cannot be seeded."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def negative_binomial(
    scale: Fraction, shape: Fraction, count: int, words: WordSource = system_words
) -> Longs:
    """Return independent draws of NB(r, 1 - q), ``q = exp(-1/t)``, exactly.

    ``P(g) = (1-q)^r q^g Γ(r+g) / (Γ(r) g!)``: for r = 1 the geometric law.

    `scale`: t, at most `LARGEST_TABLED_SCALE`; `shape`: r, positive. Whole parts are drawn one by
    one and added; `count`: number of draws; the largest arrays hold as many words; `words`: where
    randomness comes from.

    Raises ValueError if the scale is too large for a table, or the shape not positive.
    """
    check_tabled(scale, shape)
    whole, rest = divmod(Fraction(shape), 1)
    shapes = [Fraction(1)] * int(whole) + [rest] * (rest > 0)
    total = np.zeros(count, dtype=np.int64)
    for part in shapes:
        for start in range(0, count, BLOCK):
            block = total[start : start + BLOCK]
            block += _inverted(scale, part, words(len(block)), words)
    return total


def check_tabled(scale: Fraction, shape: Fraction) -> None:
    """Refuse a law whose table is not made."""
    if not 0 < scale <= LARGEST_TABLED_SCALE:
        raise ValueError(
            f"scale={float(scale):.6g}: shares of discrete Laplace noise are drawn exactly up to a "
            f"scale of {LARGEST_TABLED_SCALE}. Expected a strategy of smaller integers, a larger "
            f"epsilon, or zCDP (rho=), whose shares have any scale."
        )
    if not shape > 0:
        raise ValueError(f"shape={shape}: expected a positive fraction.")


def _inverted(scale: Fraction, shape: Fraction, first: Words, words: WordSource) -> Longs:
    """Return the value at which the distribution function passes each word."""
    low, high = _arrays(scale, shape)
    values = np.searchsorted(low, first, side="right")
    # settled: the function stays at or below U's cell before this value, and above it from there
    below = np.concatenate([np.zeros(1, dtype=np.uint64), high])[values]
    unsettled = np.flatnonzero((below > first) | (values == len(low)))
    for place in unsettled.tolist():
        values[place] = draw_within(scale, shape, int(first[place]), WORD, words)
    return values.astype(np.int64)


def draw_within(scale: Fraction, shape: Fraction, value: int, bits: int, words: WordSource) -> int:
    """Return the draw at U in ``[value, value + 1) / 2**bits``, with as many bits as it takes."""
    while True:
        low, high = cumulative(scale, shape, bits)
        place = next((g for g, bound in enumerate(low) if bound > value), None)
        if place is not None and (place == 0 or high[place - 1] <= value):
            return place
        value, bits = (value << WORD) | int(words(1)[0]), bits + WORD


@lru_cache(maxsize=256)
def _arrays(scale: Fraction, shape: Fraction) -> tuple[Words, Words]:
    """Return the table of one word. An upper bound of 1 is cut: the last word is never settled."""
    low, high = cumulative(scale, shape, WORD)
    last = (1 << WORD) - 1
    return np.array(low, np.uint64), np.array([min(bound, last) for bound in high], np.uint64)


@lru_cache(maxsize=256)
def cumulative(scale: Fraction, shape: Fraction, bits: int) -> tuple[list[int], list[int]]:
    """Return integers with ``low_g <= 2**bits P(X <= g) <= high_g``, g = 0, 1, ...

    They go on until what is left has a probability below ``2**-bits``. The shape is at most 1.
    ``P(0) = (1-q)^r`` is a whole root of whole numbers, and
    ``P(g) = P(g-1) q (r + g - 1) / g``; every step is rounded down for one bound, up for the other.
    """
    a, b = shape.numerator, shape.denominator
    one = 1 << (bits + GUARD)
    q_low, q_high = _decay(scale, bits + GUARD)
    power = (one - q_high) ** a * one ** (b - a), (one - q_low) ** a * one ** (b - a)
    p_low, p_high = whole_root(power[0], b, one), whole_root(power[1], b, one) + 1
    low, high = [p_low], [p_high]
    g = 0
    while p_high * q_high > (one - q_high) << GUARD:
        g += 1
        p_low = p_low * q_low * ((g - 1) * b + a) // (one * g * b)
        p_high = -(-p_high * q_high * ((g - 1) * b + a) // (one * g * b))
        low.append(low[-1] + p_low)
        high.append(high[-1] + p_high)
    return [x >> GUARD for x in low], [-(-x >> GUARD) for x in high]


def _decay(scale: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around ``2**bits exp(-1/t)``, from the series of ``exp(1/t)``."""
    n, d = (1 / Fraction(scale)).as_integer_ratio()
    one = 1 << bits
    low = high = down = up = one
    i = 0
    while up > 1 or i * d < 2 * n:  # from then on each term is at most half of the one before
        i += 1
        down, up = down * n // (d * i), -(-up * n // (d * i))
        low, high = low + down, high + up
    return one * one // (high + up), -(-one * one // low)


def whole_root(number: int, degree: int, above: int) -> int:
    """Return the floor of a root of a positive number, by Newton's steps from a bound above it."""
    guess = above
    while True:
        better = ((degree - 1) * guess + number // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better
