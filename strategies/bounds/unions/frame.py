"""Frames: the best direction of totals and the best residual rows of one attribute.

With weights λ of the codes, ``u = √λ`` and Q an orthonormal basis of what rows reach beside u, a
frame has ``z = Λ^½ (u + Q y)`` and the metric of its residual rows

    BᵀB = Λ^(-½) S P Sᵀ Λ^(-½),    S = Q - u yᵀ,    Y = ZZᵀ = Λ^½ Q P⁻¹ Qᵀ Λ^½.

For a Gram G, D its projection on Q, the least ``tr(G Y)`` at ``Σ_c λ_c |B e_c|² = 1`` is where
``P (I + yyᵀ) P`` is a multiple of D; the least ``zᵀ G z + tr`` over y solves a linear system.

Where tables also need an attribute's totals, its best frame is that of the one-attribute optimum
for ``G + ω 11ᵀ``, in near-linear time where codes are ordered. For prefix sums
``G_ij = v_max(i,j)``, so that ``v + ω`` is of the same form, and the ordered dual finds weights λ
with ``X⁻¹ = Λ^½ K^½ Λ^½``, K of three diagonals. From these

    τ = 1/(1ᵀ X⁻¹ 1),    z = τ X⁻¹ 1,    BᵀB = X - τ 11ᵀ,    tr(G Y) = tr K^(-½) - (zᵀGz + ω)/τ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from strategies.bounds.ordered_dual import bands, climb_ordered, root_nodes, steps_within
from strategies.operators import Array
from strategies.operators.base.qr import complement
from strategies.operators.ordered.ordered_sums import OrderedGram, ordered_gram
from strategies.problem.table_union import Kind

HELD = 8
"""First steps with z = λ: before the weights of the sets are known, z would run to the end."""
REACHED = 1e-11  # share of the largest eigenvalue of a Gram above which its rows reach a direction
FAINT = 1e-12  # share of a spectrum's largest value that its others are raised to
LEAST = 1e-9  # share of an even weight below which none falls
LIMITS = (0.3, 5.0)  # of the factors by which weights move
ORDERED_TOLERANCE = 1e-4
ORDERED_WORK = 0.5  # seconds of the reference machine for one optimum


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
        _, y, info = linalg.lapack.dposv(m, -(q.T @ (h @ u)))
        if info == 0 and np.isfinite(y).all():
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


@dataclass(frozen=True, eq=False)
class OrderedTotals:
    """A kind of ordered rows, to whose Gram a share of totals may be added where one side is even.

    Elsewhere, as for all ranges, the optimum without one is where a search begins.
    """

    kind: Kind
    gram: OrderedGram

    @classmethod
    def of(cls, kind: Kind) -> "OrderedTotals | None":
        """Return the form of a kind, None where it has none."""
        known = ordered_gram(kind.rows)
        if known is None:
            return None
        return cls(kind, OrderedGram(known.low / kind.scale, known.high / kind.scale))

    def tilted(self, tilt: float) -> tuple[OrderedGram, float]:
        """Return ``G + ω 11ᵀ`` and ω, which is 0 where the sum has no order."""
        for even, other in ((self.gram.low, self.gram.high), (self.gram.high, self.gram.low)):
            if np.ptp(even) <= 1e-12 * even[0]:
                moved = other + tilt / even[0]
                pair = (even, moved) if even is self.gram.low else (moved, even)
                return OrderedGram(*pair), tilt
        return self.gram, 0.0

    def optimum(self, tilt: float) -> tuple[Array, Array, float, float]:
        """Return weights, direction, ``q tr(G Y)`` and ``zᵀ G z`` of the optimum with a tilt."""
        gram, tilt = self.tilted(tilt)
        n = gram.n
        dual = climb_ordered(gram, ORDERED_TOLERANCE, steps_within(n, ORDERED_WORK))
        u = np.sqrt(dual.weights)
        diagonal, side = bands(gram, dual.weights)
        shifts, shares = root_nodes(diagonal, side)
        inner = np.zeros(n)
        for shift, share in zip(shifts, shares, strict=True):
            both = np.stack([np.r_[0.0, side], diagonal + shift])
            inner += share * linalg.solveh_banded(both, u, check_finite=False)
        along = diagonal * inner  # K^½ u = K K^(-½) u
        along[:-1] += side * inner[1:]
        along[1:] += side * inner[:-1]
        z = u * along
        tau = 1.0 / float(z.sum())
        z = z * tau
        total = float(z @ self.kind.gram @ z)
        root, largest = dual.root, float(dual.ratios.max())
        residual = max(root - (total + tilt) / tau, 0.0) * (largest - tau)
        return dual.weights, z, residual, total
