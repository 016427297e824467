"""Discrete Gaussian noise: the normal density restricted to the integers."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import log, pi, sqrt
from typing import ClassVar, Self

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs
from mrf_matrix.mechanisms.budgets.budget import ZCDP
from mrf_matrix.mechanisms.noise.law import above
from mrf_matrix.mechanisms.noise.sampler import SampledLaw, Sampler

TABLE_SCALE = 1024
"""Up to this σ research draws invert a table; above, rounded normals agree to 1e-7 relative."""

COARSE = 0.5
"""Below this σ the characteristic function is summed over integers, not over frequencies."""

FINE = 3.0
"""Above this σ the next term of the frequencies' sum is below ``exp(-2π²·9/2)`` of it."""

INTEGERS = np.arange(-40, 41)
"""Where a draw has its mass up to that σ."""


@dataclass(frozen=True)
class DiscreteGaussian(SampledLaw):
    """``P(X = x) ∝ exp(-x²/2σ²)`` on the integers (Canonne, Kamath and Steinke, 2020).

    Added to integer answers of L2 sensitivity Δ, ``σ² = Δ²/2ρ`` gives ρ-zCDP (their Theorem 14).

    Parameters
    ----------
    scale : Fraction
        The parameter σ, positive and equal to some double.

    Examples
    --------
    >>> law = DiscreteGaussian(Fraction(1, 2))
    >>> round(law.variance, 4)  # below σ² = 0.25
    0.215
    """

    name: ClassVar[str] = "discrete Gaussian noise"
    budget_kind: ClassVar[type[ZCDP]] = ZCDP
    sampler: ClassVar[Sampler] = "gaussian"
    scale: Fraction

    @classmethod
    def calibrated(cls, column_sum: int, squared_factor: int, amount: Fraction) -> Self:
        """Return the law that makes integer answers ρ-zCDP: ``σ² = f² Δ² / 2ρ``."""
        return cls(above(squared_factor * column_sum / (2 * amount)))

    @cached_property
    def _moments(self) -> tuple[float, float]:
        """Normaliser ``Σ exp(-x²/2σ²)`` and variance, by whichever series converges fast.

        Poisson summation turns the sum over x into ``σ sqrt(2π) Σ_k exp(-2π²σ²k²)``, and the
        variance is ``σ³`` times the derivative of its logarithm: no cancellation in either.
        """
        sigma = float(self.scale)
        k = np.arange(1, 41, dtype=np.float64)
        if sigma < 1:
            terms = np.exp(-0.5 * (k / sigma) ** 2)
            total = 1 + 2 * terms.sum()
            return float(total), float(2 * (k**2 * terms).sum() / total)
        terms = np.exp(-2 * (pi * sigma * k) ** 2)
        total = 1 + 2 * terms.sum()
        shrink = 2 * ((2 * pi * sigma * k) ** 2 * terms).sum() / total
        return float(sigma * sqrt(2 * pi) * total), float(sigma**2 * (1 - shrink))

    @property
    def variance(self) -> float:
        """Variance by theta series: below σ², and equal to it to double precision above σ = 2."""
        return self._moments[1]

    def log_pmf(self, values: Array | AnyInts) -> Array:
        """Return ``-x²/2σ² - log Σ exp(-x²/2σ²)``."""
        ratio = np.asarray(values, dtype=np.float64) / float(self.scale)
        return np.asarray(-0.5 * ratio**2 - log(self._moments[0]))

    def log_characteristic(self, angles: Array) -> Array:
        r"""Return the logarithm of the characteristic function, by whichever series is short.

        It is, by Poisson's summation, ``Σ_k exp(-σ² (θ + 2πk)²/2)`` over its value at 0, or for
        small σ the cosine series over few integers.
        """
        sigma = float(self.scale)
        if sigma < COARSE:
            few = INTEGERS[np.abs(INTEGERS) <= 4]
            return np.asarray(np.log(np.cos(np.outer(angles, few)) @ self.pmf(few)))
        wrapped = np.abs(np.remainder(np.asarray(angles) + np.pi, 2 * np.pi) - np.pi)
        exponent = -0.5 * (sigma * wrapped) ** 2
        if sigma > FINE:
            return np.asarray(exponent)
        turns = 2 * np.pi * np.arange(-4, 5)
        shifts = -0.5 * sigma**2 * (2 * np.outer(wrapped, turns) + turns**2)
        total = np.exp(shifts).sum(axis=1)
        return np.asarray(exponent + np.log(total / np.exp(-0.5 * (sigma * turns) ** 2).sum()))

    @property
    def fourth_cumulant(self) -> float:
        """Summed over integers; 0 for a large σ, where it differs by ``exp(-2π²σ²)`` only."""
        if float(self.scale) >= FINE:
            return 0.0
        fourth = float(self.pmf(INTEGERS) @ INTEGERS.astype(np.float64) ** 4)
        return fourth - 3 * self.variance**2

    @property
    def has_normal_tails(self) -> bool:
        """True."""
        return True

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Longs:
        """Return draws by inversion of the exact table, or rounded normals for large σ."""
        sigma = float(self.scale)
        if sigma > TABLE_SCALE:
            return np.rint(sigma * generator.standard_normal(shape)).astype(np.int64)
        reach = int(9 * sigma) + 1  # leaves out less than 1e-17 of the mass
        support = np.arange(-reach, reach + 1)
        mass = np.cumsum(self.pmf(support))
        places = np.searchsorted(mass / mass[-1], generator.random(shape), side="right")
        return np.asarray(support[np.minimum(places, 2 * reach)], dtype=np.int64)
