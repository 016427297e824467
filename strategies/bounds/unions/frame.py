"""Frames: the best direction of totals and the best residual rows of one attribute.

With weights λ of the codes, ``u = √λ`` and Q an orthonormal basis of what rows reach beside u, a
frame has ``z = Λ^½ (u + Q y)`` and the metric of its residual rows

    BᵀB = Λ^(-½) S P Sᵀ Λ^(-½),    S = Q - u yᵀ,    Y = ZZᵀ = Λ^½ Q P⁻¹ Qᵀ Λ^½.

For a Gram G, D its projection on Q, the least ``tr(G Y)`` at ``Σ_c λ_c |B e_c|² = 1`` is where
``P (I + yyᵀ) P`` is a multiple of D; the least ``zᵀ G z + tr`` over y solves a linear system.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from strategies.operators import Array

HELD = 8
"""First steps with z = λ: before the weights of the sets are known, z would run to the end."""
REACHED = 1e-11  # share of the largest eigenvalue of a Gram above which its rows reach a direction
FAINT = 1e-12  # share of a spectrum's largest value that its others are raised to
LEAST = 1e-9  # share of an even weight below which none falls
LIMITS = (0.3, 5.0)  # of the factors by which weights move


def complement(u: Array) -> Array:
    """Return an orthonormal basis of the complement of a unit vector of positive entries."""
    w = u + np.eye(len(u))[0]
    return np.asarray((np.eye(len(u)) - np.outer(w, w) * (2.0 / (w @ w)))[:, 1:])


def reached_beside_ones(grams: Sequence[Array]) -> Array | None:
    """Return a basis of what rows reach beside the ones (n, r), None for everything."""
    n = len(grams[0])
    whole = np.sum(grams, axis=0) + 1.0
    shifted = whole - np.eye(n) * (REACHED * float(np.trace(whole)))  # above the largest eigenvalue
    if linalg.lapack.dpotrf(shifted)[1] == 0:
        return None
    values, vectors = linalg.eigh(whole, check_finite=False)
    kept = values > REACHED * values[-1]
    if kept.all() or n == 1:
        return None
    inner = vectors[:, kept] - vectors[:, kept].mean(axis=0)
    left, lengths, _ = linalg.svd(inner, full_matrices=False)
    return np.asarray(left[:, lengths > 0.5])


def beside(weights: Array, reached: Array | None) -> Array:
    """Return Q: an orthonormal basis of ``Λ^½`` times what rows reach, beside √λ."""
    u = np.sqrt(weights)
    if reached is None:
        return complement(u)
    whole = np.column_stack([u, u[:, None] * reached])
    return np.asarray(linalg.qr(whole, mode="economic")[0][:, 1:])


def both_sides(matrix: Array, y: Array, power: float) -> Array:
    """Return ``(I + yyᵀ)^p M (I + yyᵀ)^p``."""
    square = float(y @ y)
    if square < 1e-30:
        return matrix
    k = ((1.0 + square) ** power - 1.0) / square
    matrix = matrix + k * np.outer(y, y @ matrix)
    return np.asarray(matrix + k * np.outer(matrix @ y, y))


@dataclass
class Frame:
    """An attribute's weights of codes, the direction z, and its best residual rows."""

    weights: Array  # (n,), λ, of sum 1
    reached: Array | None = None  # what rows reach beside the ones, None for everything
    z: Array = field(init=False)
    inverse: Array = field(init=False)  # (n, n): Y
    norms: Array = field(init=False)  # (n,): diag BᵀB, of mean 1 under λ
    _q: Array = field(init=False)
    _y: Array = field(init=False)
    _spectrum: tuple[Array, Array, float] = field(init=False)

    def __post_init__(self) -> None:
        self.z = self.weights.copy()

    def solve(self, gram: Array) -> None:
        """Find the best residual rows for a Gram, at the weights and z."""
        u = np.sqrt(self.weights)
        q = beside(self.weights, self.reached)
        y = q.T @ (self.z / u)
        inner = q.T @ (u[:, None] * gram * u) @ q
        d, vectors = linalg.eigh(both_sides(inner, y, 0.5), check_finite=False)
        d = np.sqrt(np.maximum(d, FAINT * max(float(d[-1]), np.finfo(float).tiny)))
        p = both_sides((vectors * d) @ vectors.T, y, -0.5)
        root = float(np.trace(p) + y @ p @ y)
        half = q @ both_sides((vectors / d) @ vectors.T, y, 0.5) @ q.T
        self.inverse = u[:, None] * half * u * root
        s = q - np.outer(u, y)
        self.norms = ((s @ p) * s).sum(axis=1) / (root * self.weights)
        self.z = u * (u + q @ y)
        self._q, self._y, self._spectrum = q, y, (d, vectors, root)

    def move_direction(self, gram: Array) -> None:
        """Move z to the best for a Gram of totals, at the residual rows found last."""
        u, q, y = np.sqrt(self.weights), self._q, self._y
        d, vectors, root = self._spectrum
        p = both_sides((vectors * d) @ vectors.T, y, -0.5) * root
        h = u[:, None] * gram * u
        m = q.T @ h @ q + p
        m.flat[:: len(m) + 1] += 1e-12 * np.trace(m)
        y = linalg.solve(m, -(q.T @ (h @ u)), assume_a="pos", check_finite=False)
        self.z = u * (u + q @ y)

    def move_weights(self, power: float, step: int) -> None:
        """Raise the weights of codes whose columns are above the mean; none is given up early."""
        least = max(LEAST, 0.03 * 0.85**step) / len(self.weights)
        moved = np.maximum(self.weights * np.clip(self.norms, *LIMITS) ** power, least)
        self.weights = moved / moved.sum()
        if step < HELD:
            self.z = self.weights.copy()

    def rows(self) -> Array:
        """Return B at the weights of the last solution, of largest column norm 1."""
        u, y = np.sqrt(self.weights), self._y
        d, vectors, _ = self._spectrum
        square = float(y @ y)
        k = ((1.0 + square) ** -0.5 - 1.0) / square if square > 1e-30 else 0.0
        left = np.sqrt(d)[:, None] * (vectors.T + k * np.outer(vectors.T @ y, y))
        rows = left @ (self._q - np.outer(u, y)).T / u
        return np.asarray(rows / np.sqrt((rows**2).sum(axis=0).max()))
