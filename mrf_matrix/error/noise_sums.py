r"""Laws of weighted sums of noise draws, and the labels that they flip.

An answer carries the error :math:`U = \sum_j c_j Z_j` with known coefficients (a row of
:math:`W \tilde A^+`) and independent draws of one law. Its characteristic function is
:math:`\varphi_U(\omega) = \prod_j \varphi_Z(c_j \omega)`, and one inverse Fourier transform gives
its law on a grid. Where all coefficients are multiples of one number the grid is that lattice, and
the law exact. Otherwise the discrete draws that dominate keep their exact law, atoms and all, on a
fine grid, smoothed by a normal law of 1.5 steps; light draws, whose fourth cumulants together
would turn no probability by a thousandth, enter as one normal draw of their variance.

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
from scipy.special import ndtr

from mrf_matrix.base.arrays import Array
from mrf_matrix.mechanisms import NoiseLaw

NORMAL_ERROR = 0.0334
r"""Largest distance of a normal flip probability from that of single Laplace draws, one rival.

The difference of two unit draws exceeds x with probability :math:`(2 + x) e^{-x} / 4`, its normal
stand-in with :math:`\Phi(-x/2)`; they are farthest apart, .03331, at x = 1.18.
"""

GRID = 4096  # points of the grid where the exact lattice is not needed, or does not fit

ATOMS_GRID = 2**15
"""Points of the grid where single draws are coarse: margins may lie close beside an atom."""

COARSE = 3.0  # scale of a draw below which it is coarse

LARGEST_GRID = 2**16  # points of the largest exact lattice

MANY_DRAWS = 50.0
"""Effective number of draws from which Edgeworth's correction of the normal law is used."""

FINE = 30.0
"""Standard deviation, in steps of the lattice or in coefficients, that makes atoms negligible."""

UNITS = 24
"""The lattice's step is sought among the smallest coefficient and its parts down to this one."""

LIGHT = 0.02
"""Excess kurtosis that light draws may add and yet be taken as normal: at most .0005 in a tail."""

SMOOTHING = 1.5  # standard deviation of the smoothing of atoms, in steps of the grid

REACH = 24.0
"""Half-width of the grid in units of the largest term's scale, beside 8 standard deviations."""


@dataclass(frozen=True, eq=False)
class NoiseTerm:
    """Coefficients and the law of the draws that they weigh."""

    weights: Array  # distinct absolute coefficients, positive
    repeats: Array  # how often each occurs
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
        return float(self.law.variance * (self.repeats @ self.weights**2))

    @property
    def fourth_cumulant(self) -> float:
        return float(self.law.fourth_cumulant * (self.repeats @ self.weights**4))

    @property
    def reach(self) -> float:
        return float(self.weights.max(initial=0.0) * self.law.scale)

    def log_transform(self, frequencies: Array) -> Array:
        """Return the logarithm of the characteristic function, shape (f,)."""
        log = np.zeros(len(frequencies))
        for weight, repeat in zip(self.weights, self.repeats, strict=True):
            log += repeat * self.law.log_characteristic(weight * frequencies)
        return log

    def heavy_part(self, largest: float, fourth: float) -> "NoiseTerm":
        """Return the draws that cannot be taken as normal: all but a share of light ones.

        `largest`: no draw of a larger coefficient is light; `fourth`: fourth cumulant that the
        light draws may have together.
        """
        cumulants = self.law.fourth_cumulant * np.cumsum(self.repeats * self.weights**4)
        keep = (np.abs(cumulants) > fourth) | (self.weights > largest)
        return NoiseTerm(self.weights[keep], self.repeats[keep], self.law)


@dataclass(frozen=True, eq=False)
class NoiseSum:
    """The error of one answer: independent terms added up.

    >>> from fractions import Fraction
    >>> from mrf_matrix.mechanisms import DiscreteLaplace
    >>> draw = NoiseTerm.of(np.ones(1), DiscreteLaplace(Fraction(1)))
    >>> round(NoiseSum((draw,)).flip_probability(2.0), 4)
    0.1302
    """

    terms: tuple[NoiseTerm, ...]

    @property
    def variance(self) -> float:
        return float(sum(term.variance for term in self.terms))

    @property
    def largest_weight(self) -> float:
        return float(max(term.weights.max(initial=0.0) for term in self.terms))

    def flip_probability(self, margin: float, rivals: int = 1) -> float:
        """Return the probability that the leading class loses its label.

        `margin`: by how much it is ahead of each rival; 0 for a tie, which is broken uniformly;
        `rivals`: number of other classes, all behind by the margin.
        """
        return float(self.flip_probabilities([margin], rivals)[0])

    def flip_probabilities(self, margins: Sequence[float] | Array, rivals: int = 1) -> Array:
        """Return `flip_probability` at several margins, shape (s,): the law is found once."""
        variance = self.variance
        if variance == 0:
            return np.array([0.0 if one > 0 else rivals / (rivals + 1) for one in margins])
        unit = _common_unit(np.concatenate([term.weights for term in self.terms]))
        fourth = sum(term.fourth_cumulant for term in self.terms)
        fine = sqrt(variance) >= FINE * (unit or self.largest_weight)
        if rivals == 1 and fine and fourth * MANY_DRAWS <= 3 * variance**2:
            excess = fourth / variance**2 / 2
            halfway = (_lattice_midpoint(one, unit) / sqrt(2 * variance) for one in margins)
            return np.array([edgeworth_tail(one, excess) for one in halfway])
        half = max(8 * sqrt(variance), REACH * max(term.reach for term in self.terms))
        if unit > 0 and 2 * half + 16 * unit <= LARGEST_GRID * unit:
            points = max(64, 1 << int(np.ceil(np.log2(2 * half / unit + 16))))
            mass = self._mass(self.terms, points, unit, 0.0)
            return np.array([_flip_on_lattice(mass, one / unit, rivals) for one in margins])
        coarse = min(float(term.law.scale) for term in self.terms) < COARSE
        points = ATOMS_GRID if coarse else GRID
        mass = self._smoothed_law(points, 2 * half / points)
        steps = (one * points / (2 * half) for one in margins)
        return np.array([_flip_on_grid(mass, one, rivals) for one in steps])

    def _smoothed_law(self, points: int, step: float) -> Array:
        """Return the probabilities of the cells of a fine grid, atoms spread over a few cells."""
        largest = sqrt(self.variance) / FINE
        allowed = LIGHT * self.variance**2 / len(self.terms)
        heavy = NoiseSum(tuple(term.heavy_part(largest, allowed) for term in self.terms))
        light = max(0.0, self.variance - heavy.variance)
        return self._mass(heavy.terms, points, step, light + (SMOOTHING * step) ** 2)

    @staticmethod
    def _mass(terms: tuple[NoiseTerm, ...], points: int, step: float, normal: float) -> Array:
        """Return the centred law of terms and a normal draw of a given variance, on a grid."""
        frequencies: Array = np.asarray(2 * np.pi * np.fft.rfftfreq(points, d=step), np.float64)
        log = -0.5 * normal * frequencies**2
        for term in terms:
            log = log + term.log_transform(frequencies)
        mass = np.maximum(np.fft.fftshift(np.fft.irfft(np.exp(log), n=points)), 0.0)
        return np.asarray(mass / mass.sum())


def _lattice_midpoint(margin: float, unit: float) -> float:
    """Return the middle between lattice points for a margin between them: all such are alike."""
    steps = margin / unit if unit > 0 else 0.0
    between = steps - np.floor(steps + 1e-9) > 1e-9
    return float((np.floor(steps) + 0.5) * unit) if between else margin


def _flip_on_lattice(mass: Array, margin: float, rivals: int) -> float:
    """Return the flip probability of integer-valued errors of a given law."""
    whole = int(np.floor(margin + 1e-9))
    if margin - whole <= 1e-9:
        return 1 - _keep_probability(mass, whole, rivals)
    # no ties: the rivals must stay at or below the whole part
    cumulated = np.concatenate([[0.0], np.cumsum(mass)])
    upper = cumulated[np.clip(np.arange(len(mass)) + whole + 1, 0, len(mass))]
    return min(1.0, max(0.0, 1 - float(mass @ upper**rivals)))


def _flip_on_grid(mass: Array, margin: float, rivals: int) -> float:
    """Return the flip probability of errors on a grid that is finer than their law."""
    whole = int(min(np.floor(margin), len(mass)))
    part = min(margin - whole, 1.0)
    return (
        1
        - (1 - part) * _keep_probability(mass, whole, rivals)
        - part * _keep_probability(mass, whole + 1, rivals)
    )


def _keep_probability(mass: Array, margin: int, rivals: int) -> float:
    """Return the probability that no rival wins, ties being broken uniformly."""
    cumulated = np.concatenate([[0.0], np.cumsum(mass)])
    ahead = np.arange(len(mass)) + margin
    lower = cumulated[np.clip(ahead, 0, len(mass))]
    upper = cumulated[np.clip(ahead + 1, 0, len(mass))]
    tie = upper - lower
    share = np.where(
        tie > 1e-12,
        (upper ** (rivals + 1) - lower ** (rivals + 1)) / ((rivals + 1) * np.maximum(tie, 1e-300)),
        upper**rivals,
    )
    return min(1.0, max(0.0, float(np.dot(mass, share))))


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


def add_terms(terms: Sequence[NoiseTerm]) -> NoiseSum:
    """Return the sum of independent terms, without those that add no noise."""
    return NoiseSum(tuple(term for term in terms if term.variance > 0))


def normal_flip(margin: float, variance: float, rivals: int = 1) -> float:
    """Return the flip probability where only the variance is known: a normal error.

    A single Laplace draw is the worst case; sums are closer. Where the margin is a whole number of
    its steps, the stand-in is off by `NORMAL_ERROR` at most against one rival, at any scale, and by
    .051 against up to nine (.067 against 25). Between two steps half the probability that two
    draws agree comes on top: ``1/(8 s)`` for draws of scale s, a half where s is small.
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
