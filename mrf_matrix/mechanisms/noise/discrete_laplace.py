"""Discrete Laplace noise: the two-sided geometric law."""

from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1, log, log1p, sinh
from typing import ClassVar, Self

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs
from mrf_matrix.mechanisms.budgets.budget import PureDP
from mrf_matrix.mechanisms.noise.law import above
from mrf_matrix.mechanisms.noise.sampler import SampledLaw, Sampler


@dataclass(frozen=True)
class DiscreteLaplace(SampledLaw):
    """``P(X = x) = tanh(1/2t) exp(-|x|/t)`` on the integers (Ghosh, Roughgarden, Sundararajan).

    Added to integer answers of L1 sensitivity Δ, the scale ``t = Δ/ε`` gives pure ε-DP: the
    probabilities of one output under neighbours differ by a factor of at most ``exp(Δ/t)``.

    Parameters
    ----------
    scale : Fraction
        The scale t, positive and equal to some double.

    Examples
    --------
    >>> law = DiscreteLaplace(Fraction(10))
    >>> round(law.variance, 4)  # a little below 2 t**2
    199.8334
    """

    name: ClassVar[str] = "discrete Laplace noise"
    budget_kind: ClassVar[type[PureDP]] = PureDP
    sampler: ClassVar[Sampler] = "laplace"
    scale: Fraction

    @classmethod
    def calibrated(cls, column_sum: int, squared_factor: int, amount: Fraction) -> Self:
        """Return the law that makes integer answers ε-DP: ``t = f Δ / ε``."""
        return cls(above(squared_factor * (column_sum / amount) ** 2))

    @property
    def variance(self) -> float:
        """``2 exp(-1/t) / (1 - exp(-1/t))² = 1 / (2 sinh²(1/2t))``, stable for any t."""
        half = float(1 / (2 * self.scale))
        return 0.5 / sinh(half) ** 2 if half < 300 else 2 * exp(-2 * half)

    def log_pmf(self, values: Array | AnyInts) -> Array:
        """Return ``log tanh(1/2t) - |x|/t``."""
        t = float(self.scale)
        normaliser = log(-expm1(-1 / t)) - log1p(exp(-1 / t))
        return np.asarray(normaliser - np.abs(np.asarray(values, dtype=np.float64)) / t)

    def log_characteristic(self, angles: Array) -> Array:
        r"""Return the logarithm of ``(1-p)² / ((1-p)² + 4 p sin²(θ/2))`` with ``p = exp(-1/t)``."""
        t = float(self.scale)
        waves = 4 * exp(-1 / t) * np.sin(np.asarray(angles) / 2) ** 2
        return np.asarray(-np.log1p(waves / expm1(-1 / t) ** 2))

    @property
    def fourth_cumulant(self) -> float:
        """That of a difference of two geometric laws: ``2p (1 + 4p + p²) / (1-p)⁴``."""
        t = float(self.scale)
        p = exp(-1 / t)
        return 2 * p * (1 + 4 * p + p * p) / expm1(-1 / t) ** 4

    @property
    def has_normal_tails(self) -> bool:
        """False: they are exponential."""
        return False

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Longs:
        """Return draws as the difference of two geometric variables, which has this law."""
        stop = -expm1(-1 / float(self.scale))
        first, second = generator.geometric(stop, size=(2, *shape))
        return np.asarray(first - second, dtype=np.int64)
