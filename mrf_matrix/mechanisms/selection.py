"""Private choices: random bits, and the exponential mechanism with exact weights.

Option i of a node is chosen with probability proportional to ``exp(-rate * gap_i)``, where
``gap_i >= 0`` is an integer, how far its score is behind. Draw an option uniformly and accept it
with probability ``exp(-rate * gap)``, until one is accepted: the best has gap 0, so one in m
draws is accepted at least. The coin of probability ``exp(-x)``, x a fraction of a power of two,
is thrown by comparing uniform integers only (Canonne, Kamath and Steinke 2020, Algorithm 1): no
logarithm, no exponential and no rounding takes part, so that the law is exactly the one whose
privacy is proved.
"""

import os
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Bools, Longs, Seed, Words
from mrf_matrix.base.checks import check_parent_process
from mrf_matrix.base.work import Choice, enter_draw

Noise = Literal["exact", "research"]
REMARK = " (research noise, not a release)"
"""Added to descriptions of what was drawn from a seed."""


@dataclass(frozen=True, eq=False)
class Bits:
    """A source of uniform 64-bit words."""

    # None for the operating system's randomness, which cannot be seeded
    generator: np.random.Generator | None = None

    @classmethod
    def of(cls, noise: object, noise_state: Seed = None) -> "Bits":
        """Return the source of a noise mode.

        `noise` {"exact", "research"}: "exact": system randomness, in the parent process only.
        "research": seedable. `noise_state`: seed of research noise.

        Raises ValueError if the mode is unknown, or exact noise is given a seed; NoiseProcessError
        for exact noise in a worker process.
        """
        if noise == "research":
            return cls(np.random.default_rng(noise_state))
        if noise != "exact":
            raise ValueError(f"noise={noise!r}: expected 'exact' or 'research'.")
        if noise_state is not None:
            raise ValueError(
                f"noise_state={noise_state!r} with noise='exact': release-grade choices cannot be "
                f"seeded, or whoever holds the seed could undo them. Use noise='research' to study."
            )
        check_parent_process()
        return cls()

    @property
    def noise(self) -> Noise:
        return "exact" if self.generator is None else "research"

    @property
    def remark(self) -> str:
        """What to say of anything made with these bits."""
        return "" if self.generator is None else REMARK

    def words(self, count: int) -> Words:
        raw = os.urandom(8 * count) if self.generator is None else self.generator.bytes(8 * count)
        return np.frombuffer(raw, dtype=np.uint64)

    def uniform_bits(self, count: int, bits: int) -> Longs:
        """Return uniform integers of so many bits (at most 62)."""
        return (self.words(count) >> np.uint64(64 - bits)).astype(np.int64)

    def uniform_below(self, limit: Longs) -> Longs:
        """Return one uniform integer in [0, limit) for each limit, exactly: by rejection."""
        result = np.zeros(len(limit), dtype=np.int64)
        pending = np.arange(len(limit))
        while len(pending):
            bound = limit[pending].astype(np.uint64)
            words = self.words(len(pending)) >> np.uint64(1)
            whole = np.uint64(1 << 63) // bound * bound
            accepted = words < whole
            result[pending[accepted]] = (words[accepted] % bound[accepted]).astype(np.int64)
            pending = pending[~accepted]
        return result

    def number(self, bits: int) -> int:
        """Return a uniform whole number of so many bits, however many they are."""
        count = -(-bits // 64)
        return int.from_bytes(self.words(count).tobytes(), "little") >> (64 * count - bits)

    def number_below(self, limit: int) -> int:
        """Return a uniform integer in [0, limit), exactly, however large the limit is."""
        while True:
            number = self.number(limit.bit_length())
            if number < limit:
                return number

    def coins(self, count: int, share: float) -> NDArray[np.bool_]:
        """Return independent coins that are True with probability `share` (to 53 bits)."""
        return np.asarray(self.uniform_bits(count, 53) < round(share * (1 << 53)))


LARGEST_GAP = 1 << 31  # gaps must stay below it, so that rate times gap fits in 62 bits


LARGEST_RATE = 1 << 24  # rates must stay below it; no one can tell them from infinity


@dataclass(frozen=True)
class Rate:
    """``units / 2**shift``: a rate rounded down, which can only add privacy; None is infinity.

    >>> Rate.of(Fraction(1, 3)).value <= Fraction(1, 3)
    True
    """

    units: int | None
    shift: int = 24

    @classmethod
    def of(cls, rate: Fraction | float, largest_gap: int = LARGEST_GAP) -> "Rate":
        """Return the rate with as many bits as fit beside gaps of at most `largest_gap`."""
        if rate == float("inf"):
            return cls(None)
        exact = Fraction(rate)
        if exact >= LARGEST_RATE:
            raise ValueError(
                f"rate={exact}: expected less than {LARGEST_RATE}; use float('inf') for no noise."
            )
        whole = floor(exact).bit_length()
        if not whole:  # as many more bits as the rate begins behind the point
            whole = min(0, exact.numerator.bit_length() - exact.denominator.bit_length() + 1)
        bits = 61 - largest_gap.bit_length() - whole
        shift = max(1, min(60, bits))
        return cls(floor(exact * (1 << shift)), shift)

    @property
    def value(self) -> Fraction | float:
        return float("inf") if self.units is None else Fraction(self.units, 1 << self.shift)


def select(gaps: Longs, options: Bools, rate: Rate, bits: Bits) -> Longs:
    """Choose a row for every column by the exponential mechanism; -1 where there is no option.

    `gaps` (rows, nodes): how far each option is behind the best possible score; only read at
    options; `options` (rows, nodes): what may be chosen: **public**.
    """
    if rate.units is None:
        least = np.where(options, gaps, LARGEST_GAP).min(axis=0)
        options = options & (gaps == least)
    number = options.sum(axis=0)
    starts = np.cumsum(number) - number
    rows = np.nonzero(options.T)[1]
    chosen = np.full(len(number), -1, dtype=np.int64)
    pending = np.flatnonzero(number)
    draw = enter_draw(Choice)
    while len(pending):
        row = rows[starts[pending] + bits.uniform_below(number[pending])]
        if rate.units is None:
            accepted = np.ones(len(pending), dtype=np.bool_)
        else:
            accepted = accept_gaps(gaps[row, pending], rate, bits)
        chosen[pending[accepted]] = row[accepted]
        pending = pending[~accepted]
    draw.outcome = chosen
    return chosen


def accept_gaps(gaps: Longs, rate: Rate, bits: Bits) -> Bools:
    """Throw coins that are True with probability ``exp(-rate * gap)``, exactly; the rate is finite.

    Gaps are clipped below `LARGEST_GAP`, so that products fit in 62 bits: scores are so raised to
    the best one's less a constant. One record moves them no further, and lowers none that it raised
    before.
    """
    assert rate.units is not None
    return coin_exp(np.minimum(gaps, LARGEST_GAP - 1) * rate.units, rate.shift, bits)


def coin_exp(numerator: Longs, shift: int, bits: Bits) -> Bools:
    """Throw coins that are True with probability ``exp(-numerator / 2**shift)``, exactly."""
    result = _coin_below_one(numerator & ((1 << shift) - 1), shift, bits)
    whole = np.where(result, numerator >> shift, 0)
    while (alive := np.flatnonzero(whole > 0)).size:
        passed = _coin_below_one(np.full(len(alive), 1 << shift), shift, bits)
        result[alive[~passed]] = False
        whole[alive] = np.where(passed, whole[alive] - 1, 0)
    return result


def _coin_below_one(numerator: Longs, shift: int, bits: Bits) -> Bools:
    """Throw ``exp(-x)`` for x in [0, 1]: the first k whose coin of x/k fails is odd that often."""
    odd = np.zeros(len(numerator), dtype=np.bool_)
    pending = np.arange(len(numerator))
    k = 1
    while len(pending):
        first = bits.uniform_below(np.full(len(pending), k)) == 0
        hit = first & (bits.uniform_bits(len(pending), shift) < numerator[pending])
        odd[pending[~hit]] = k % 2 == 1
        pending = pending[hit]
        k += 1
    return odd


def chosen_place(gaps: Longs, options: Bools, rate: Rate, bits: Bits) -> int:
    """Choose among the options of the only column; without noise the first of the best."""
    if rate.units is None:
        return int(np.argmax(options[:, 0] & (gaps[:, 0] == 0)))
    return int(select(np.where(options, gaps, 0), options, rate, bits)[0])


def probabilities(gaps: NDArray[Any], options: Bools, rate: Rate) -> NDArray[np.float64]:
    """Return the law of `select`: each option's probability, columns summing to one."""
    if rate.units is None:
        least = np.where(options, gaps, LARGEST_GAP).min(axis=0)
        weights = (options & (gaps == least)).astype(np.float64)
    else:
        weights = np.where(options, np.exp(-float(rate.value) * np.asarray(gaps)), 0.0)
    return np.asarray(weights / np.maximum(weights.sum(axis=0), np.finfo(float).tiny))
