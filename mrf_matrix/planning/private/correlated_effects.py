r"""A public prior of what attributes tell of two classes, where attributes repeat each other.

Log odds are :math:`\sum_i w_i z_i` plus effects of pairs, the scores z normal with the correlations
:math:`R = (1-c) I + c\,11^\top`, two in five of the weights w negative. Draws differ in how many
attributes matter (relevances are gamma variables of several shapes), in how far they repeat each
other (c), in how much there is to know (the variance V of the log odds), and in how unequal the
classes are. By itself an attribute shows :math:`a = R w`: a product of tables adds these up and
counts twice what attributes share.

Scores of variance S whose covariance with the log odds is T explain :math:`T^2/S`, and normal log
odds of that variance, with classes of log odds b, are right in a share

.. math::

    \pi\,\Phi\Bigl(\frac{V/2 + b}{\sqrt V}\Bigr) + (1-\pi)\,\Phi\Bigl(\frac{V/2 - b}{\sqrt V}\Bigr),
    \qquad \pi = \frac1{1+e^{-b}}.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, ndtr

from mrf_matrix.base.arrays import Array

SHAPES = (0.05, 0.3, 1.5)  # gamma shapes of the relevances: few attributes matter, or many

CORRELATIONS = (0.0, 0.2, 0.5)  # how far attributes repeat each other

SIGNALS = (1.0, 3.0, 8.0)
"""Variances of the log odds: .69, .81 and .92 of balanced labels could be known."""

LEANS = (0.0, 1.2)  # log odds of the classes: balanced, and .77 against .23

PAIRS = 0.15  # share of the variance that belongs to pairs of attributes

NEGATIVE = 0.4  # chance that an attribute speaks against the class for which those like it speak


@dataclass(frozen=True, eq=False)
class CorrelatedEffects:
    """Draws of the prior over d attributes."""

    weights: Array  # (draws, d): effects of single attributes on the log odds, w
    # correlations, lean: (draws,): c, and the log odds b of the classes
    correlations: Array
    lean: Array
    pair_variance: Array  # (draws,): variance of the log odds that belongs to pairs

    @classmethod
    def of(cls, n_attributes: int) -> "CorrelatedEffects":
        """Return one draw of every combination of the above, always the same."""
        generator = np.random.default_rng(0)
        grid = np.array(np.meshgrid(SHAPES, CORRELATIONS, SIGNALS, LEANS)).reshape(4, -1)
        shapes, correlations, signals, lean = grid
        draws = generator.gamma(shapes[:, None], size=(len(shapes), n_attributes)) + 1e-12
        weights = np.sqrt(draws) * np.where(generator.random(draws.shape) < NEGATIVE, -1, 1)
        plain = cls(weights, correlations, lean, PAIRS * signals)
        told = (plain.correlated(weights) * weights).sum(axis=1)
        weights *= np.sqrt((1 - PAIRS) * signals / told)[:, None]
        return plain

    def correlated(self, effects: Array) -> Array:
        """Return ``R x`` of each draw's effects x, shape (draws, d)."""
        shared = self.correlations[:, None]
        return np.asarray((1 - shared) * effects + shared * effects.sum(axis=1, keepdims=True))

    @cached_property
    def shown(self) -> Array:
        """What each attribute shows by itself, ``a = R w``, shape (draws, d)."""
        return self.correlated(self.weights)

    def pair_energy(self, first: Array, second: Array) -> Array:
        """Return variances of pairs' effects, in proportion to what their attributes show.

        `first`, `second` (..., draws): shares of the two attributes in what all show by themselves.
        """
        shares = self.shown**2
        shares = shares / shares.sum(axis=1, keepdims=True)
        everything = np.maximum(1 - (shares**2).sum(axis=1), 1e-9) / 2
        return np.asarray(first * second * self.pair_variance / everything)


def share_right(explained: Array, lean: Array) -> Array:
    """Return the expected share of right labels for each draw.

    `explained`: variance of the log odds that is known; `lean`: log odds of the classes.
    """
    root = np.sqrt(np.maximum(explained, 1e-12))
    share = expit(lean)
    right = share * ndtr(root / 2 + lean / root) + (1 - share) * ndtr(root / 2 - lean / root)
    return np.asarray(right)
