"""Laws of noise that several parties add a share each of."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, sqrt
from typing import ClassVar

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs
from mrf_matrix.base.checks import check_parent_process
from mrf_matrix.mechanisms.noise.discrete import DiscreteGaussian, DiscreteLaplace, checked_scale
from mrf_matrix.mechanisms.noise.law import NoiseLaw
from mrf_matrix.mechanisms.noise.negative_binomial import (
    WordSource,
    check_tabled,
    negative_binomial,
    system_words,
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
        check_tabled(self.scale, self.shape)

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
        p = np.exp(-1 / float(self.scale))
        bend = 4 * p * np.sin(np.asarray(angles) / 2) ** 2 / np.expm1(-1 / float(self.scale)) ** 2
        return np.asarray(-float(self.shape) * np.log1p(bend))

    @property
    def fourth_cumulant(self) -> float:
        """``2 r q (1 + 4q + q²) / (1 - q)⁴``."""
        q = np.exp(-1 / float(self.scale))
        return float(2 * float(self.shape) * q * (1 + 4 * q + q * q) / (1 - q) ** 4)

    @property
    def has_normal_tails(self) -> bool:
        """False: its tails fall as those of discrete Laplace noise."""
        return False

    def exact(self, answers: Longs) -> Longs:
        """Return the answers plus exact draws, from the system's randomness."""
        check_parent_process()
        return answers + self.draws(answers.shape, system_words)

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
    `mrf_matrix.federated.shares.gaussian_sums`.
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
        """The number of parties times a draw's exact variance."""
        return self.parties * DiscreteGaussian(self.scale).variance

    def log_pmf(self, values: Array | AnyInts) -> Array:
        """Return the logarithm of the probabilities of the law that is as wide."""
        return self.whole.log_pmf(values)

    def log_characteristic(self, angles: Array) -> Array:
        """Return the logarithm of the characteristic function: the parties' add."""
        return self.parties * DiscreteGaussian(self.scale).log_characteristic(angles)

    @property
    def fourth_cumulant(self) -> float:
        """The number of parties times that of a draw."""
        return self.parties * DiscreteGaussian(self.scale).fourth_cumulant

    @property
    def has_normal_tails(self) -> bool:
        """As each draw has."""
        return DiscreteGaussian(self.scale).has_normal_tails

    def exact(self, answers: Longs) -> Longs:
        """Return the answers plus every party's exact draw, by OpenDP."""
        share = DiscreteGaussian(self.scale)
        for _ in range(self.parties):
            answers = share.exact(answers)
        return answers

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Longs:
        """Return draws of the law that is as wide."""
        return self.whole.research(shape, generator)

    def __str__(self) -> str:
        return f"{super().__str__()} from {self.parties} parties"
