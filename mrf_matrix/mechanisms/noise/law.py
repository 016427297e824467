"""What every law of integer noise offers: its scale for a budget, its moments, and samplers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import ClassVar, Self

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Array, Longs
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP


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
        """Zero."""
        return 0.0

    def log_pmf(self, values: Array | AnyInts) -> Array:
        """Return 0 at the integer 0 and minus infinity elsewhere."""
        return np.where(np.asarray(values) == 0, 0.0, -np.inf)

    def log_characteristic(self, angles: Array) -> Array:
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

    def exact(self, answers: Longs) -> Longs:
        """Return a copy of the answers."""
        return answers.copy()

    def research(self, shape: tuple[int, ...], generator: np.random.Generator) -> Longs:
        """Return zeros."""
        return np.zeros(shape, dtype=np.int64)

    def __str__(self) -> str:
        return self.name
