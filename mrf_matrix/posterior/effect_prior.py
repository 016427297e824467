r"""The prior of an attribute's effect on the log odds of a class.

An effect is a vector over the attribute's codes, normal with covariance :math:`\tau_i K`, where
:math:`K` is centred (an effect that is equal for all codes is none) and, for ordered codes, smooth:

.. math::

    K \propto P \bigl((1-s) I + s\, (\rho^{|u-v|})_{uv}\bigr) P, \qquad P = I - \tfrac1n J,

scaled to trace :math:`n - 1`. How much an attribute matters, :math:`\tau_i`, is not set: it is
learned from the release.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mrf_matrix.base.arrays import Array

SMOOTHNESS = 0.7
CORRELATION = 0.9
FIRM = 1e3
"""Precision of the sum of an effect over its codes: zero, as good as."""


@dataclass(frozen=True)
class EffectPrior:
    """Prior precision of effects, up to the variance that is learned."""

    size: int  # number of codes n
    ordered: bool  # whether neighbouring codes have similar effects

    @cached_property
    def precision(self) -> Array:
        """Pseudo-inverse of K, shape (n, n)."""
        n = self.size
        if n == 1:
            return np.zeros((1, 1))
        kernel = np.eye(n)
        if self.ordered and n > 2:
            steps = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
            kernel = (1 - SMOOTHNESS) * kernel + SMOOTHNESS * CORRELATION**steps
        centre = np.eye(n) - 1.0 / n
        kernel = centre @ kernel @ centre
        return np.asarray(np.linalg.pinv(kernel * ((n - 1) / np.trace(kernel)), hermitian=True))

    @cached_property
    def constraint(self) -> Array:
        """What keeps effects centred, shape (n, n): not scaled by the learned variance."""
        return np.full((self.size, self.size), FIRM / self.size)
