"""Laws of noise that several parties add a share each of."""

from dataclasses import dataclass
from fractions import Fraction
from math import log, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, hyp2f1

from mrf_matrix.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from mrf_matrix.mechanisms.noise.discrete_laplace import DiscreteLaplace
from mrf_matrix.mechanisms.noise.law import Floats, Integers, NoiseLaw, checked_scale
from mrf_matrix.mechanisms.noise.negative_binomial import (
    Words,
    check_tabled,
    negative_binomial,
    system_words,
)
from mrf_matrix.mechanisms.noise.process import check_parent_process


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
    >>> whole, half = DiscreteLaplace(Fraction(5)), SharedDiscreteLaplace(Fraction(5), Fraction(1, 2))
    >>> bool(np.isclose(2 * half.variance, whole.variance))
    True
    """

    name: ClassVar[str] = "shared discrete Laplace noise"
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

    def log_pmf(self, values: NDArray[Any]) -> Floats:
        """Return the logarithm of the probabilities, by Gauss's hypergeometric series.

        ``P(x) = Σ_g P_r(g) P_r(g + |x|) = (1-q)^2r q^|x| (r)_|x| / |x|! F(r, r+|x|; |x|+1; q²)``.
        """
        r, decay = float(self.shape), 1 / float(self.scale)
        x = np.abs(np.asarray(values, dtype=np.float64))
        series = np.log(hyp2f1(r, r + x, x + 1, np.exp(-2 * decay)))
        ways = gammaln(r + x) - gammaln(r) - gammaln(x + 1)
        return np.asarray(2 * r * log(-np.expm1(-decay)) - x * decay + ways + series)

    def log_transform(self, angles: NDArray[Any]) -> Floats:
        """Return the logarithm of the characteristic function, r times that at shape 1."""
        p = np.exp(-1 / float(self.scale))
        bend = 4 * p * np.sin(np.asarray(angles) / 2) ** 2 / np.expm1(-1 / float(self.scale)) ** 2
        return np.asarray(-float(self.shape) * np.log1p(bend))

    @property
    def fourth_cumulant(self) -> float:
        """``2 r q (1 + 4q + q²) / (1 - q)⁴``."""
        q = np.exp(-1 / float(self.scale))
        return float(2 * float(self.shape) * q * (1 + 4 * q + q * q) / (1 - q) ** 4)

    def exact(self, answers: Integers) -> Integers:
        """Return the answers plus exact draws, from the system's randomness."""
        check_parent_process()
        return answers + self.draws(answers.shape, system_words)

    def draws(self, shape: tuple[int, ...], words: Words) -> Integers:
        """Return exact draws from a source of uniform words."""
        count = int(np.prod(shape))
        first, second = (negative_binomial(self.scale, self.shape, count, words) for _ in "+-")
        return (first - second).reshape(shape)

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Integers:
        """Return draws as the difference of two of NumPy's negative binomials."""
        stop = -np.expm1(-1 / float(self.scale))
        first, second = generator.negative_binomial(float(self.shape), stop, size=(2, *shape))
        return np.asarray(first - second, dtype=np.int64)

    def __str__(self) -> str:
        return f"{super().__str__()} and shape {self.shape}"


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
    `mrf_matrix.federated.gaussian_sums`.
    """

    name: ClassVar[str] = "sums of discrete Gaussian noise"
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

    def log_pmf(self, values: NDArray[Any]) -> Floats:
        """Return the logarithm of the probabilities of the law that is as wide."""
        return self.whole.log_pmf(values)

    def exact(self, answers: Integers) -> Integers:
        """Return the answers plus every party's exact draw, by OpenDP."""
        share = DiscreteGaussian(self.scale)
        for _ in range(self.parties):
            answers = share.exact(answers)
        return answers

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Integers:
        """Return draws of the law that is as wide."""
        return self.whole.research(shape, generator)

    def __str__(self) -> str:
        return f"{super().__str__()} from {self.parties} parties"
