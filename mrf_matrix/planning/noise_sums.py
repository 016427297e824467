r"""Laws of weighted sums of noise draws, and the labels that they flip.

An answer carries the error :math:`U = \sum_j c_j Z_j` with known coefficients (a row of
:math:`W \tilde A^+`) and independent draws of one law. Its characteristic function is
:math:`\varphi_U(\omega) = \prod_j \varphi_Z(c_j \omega)`, and one inverse Fourier transform gives
its law on a grid. Where all coefficients are multiples of one number the grid is that lattice, and
the law exact; otherwise draws are taken as continuous, which is accurate to a fraction of a per
cent, since real strategies are measured in fine units.

A label is the class with the largest noisy value. Let the leading class be ahead of r rivals by a
margin M, each with independent noise of the same law. It keeps the label with probability

.. math::

    \sum_u P(U = u)\, E\!\left[\frac{\mathbb 1[\text{no rival above}]}{1 + \#\text{ties}}\right]
    = \sum_u f(u) \frac{F(u + M)^{r+1} - F((u + M)^-)^{r+1}}{(r + 1)\, f(u + M)},

ties being broken uniformly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from mrf_matrix.mechanisms import DiscreteGaussian, DiscreteLaplace, NoiseLaw

Array = NDArray[np.float64]

GRID = 4096
"""Points of the grid where the exact lattice is not needed, or does not fit."""

LARGEST_GRID = 2**16
"""Points of the largest exact lattice."""

MANY_DRAWS = 50.0
"""Effective number of draws from which Edgeworth's correction of the normal law is used."""

FINE = 30.0
"""Standard deviation, in steps of the lattice, from which ties no longer matter."""

UNITS = 24
"""The lattice's step is sought among the smallest coefficient and its parts down to this one."""

REACH = 24.0
"""Half-width of the grid in units of the largest term's scale, beside 8 standard deviations."""


@dataclass(frozen=True, eq=False)
class NoiseTerm:
    """Coefficients and the law of the draws that they weigh.

    Attributes
    ----------
    weights : ndarray
        Distinct absolute coefficients, positive.
    repeats : ndarray
        How often each occurs.
    law : NoiseLaw
    """

    weights: Array
    repeats: Array
    law: NoiseLaw

    @classmethod
    def of(cls, coefficients: Array, law: NoiseLaw) -> "NoiseTerm":
        """Return the term of a row of coefficients; draws of weight zero are left out."""
        size = np.abs(coefficients)
        size = size[size > 1e-12 * size.max(initial=0.0)]
        weights, repeats = np.unique(np.round(size, 12 - _magnitude(size)), return_counts=True)
        return cls(weights, repeats.astype(np.float64), law)

    @property
    def variance(self) -> float:
        """Variance of the weighted sum."""
        return float(self.law.variance * (self.repeats @ self.weights**2))

    @property
    def fourth_cumulant(self) -> float:
        """Fourth cumulant of the weighted sum."""
        return float(_fourth_cumulant(self.law) * (self.repeats @ self.weights**4))

    @property
    def reach(self) -> float:
        """Scale of the heaviest draw."""
        return float(self.weights.max(initial=0.0) * self.law.scale)

    def log_transform(self, frequencies: Array, *, exact: bool) -> Array:
        """Return the logarithm of the characteristic function, shape (f,)."""
        log = np.zeros(len(frequencies))
        for weight, repeat in zip(self.weights, self.repeats, strict=True):
            log += repeat * _log_transform(self.law, weight * frequencies, exact=exact)
        return log


@dataclass(frozen=True, eq=False)
class NoiseSum:
    """The error of one answer: independent terms added up.

    Examples
    --------
    >>> from fractions import Fraction
    >>> draw = NoiseTerm.of(np.ones(1), DiscreteLaplace(Fraction(1)))
    >>> round(NoiseSum((draw,)).flip_probability(2.0), 4)
    0.1302
    """

    terms: tuple[NoiseTerm, ...]

    @property
    def variance(self) -> float:
        """Variance of the error."""
        return float(sum(term.variance for term in self.terms))

    def flip_probability(self, margin: float, rivals: int = 1) -> float:
        """Return the probability that the leading class loses its label.

        Parameters
        ----------
        margin : float
            By how much it is ahead of each rival; 0 for a tie, which is broken uniformly.
        rivals : int, default=1
            Number of other classes, all behind by the margin.
        """
        variance = self.variance
        if variance == 0:
            return 0.0 if margin > 0 else rivals / (rivals + 1)
        unit = _common_unit(np.concatenate([term.weights for term in self.terms]))
        fourth = sum(term.fourth_cumulant for term in self.terms)
        fine = sqrt(variance) >= FINE * unit
        if rivals == 1 and fine and fourth * MANY_DRAWS <= 3 * variance**2:
            return edgeworth_tail(margin / sqrt(2 * variance), fourth / variance**2 / 2)
        step, mass = self._mass(unit)
        return _flip(mass, margin / step, rivals)

    def _mass(self, unit: float) -> tuple[float, Array]:
        """Return a step and the probabilities of its multiples, centred."""
        half = max(8 * sqrt(self.variance), REACH * max(term.reach for term in self.terms))
        lattice = unit > 0 and 2 * half + 16 * unit <= LARGEST_GRID * unit
        points = GRID
        if lattice:
            points = max(64, 1 << int(np.ceil(np.log2(2 * half / unit + 16))))
        step = unit if lattice else 2 * half / points
        frequencies: Array = np.asarray(2 * np.pi * np.fft.rfftfreq(points, d=step), np.float64)
        log = sum(
            (term.log_transform(frequencies, exact=lattice) for term in self.terms),
            np.zeros(len(frequencies)),
        )
        if not lattice:  # each grid point stands for its cell: the mean of the law over a step
            log = log + np.log(np.sinc(frequencies * step / (2 * np.pi)))
        mass = np.fft.fftshift(np.fft.irfft(np.exp(log), n=points))
        mass = np.maximum(mass, 0.0)
        return step, mass / mass.sum()


def normal_flip(margin: float, variance: float, rivals: int = 1) -> float:
    """Return the flip probability where only the variance is known: a normal error.

    For a single Laplace draw, the worst case, it is off by .03 at most; sums are closer.
    """
    if variance == 0:
        return 0.0 if margin > 0 else rivals / (rivals + 1)
    if rivals == 1:
        return edgeworth_tail(margin / sqrt(2 * variance), 0.0)
    grid = np.linspace(-8, 8, 2001)
    density = np.exp(-0.5 * grid**2)
    keep = density @ ndtr(grid + margin / sqrt(variance)) ** rivals / density.sum()
    return float(1 - keep)


def edgeworth_tail(x: float, excess: float) -> float:
    """Return ``P(S > x)`` for a standardised symmetric sum with a given excess kurtosis."""
    if x == inf:
        return 0.0
    density = exp(-0.5 * x * x) / sqrt(2 * pi)
    tail = float(ndtr(-x)) + density * excess / 24 * (x**3 - 3 * x)
    return min(1.0, max(0.0, tail))


def _flip(mass: Array, margin: float, rivals: int) -> float:
    """Return the flip probability of integer-valued errors of a given law."""
    whole = int(np.floor(margin + 1e-9))
    part = margin - whole
    cumulated = np.concatenate([[0.0], np.cumsum(mass)])
    ahead = np.arange(len(mass)) + whole
    lower = cumulated[np.clip(ahead, 0, len(mass))]
    upper = cumulated[np.clip(ahead + 1, 0, len(mass))]
    if part > 1e-9:  # no ties: the rivals must stay at or below the whole part
        return float(1 - mass @ upper**rivals)
    tie = upper - lower
    share = np.where(
        tie > 1e-12,
        (upper ** (rivals + 1) - lower ** (rivals + 1)) / ((rivals + 1) * np.maximum(tie, 1e-300)),
        upper**rivals,
    )
    kept = float(np.dot(mass, share))
    return min(1.0, max(0.0, 1 - kept))


def _common_unit(weights: Array) -> float:
    """Return the step of the lattice that holds every weighted draw; 0 where none was found."""
    least = weights.min()
    for parts in range(1, UNITS + 1):
        multiples = weights * (parts / least)
        if np.allclose(multiples, np.rint(multiples), rtol=1e-9, atol=0):
            return float(least / parts)
    return 0.0


def _magnitude(values: Array) -> int:
    return int(np.ceil(np.log10(values.max()))) if values.size and values.max() > 0 else 0


def _fourth_cumulant(law: NoiseLaw) -> float:
    """Return the fourth cumulant of one draw."""
    if isinstance(law, DiscreteLaplace):  # difference of two geometric laws
        p = np.exp(-1 / float(law.scale))
        return float(2 * p * (1 + 4 * p + p * p) / (1 - p) ** 4)
    return 0.0  # of a Gaussian; its discrete form differs by exp(-2π²σ²)


def _log_transform(law: NoiseLaw, angles: Array, *, exact: bool) -> Array:
    """Return the logarithm of a law's characteristic function."""
    scale = float(law.scale)
    if isinstance(law, DiscreteLaplace):
        if not exact:
            return np.asarray(-np.log1p(0.5 * law.variance * angles**2))
        p = np.exp(-1 / scale)
        # (1-p)² / (1 - 2p cos θ + p²), stable for p near 1
        return np.asarray(-np.log1p(4 * p * np.sin(angles / 2) ** 2 / (1 - p) ** 2))
    if isinstance(law, DiscreteGaussian):
        if not exact or scale > 3:
            wrapped = np.remainder(angles + np.pi, 2 * np.pi) - np.pi if exact else angles
            return np.asarray(-0.5 * law.variance * wrapped**2)
        reach = np.arange(-40, 41)
        mean = np.cos(np.outer(angles, reach)) @ law.pmf(reach)
        return np.asarray(np.log(np.maximum(mean, 1e-300)))
    return np.zeros(len(angles))


def combined(terms: Sequence[NoiseTerm]) -> NoiseSum:
    """Return the sum of independent terms, without those that add no noise."""
    return NoiseSum(tuple(term for term in terms if term.variance > 0))
