"""Weights on the cells that prove how good a strategy can be, and the optimum for Gaussian noise.

With ``WᵀW = FᵀF`` and M = F diag(y) Fᵀ (r x r) for a distribution y over the cells,

    value(y) = (tr M^(1/2))² = (||W diag(√y)||_*)²

is a lower bound on the loss of every strategy, of either norm, and ``A = M^(-1/4) F`` is a
strategy with L2 column norms ``√q``, ``q_i = f_iᵀ M^(-1/2) f_i``, and loss
``max q · tr M^(1/2)`` for "l2". Both meet at the maximum of the concave function tr M^(1/2), where
q equals tr M^(1/2) on the support of y. The update ``y ← y · (q / tr M^(1/2))`` climbs to it; with
the ratio squared it needs half as many steps, and a step that descends is taken again unsquared.

References
----------
Li, Miklau: Optimal error of query sets under the differentially-private matrix mechanism (2013),
the SVD bound (y uniform). Edmonds, Nikolov, Ullman: The power of factorization mechanisms in
local and central differential privacy (2020), the dual norm.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np
from scipy import linalg

from strategies.operators import Array

MARGIN = 1e-9  # share taken off a reported bound for rounding, beside the eigenvalues' own error
RELAXED = 2.0  # exponent of the update; 1 climbs surely, 2 twice as fast


class Rated(Protocol):
    """Weights with what they prove."""

    @property
    def root(self) -> float:
        """Its square bounds every loss from below."""

    @property
    def gap(self) -> float:
        """Relative distance of the strategy that goes with it from the bound."""


Proof = TypeVar("Proof", bound=Rated)


@dataclass(frozen=True, eq=False)
class Dual:
    """A distribution over the cells, and what it proves."""

    weights: Array  # (g,): y, none negative, with sum 1
    root: float  # ``tr M^(1/2)``; its square bounds every loss from below
    ratios: Array  # (g,): squared L2 norms of the columns of ``M^(-1/4) F``

    @property
    def gap(self) -> float:
        """Relative distance of the strategy ``M^(-1/4) F`` from the optimum, for "l2"."""
        return float(self.ratios.max()) / self.root - 1.0


@dataclass(eq=False)
class Climb(Generic[Proof]):
    """Multiplicative updates of weights, which can be taken up again where they ended."""

    move: Callable[[Proof, float], Proof]  # from a proof and the update's exponent to the next
    last: Proof  # where the next update begins
    # Exponent to begin with. A step that descends is taken again with 1, which never does.
    power: float = RELAXED
    best: Proof = field(init=False)
    looked_at: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        self.best = self.last

    def to(self, tolerance: float, steps: int) -> Proof:
        """Return the best proof of a number looked at in all, or once its gap is small."""
        while self.looked_at < steps and self.best.gap > tolerance:
            self.looked_at += 1
            moved = self.move(self.last, self.power)
            if moved.root < self.last.root and self.power > 1.0:
                self.power = 1.0
                continue
            self.last = moved
            self.best = min(self.best, moved, key=lambda proof: proof.gap)
        return self.best


def uniform_climb(factor: Array) -> Climb[Dual]:
    """Return the updates of F's weights, which begin alike."""
    g = factor.shape[1]
    return Climb(partial(_moved, factor), assess_weights(factor, np.full(g, 1.0 / g)))


def ascend(factor: Array, tolerance: float, steps: int) -> Dual:
    """Return the best weights found in a number of updates, or once the gap is small.

    `factor`: (r, g), F, of full row rank; `tolerance`: gap at which to stop; `steps`: eigenvalue
    problems of size r x r to solve at most.
    """
    return uniform_climb(factor).to(tolerance, steps)


def _moved(factor: Array, dual: Dual, power: float) -> Dual:
    return assess_weights(factor, updated_weights(dual, power))


def updated_weights(dual: Dual, power: float) -> Array:
    """Return the weights after one multiplicative update."""
    moved = dual.weights * (dual.ratios / dual.root) ** power
    return np.asarray(moved / moved.sum())


def assess_weights(factor: Array, weights: Array) -> Dual:
    """Return what a distribution over the cells proves."""
    values, vectors = moment_spectrum(factor, weights)
    columns = (vectors / np.sqrt(np.sqrt(values))).T @ factor
    ratios = np.einsum("ij,ij->j", columns, columns)
    return Dual(weights, float(np.sqrt(values).sum()), ratios)


def moment_spectrum(factor: Array, weights: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of M, kept off zero, and its eigenvectors."""
    moment = (factor * weights) @ factor.T
    values, vectors = linalg.eigh(moment, driver="evd", overwrite_a=True, check_finite=False)
    floor = len(values) * np.finfo(float).eps * values[-1]
    return np.maximum(values, floor), vectors


def gaussian_strategy(factor: Array, dual: Dual) -> Array:
    """Return ``M^(-1/4) F`` scaled to largest L2 column norm 1."""
    values, vectors = moment_spectrum(factor, dual.weights)
    return np.asarray((vectors / np.sqrt(np.sqrt(values))).T @ factor / np.sqrt(dual.ratios.max()))


def root_traces(forms: Array, terms: int = 0) -> Array:
    """Return lower bounds of ``tr M^½`` for one or several M, of sums of so many terms.

    Every eigenvalue is lowered by the error of the solver and of the sums.
    """
    values = np.linalg.eigvalsh(forms)
    error = 8.0 * (values.shape[-1] + terms) * np.finfo(float).eps * values[..., -1:]
    return np.asarray(np.sqrt(np.maximum(values - error, 0.0)).sum(axis=-1))


def certified_bound(factor: Array, weights: Array) -> float:
    """Return the bound at given weights, rounded down so that it holds in exact arithmetic.

    Every eigenvalue of M is lowered by the error of a symmetric eigenvalue solver, and by that
    of the factorisation behind F, whose rows are orthogonal.
    """
    r, g = factor.shape
    values = linalg.eigvalsh((factor * weights) @ factor.T, check_finite=False)
    spread = float(np.einsum("ij,ij->i", factor, factor).max() * weights.max())
    error = 4 * np.finfo(float).eps * (r * values[-1] + g * spread)
    root = np.sqrt(np.maximum(values - error, 0.0)).sum()
    return float(root**2 * (1.0 - MARGIN))
