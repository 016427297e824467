"""Noise that parties draw in shares, whose sum has the law of a release, and of how many parties.

*Exact draws of negative binomial variables, by integers alone.* Negative binomials of one q add:
shapes r and r' sum to shape r + r'. So the geometric variables that discrete Laplace noise is made
of can be drawn by several parties, a share each.

A draw inverts the distribution function at a uniform real number U, of which 64 bits are drawn at
first. The function is known as integers that bound it from below and above; where 64 bits of U do
not settle between two values, more bits of both are taken. No float is rounded anywhere, so the law
is exact, and one word a draw is enough but for one draw in 2**50.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, sqrt
from typing import ClassVar

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs, Words
from mrf_matrix.base.checks import check_parent_process, short_repr
from mrf_matrix.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw, checked_scale
from mrf_matrix.mechanisms.selection import Bits

WordSource = Callable[[int], Words]  # returns so many uniform 64-bit words
SYSTEM: WordSource = Bits().words  # from the operating system, which cannot be seeded

LARGEST_TABLED_SCALE = 4096  # largest scale t whose table, of about 45 t whole numbers, is made

GUARD = 64  # bits that tables are computed with beyond those that are used

WORD = 64
BLOCK = 2**20


def negative_binomial(
    scale: Fraction, shape: Fraction, count: int, words: WordSource = SYSTEM
) -> Longs:
    """Return independent draws of NB(r, 1 - q), ``q = exp(-1/t)``, exactly.

    ``P(g) = (1-q)^r q^g Γ(r+g) / (Γ(r) g!)``: for r = 1 the geometric law.

    `scale`: t, at most `LARGEST_TABLED_SCALE`; `shape`: r, positive. Whole parts are drawn one by
    one and added; `count`: number of draws; the largest arrays hold as many words; `words`: where
    randomness comes from.

    Raises ValueError if the scale is too large for a table, or the shape not positive.
    """
    check_table_size(scale, shape)
    whole, rest = divmod(Fraction(shape), 1)
    shapes = [Fraction(1)] * int(whole) + [rest] * (rest > 0)
    total = np.zeros(count, dtype=np.int64)
    for part in shapes:
        for start in range(0, count, BLOCK):
            block = total[start : start + BLOCK]
            block += _invert(scale, part, words(len(block)), words)
    return total


def check_table_size(scale: Fraction, shape: Fraction) -> None:
    if not 0 < scale <= LARGEST_TABLED_SCALE:
        raise ValueError(
            f"scale={float(scale):.6g}: shares of discrete Laplace noise are drawn exactly up to a "
            f"scale of {LARGEST_TABLED_SCALE}. Expected a strategy of smaller integers, a larger "
            f"epsilon, or zCDP (rho=), whose shares have any scale."
        )
    if not shape > 0:
        raise ValueError(f"shape={shape}: expected a positive fraction.")


def _invert(scale: Fraction, shape: Fraction, first: Words, words: WordSource) -> Longs:
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


@dataclass(frozen=True)
class Quorum:
    """How many parties there are, how many may vanish, and how many may collude.

    Noise is shared among the parties who are certain to be there and to keep their share secret:
    ``s = parties - dropouts - colluders``. The sum may be opened only if ``parties - dropouts``
    parties contributed to it, for then at least s of them are honest.

    Attributes
    ----------
    parties : int
        k, at least 2.
    dropouts : int
        Parties that may vanish on the way without harm to the guarantee.
    colluders : int
        C, parties that may tell the server all they know.

    Raises
    ------
    ValueError
        If a number is negative or no honest party would be left.

    Examples
    --------
    >>> Quorum(10, 2, 1).honest, Quorum(10, 2, 1).threshold
    (7, 8)
    """

    parties: int
    dropouts: int = 0
    colluders: int = 0

    def __post_init__(self) -> None:
        for name, least in (("parties", 2), ("dropouts", 0), ("colluders", 0)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value < 2**31:
                raise ValueError(
                    f"{name}={short_repr(value)}: expected a whole number from {least} to "
                    f"{2**31 - 1}."
                )
        if self.honest < 1:
            raise ValueError(
                f"parties={self.parties}, dropouts={self.dropouts}, colluders={self.colluders}: "
                f"no party is sure to stay and to be honest, so nobody's noise protects. Expected "
                f"dropouts + colluders below the number of parties."
            )

    @property
    def honest(self) -> int:
        """The least number s of honest parties whose noise is in an opened sum."""
        return self.parties - self.dropouts - self.colluders

    @property
    def threshold(self) -> int:
        """The least number of contributions of an opened sum: s + C."""
        return self.parties - self.dropouts

    @property
    def condition(self) -> str:
        """What the guarantee rests on, in words."""
        kept = "every party" if not self.dropouts else f"at least {self.threshold} parties"
        return (
            f"conditional on {kept} of {self.parties} contributing, of whom at most "
            f"{self.colluders} collude with a server that follows the protocol"
        )


@dataclass(frozen=True)
class SharedDiscreteLaplace(NoiseLaw):
    """Difference of two negative binomials of shape r: r shares of discrete Laplace noise.

    With ``q = exp(-1/t)`` discrete Laplace noise is the difference of two geometric variables,
    NB(1, 1-q). Negative binomials add in their shape, so s independent draws of this law with
    shape 1/s sum *exactly* to discrete Laplace noise of scale t, and any shape r = 1 + r' is that
    noise plus an independent rest.

    Parameters
    ----------
    scale : Fraction
        The scale t of the discrete Laplace law at shape 1.
    shape : Fraction
        The shape r, positive.

    Examples
    --------
    >>> half = SharedDiscreteLaplace(Fraction(5), Fraction(1, 2))
    >>> bool(np.isclose(2 * half.variance, DiscreteLaplace(Fraction(5)).variance))
    True
    """

    name: ClassVar[str] = "shared discrete Laplace noise"
    guards_as: ClassVar[type[NoiseLaw]] = DiscreteLaplace
    """Where enough shares of honest parties come together."""
    scale: Fraction
    shape: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale(self.scale))
        object.__setattr__(self, "shape", Fraction(self.shape))
        check_table_size(self.scale, self.shape)

    @property
    def whole(self) -> DiscreteLaplace:
        """The law at shape 1."""
        return DiscreteLaplace(self.scale)

    @property
    def variance(self) -> float:
        """``2 r q / (1 - q)²``: r times that of discrete Laplace noise."""
        return float(self.shape) * self.whole.variance

    def log_pmf(self, values: Array | AnyInts) -> Array:
        """Return the logarithm of the probabilities, from a table of ratios.

        Beyond 60 scales the tail is ``x^(r-1) exp(-x/t)``, to three digits of the probability.
        """
        table = _log_probabilities(self.scale, self.shape)
        x = np.abs(np.asarray(values, dtype=np.float64))
        end = len(table) - 1
        beyond = np.maximum(x, end)
        tail = (float(self.shape) - 1) * np.log(beyond / end) - (beyond - end) / float(self.scale)
        return np.asarray(table[np.minimum(x, end).astype(np.int64)] + tail)

    def log_characteristic(self, angles: Array) -> Array:
        """Return the logarithm of the characteristic function, r times that at shape 1."""
        return float(self.shape) * self.whole.log_characteristic(angles)

    @property
    def fourth_cumulant(self) -> float:
        """``2 r q (1 + 4q + q²) / (1 - q)⁴``."""
        return float(self.shape) * self.whole.fourth_cumulant

    @property
    def has_normal_tails(self) -> bool:
        """False: its tails fall as those of discrete Laplace noise."""
        return False

    def exact(self, answers: Longs) -> Longs:
        """Return the answers plus exact draws, from the system's randomness."""
        check_parent_process()
        return answers + self.draws(answers.shape, SYSTEM)

    def draws(self, shape: tuple[int, ...], words: WordSource) -> Longs:
        """Return exact draws from a source of uniform words."""
        count = int(np.prod(shape))
        first, second = (negative_binomial(self.scale, self.shape, count, words) for _ in "+-")
        return (first - second).reshape(shape)

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Longs:
        """Return draws as the difference of two of NumPy's negative binomials."""
        stop = -np.expm1(-1 / float(self.scale))
        first, second = generator.negative_binomial(float(self.shape), stop, size=(2, *shape))
        return np.asarray(first - second, dtype=np.int64)

    def __str__(self) -> str:
        return f"{super().__str__()} and shape {self.shape}"


@lru_cache(maxsize=64)
def _log_probabilities(scale: Fraction, shape: Fraction) -> Array:
    r"""Return ``log P(x)`` of differences of negative binomials, x = 0 to 60 t.

    Their characteristic function is :math:`(1 + q^2 - 2 q \cos\theta)^{-r}` and a constant. Its
    derivative gives :math:`(x+1-r) q P_{x+1} = (1+q^2) x P_x - (x-1+r) q P_{x-1}`, of which P is
    the decaying solution, so ratios are found from far out inwards (Miller's method).
    """
    t, r = float(scale), float(shape)
    square, end = exp(-2 / t), int(60 * t) + 100
    ratio, ratios = 1.0, []
    for x in range(end + int(30 * t) + 30, 0, -1):  # P(x) / P(x - 1) is q times this
        ratio = (x - 1 + r) / ((1 + square) * x - (x + 1 - r) * square * ratio)
        if x <= end:
            ratios.append(ratio)
    steps = np.log(ratios[::-1]) - 1 / t
    relative = np.concatenate([np.zeros(1), np.cumsum(steps)])
    return np.asarray(relative - np.log(2 * np.exp(relative).sum() - 1))


@dataclass(frozen=True)
class SharedDiscreteGaussian(NoiseLaw):
    """Sum of independent discrete Gaussians, one a party. It is *no* discrete Gaussian.

    Parameters
    ----------
    scale : Fraction
        σ of each party's draw, at least 1.
    parties : int
        How many draws were added.

    Notes
    -----
    Its probabilities are those of the discrete Gaussian of variance parameter ``n σ²``, up to a
    factor of ``1 ± 4 n exp(-π²σ²)``: below 1e-8 from σ² = 2 on. See
    `mrf_matrix.federated.shares.design`.
    """

    name: ClassVar[str] = "sums of discrete Gaussian noise"
    guards_as: ClassVar[type[NoiseLaw]] = DiscreteGaussian
    """Up to the correction for sums that its design charges."""
    scale: Fraction
    parties: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale(self.scale))
        if self.scale < 1 or self.parties < 1:
            raise ValueError(
                f"scale={float(self.scale):.6g}, parties={self.parties}: expected a scale and a "
                f"number of parties of at least 1."
            )

    @property
    def whole(self) -> DiscreteGaussian:
        """The discrete Gaussian law that is as wide."""
        return DiscreteGaussian(Fraction(sqrt(self.parties) * float(self.scale)))

    @property
    def variance(self) -> float:
        return self.parties * DiscreteGaussian(self.scale).variance

    def log_pmf(self, values: Array | AnyInts) -> Array:
        return self.whole.log_pmf(values)

    def log_characteristic(self, angles: Array) -> Array:
        """Return the logarithm of the characteristic function: the parties' add."""
        return self.parties * DiscreteGaussian(self.scale).log_characteristic(angles)

    @property
    def fourth_cumulant(self) -> float:
        return self.parties * DiscreteGaussian(self.scale).fourth_cumulant

    @property
    def has_normal_tails(self) -> bool:
        return DiscreteGaussian(self.scale).has_normal_tails

    def exact(self, answers: Longs) -> Longs:
        """Return the answers plus every party's exact draw, by OpenDP."""
        share = DiscreteGaussian(self.scale)
        for _ in range(self.parties):
            answers = share.exact(answers)
        return answers

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Longs:
        return self.whole.research(shape, generator)

    def __str__(self) -> str:
        return f"{super().__str__()} from {self.parties} parties"
