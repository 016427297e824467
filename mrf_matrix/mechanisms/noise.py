"""Noise laws, each exact and of exactly known variance, and the two discrete ones."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, expm1, inf, log, log1p, nextafter, pi, sinh, sqrt
from typing import ClassVar, Literal, Self

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs
from mrf_matrix.base.checks import NoiseProcessError as NoiseProcessError
from mrf_matrix.base.checks import check_parent_process
from mrf_matrix.base.work import tell
from mrf_matrix.mechanisms.budget import ZCDP, PureDP


@dataclass(frozen=True)
class NoiseLaw(ABC):
    """A symmetric law on the integers, with an exact rational scale.

    A law of your own states `name`, `budget_kind`, `calibrated`, `variance`,
    `log_characteristic` and a sampler, and is given to `calibrate` as ``law=``. What rests on
    something else that it does not state is refused by its name.

    Parameters
    ----------
    scale : Fraction
        A float's exact value, so that OpenDP's samplers take it as it is; 0 for no noise. Tails
        fall by a factor of e at least in each scale: grids of exact laws reach 40 of them.

    Attributes
    ----------
    name : str
        For reports and messages.
    budget_kind : type
        `PureDP` or `ZCDP`: what it is calibrated to.
    guards_as : type or None
        The law whose guarantee it has, where it is made of others' shares; None for its own.
    """

    name: ClassVar[str]
    budget_kind: ClassVar[type[PureDP] | type[ZCDP]]
    guards_as: ClassVar["type[NoiseLaw] | None"] = None
    scale: Fraction

    @classmethod
    def calibrated(cls, column_sum: int, squared_factor: int, amount: Fraction) -> Self:
        """Return the law that spends a budget on integer answers.

        `column_sum` is the largest column sum of absolute entries of the integer strategy for
        `PureDP`, of squared ones for `ZCDP`; `squared_factor` the square of the neighbouring
        relation's factor, 1, 2 or 4; `amount` the finite ε or ρ.
        """
        raise cls._refusal("its scale for a budget", "calibrated")

    @property
    @abstractmethod
    def variance(self) -> float:
        """Exact variance of one draw, up to rounding of the result."""

    def log_pmf(self, values: Array | AnyInts) -> Array:
        """Return the logarithm of the probability of each integer."""
        raise self._refusal("its probabilities", "log_pmf")

    @abstractmethod
    def log_characteristic(self, angles: Array) -> Array:
        """Return the logarithm of the characteristic function at each angle, shape (f,)."""

    @property
    def fourth_cumulant(self) -> float:
        """Fourth cumulant of one draw, 0 for a normal law; here from the characteristic function.

        Its logarithm is ``-v θ²/2 + κ θ⁴/24 - ...``; two angles near 0 and one step of Richardson
        give κ to about 1e-5 of ``v²``.
        """
        if not self.variance:
            return 0.0
        angles = np.array([0.1, 0.05]) / max(1.0, sqrt(self.variance))
        rest = self.log_characteristic(angles) + self.variance * angles**2 / 2
        wide, near = 24 * rest / angles**4
        return float((4 * near - wide) / 3)

    @property
    def has_normal_tails(self) -> bool:
        """Whether a quantile of a sum of draws is at most the normal one and a step of its law.

        If not, it is at most that of Laplace noise of the same variance: intervals rest on it.
        """
        raise self._refusal("how its tails fall", "has_normal_tails")

    def exact(self, answers: Longs) -> Longs:
        """Return the answers plus independent release-grade draws, never seedable."""
        raise self._refusal("a release-grade sampler", "exact")

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Longs:
        """Return independent draws from NumPy: seedable, for studies only."""
        raise self._refusal("a sampler for studies", "research")

    @classmethod
    def _refusal(cls, what: str, member: str) -> TypeError:
        named = getattr(cls, "name", cls.__name__)
        return TypeError(f"{named} does not state {what}: expected {cls.__name__}.{member}.")

    def pmf(self, values: Array | AnyInts) -> Array:
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
        return 0.0

    def log_pmf(self, values: Array | AnyInts) -> Array:
        return np.where(np.asarray(values) == 0, 0.0, -np.inf)

    def log_characteristic(self, angles: Array) -> Array:
        return np.zeros(len(angles))

    @property
    def fourth_cumulant(self) -> float:
        return 0.0

    @property
    def has_normal_tails(self) -> bool:
        return True

    def exact(self, answers: Longs) -> Longs:
        return answers.copy()

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Longs:
        return np.zeros(shape, dtype=np.int64)

    def __str__(self) -> str:
        return self.name


Sampler = Literal["laplace", "gaussian"]
DRAWS = 1 << 16
"""Draws of one call: as Python integers they take 2 MiB; progress is reported in between."""


LARGEST_SCALE = Fraction(2**55)  # largest noise scale: a draw 200 scales out still fits in 63 bits

SMALLEST_SCALE = Fraction(1, 2**12)
"""Smallest noise scale: a draw differs from 0 with a probability below exp(-4000)."""


class SampledLaw(NoiseLaw):
    """A law with a sampler of OpenDP's.

    OpenDP takes the scale as a double and works with its exact rational value (Canonne, Kamath
    and Steinke, 2020, sections 5.2 and 5.3). Sums saturate at the ends of the 64-bit integers.
    """

    sampler: ClassVar[Sampler]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale(self.scale))

    def exact(self, answers: Longs) -> Longs:
        """Return the answers plus exact draws, in blocks; refused in a worker process."""
        check_parent_process()
        noised = answers.ravel().copy()
        measurement = _measurement(float(self.scale), self.sampler)
        for start in range(0, noised.size, DRAWS):
            tell("Drawing exact noise", start, noised.size)
            drawn = slice(start, start + DRAWS)
            noised[drawn] = measurement(noised[drawn].tolist())
        return noised.reshape(answers.shape)


def _measurement(scale: float, kind: Sampler) -> Callable[[list[int]], list[int]]:
    # not opendp.prelude: that loads scikit-learn and takes ten times as long
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    make, distance = {
        "laplace": (make_laplace, l1_distance(T="i64")),
        "gaussian": (make_gaussian, l2_distance(T="f64")),
    }[kind]
    sample: Callable[[list[int]], list[int]] = make(integers, distance, scale=scale)
    return sample


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
        return cls(least_scale(squared_factor * (column_sum / amount) ** 2))

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


TABLE_SCALE = 1024
"""Up to this σ research draws invert a table; above, rounded normals agree to 1e-7 relative."""

COARSE = 0.5
"""Below this σ the characteristic function is summed over integers, not over frequencies."""

FINE = 3.0  # above this σ the next term of the frequencies' sum is below ``exp(-2π²·9/2)`` of it

INTEGERS = np.arange(-40, 41)  # where a draw has its mass up to that σ


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
        return cls(least_scale(squared_factor * column_sum / (2 * amount)))

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


def least_scale(square: Fraction) -> Fraction:
    """Return the least double whose square is at least ``square``, as an exact fraction.

    OpenDP takes scales as doubles. Rounding the scale up can only add noise, so privacy holds.

    Raises ValueError if the scale would exceed `LARGEST_SCALE`: the budget is too small for the
    sensitivity.
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
    exact = Fraction(scale)
    if not SMALLEST_SCALE <= exact <= LARGEST_SCALE or Fraction(float(exact)) != exact:
        raise ValueError(
            f"scale={scale}: expected a number from 2**-12 to 2**55 that a double represents "
            f"exactly."
        )
    return exact
