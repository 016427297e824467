"""The descent over strategies ``A = C E`` in a fixed row space, for Laplace noise.

With E (k x g) spanning the rows of W, ``W = T E`` and H = TᵀT,

    loss = max_i ||C e_i||_1² · tr(H (CᵀC)⁻¹),

where the maximum over columns is replaced by a p-norm and ``|x|`` by ``√(x² + δ²)``, both
sharpened round by round. The objective is its logarithm, which does not change with C's scale: C is
scaled to sensitivity 1 before every round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg

from strategies.methods.descents.descent import minimise
from strategies.methods.descents.p_identity_descent import REFUSED
from strategies.operators import Array
from strategies.operators.base.singular_values import minimum_norm

ROUNDS = (
    (8.0, 0.3),
    (20.0, 0.1),
    (60.0, 0.03),
    (200.0, 0.01),
    (1000.0, 0.003),
    (4000.0, 0.001),
    (16000.0, 0.0003),
)
"""Exponent of the p-norm over columns, and δ in units of the mean entry, round by round."""


@dataclass(frozen=True, eq=False)
class RowSpace:
    """A basis of a row space, and the workload in it."""

    basis: Array  # (k, g): E
    gram: Array  # (k, k): H with ``WᵀW = Eᵀ H E``

    @classmethod
    def of(cls, factor: Array, basis: Array) -> "RowSpace":
        """Return the row space of a basis in which the workload's factor F (r, g) lies."""
        inside = minimum_norm(basis.T, factor.T).T
        return cls(basis, inside.T @ inside)

    def loss(self, mix: Array) -> float:
        """Return the loss of ``C E``, infinite where C is singular."""
        trace, _ = self.error(mix)
        if not np.isfinite(trace):
            return float("inf")
        return float(np.abs(mix @ self.basis).sum(axis=0).max() ** 2 * trace)

    def error(self, mix: Array) -> tuple[float, Array]:
        """Return ``tr(H (CᵀC)⁻¹)`` and its gradient in C."""
        triangle, info = linalg.lapack.dpotrf(mix.T @ mix, lower=True)
        if info != 0:
            return float("inf"), np.zeros_like(mix)
        half = linalg.lapack.dpotrs(triangle, self.gram, lower=True)[0]
        whole = linalg.lapack.dpotrs(triangle, half.T, lower=True)[0]
        return float(np.trace(half)), -(mix @ (whole + whole.T))


def smoothed_value(
    mix: Array, space: RowSpace, sharpness: float, rounding: float
) -> tuple[float, Array]:
    """Return the log of the smoothed loss at C (m, k), and its gradient.

    `mix`: (m, k); `sharpness`: exponent of the p-norm over columns; `rounding`: δ.
    """
    trace, slope = space.error(mix)
    if not np.isfinite(trace) or trace <= 0:
        return REFUSED, np.zeros_like(mix)
    matrix = mix @ space.basis
    sizes = np.sqrt(matrix * matrix + rounding * rounding)
    sums = sizes.sum(axis=0)
    largest = sums.max()
    shares = (sums / largest) ** sharpness
    total = shares.sum()
    pull = (matrix / sizes) * (2.0 * shares / (total * sums))
    value = 2.0 * (np.log(largest) + np.log(total) / sharpness) + np.log(trace)
    return float(value), pull @ space.basis.T + slope / trace


def descend_in_row_space(
    space: RowSpace, mix: Array, iterations: int, rounds: Sequence[tuple[float, float]] = ROUNDS
) -> tuple[Array, float]:
    """Return C of sensitivity 1 after every round of a number of iterations, and its loss."""
    best = unit_scaled(space, mix)
    lowest = space.loss(best)
    current = best
    for sharpness, share in rounds:
        value = partial(smoothed_value, space=space, sharpness=sharpness, rounding=share / len(mix))
        current = unit_scaled(space, minimise(value, current, iterations)[0])
        loss = space.loss(current)
        if loss < lowest:
            best, lowest = current, loss
    return best, lowest


def unit_scaled(space: RowSpace, mix: Array) -> Array:
    """Return C scaled so that the largest column of ``C E`` has L1 norm 1."""
    return np.asarray(mix / np.abs(mix @ space.basis).sum(axis=0).max())
