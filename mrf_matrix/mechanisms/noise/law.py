"""What every law of integer noise offers: its moments, its probabilities, and two samplers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST_SCALE = Fraction(2**55)
"""Largest noise scale: a draw 200 scales out still fits in 63 bits."""

SMALLEST_SCALE = Fraction(1, 2**12)
"""Smallest noise scale: a draw differs from 0 with a probability below exp(-4000)."""


@dataclass(frozen=True)
class NoiseLaw(ABC):
    """A symmetric law on the integers, with an exact rational scale.

    Parameters
    ----------
    scale : Fraction
        A float's exact value, so that OpenDP's samplers take it as it is; 0 for no noise.
    """

    name: ClassVar[str]
    scale: Fraction

    @property
    @abstractmethod
    def variance(self) -> float:
        """Exact variance of one draw, up to rounding of the result."""

    @abstractmethod
    def log_pmf(self, values: NDArray[Any]) -> Floats:
        """Return the logarithm of the probability of each integer."""

    @abstractmethod
    def log_characteristic(self, angles: NDArray[Any]) -> Floats:
        """Return the logarithm of the characteristic function at each angle, shape (f,)."""

    @property
    @abstractmethod
    def fourth_cumulant(self) -> float:
        """Fourth cumulant of one draw: 0 for a normal law."""

    @property
    @abstractmethod
    def has_normal_tails(self) -> bool:
        """Whether a quantile of a sum of draws is at most the normal one and a step of its law."""

    @abstractmethod
    def exact(self, answers: Integers) -> Integers:
        """Return the answers plus independent release-grade draws, never seedable."""

    @abstractmethod
    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Integers:
        """Return independent draws from NumPy: seedable, for studies only."""

    @property
    def guards_as(self) -> type["NoiseLaw"]:
        """The law whose guarantee it has: its own, unless it is made of others' shares."""
        return type(self)

    def pmf(self, values: NDArray[Any]) -> Floats:
        """Return the probability of each integer."""
        return np.asarray(np.exp(self.log_pmf(values)), dtype=np.float64)

    def __str__(self) -> str:
        return f"{self.name} of scale {float(self.scale):.6g}"


@dataclass(frozen=True)
class NoNoise(NoiseLaw):
    """The law of an infinite budget: every draw is 0."""

    name: ClassVar[str] = "no noise"
    scale: Fraction = Fraction(0)

    @property
    def variance(self) -> float:
        """Zero."""
        return 0.0

    def log_pmf(self, values: NDArray[Any]) -> Floats:
        """Return 0 at the integer 0 and minus infinity elsewhere."""
        return np.where(np.asarray(values) == 0, 0.0, -np.inf)

    def log_characteristic(self, angles: NDArray[Any]) -> Floats:
        """Return zeros: the characteristic function of 0 is 1."""
        return np.zeros(len(angles))

    @property
    def fourth_cumulant(self) -> float:
        """Zero."""
        return 0.0

    @property
    def has_normal_tails(self) -> bool:
        """True: there are none."""
        return True

    def exact(self, answers: Integers) -> Integers:
        """Return a copy of the answers."""
        return answers.copy()

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Integers:
        """Return zeros."""
        return np.zeros(shape, dtype=np.int64)

    def __str__(self) -> str:
        return self.name


def above(square: Fraction) -> Fraction:
    """Return the least double whose square is at least ``square``, as an exact fraction.

    OpenDP takes scales as doubles. Rounding the scale up can only add noise, so privacy holds.

    Raises
    ------
    ValueError
        If the scale would exceed `LARGEST_SCALE`: the budget is too small for the sensitivity.
    """
    if square > LARGEST_SCALE**2:
        raise ValueError(
            f"noise of scale above 2**{LARGEST_SCALE.numerator.bit_length() - 1} is needed, too "
            f"much for 64-bit answers: expected a larger budget or a smaller sensitivity."
        )
    if square <= SMALLEST_SCALE**2:
        return SMALLEST_SCALE
    scale = sqrt(square)
    while Fraction(scale) ** 2 < square:
        scale = nextafter(scale, inf)
    while Fraction(nextafter(scale, 0.0)) ** 2 >= square:
        scale = nextafter(scale, 0.0)
    return Fraction(scale)


def checked_scale(scale: Fraction) -> Fraction:
    """Return a positive scale that a double represents exactly, or refuse."""
    exact = Fraction(scale)
    if not SMALLEST_SCALE <= exact <= LARGEST_SCALE or Fraction(float(exact)) != exact:
        raise ValueError(
            f"scale={scale}: expected a number from 2**-12 to 2**55 that a double represents "
            f"exactly."
        )
    return exact
