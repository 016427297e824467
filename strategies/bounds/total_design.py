"""Frames of least total error for a union of tables, with the weights that prove how good it is.

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

With ``q_i = max diag B_iᵀB_i``, ``N = tr(G Y) q`` and ``a = zᵀ G z`` for an attribute's Gram G in a
table, measuring every set S with share s_S of the squared sensitivity has the error

    Σ_S e_S / s_S,    e_S = Σ_{T ⊇ S} w_T² Π_S N Π_{T - S} a,

least at ``s ∝ √e``: the loss is ``(Σ_S √e_S)²``. Its slopes in N and a are the weights with which
an attribute's Grams are mixed into that of its residuals and that of its totals; every step solves
all frames for them and moves z and the weights λ of codes.
"""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from strategies.bounds.ordered_dual import bands, climb_ordered, root_nodes, steps_within
from strategies.operators import Array
from strategies.operators.base.arrays import Longs
from strategies.operators.base.qr import complement
from strategies.operators.ordered_sums import OrderedGram, ordered_gram
from strategies.problem.table_union import Kind, TableUnion

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
    return np.asarray(left[:, : max(1, np.count_nonzero(lengths > 0.5))])


def residual_basis(weights: Array, reached: Array | None) -> Array:
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
        q = residual_basis(self.weights, self.reached)
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
        known = ordered_gram(kind.rows)
        if known is None:
            return None
        return cls(kind, OrderedGram(known.low / kind.scale, known.high / kind.scale))

    def tilt_gram(self, tilt: float) -> tuple[OrderedGram, float]:
        """Return ``G + ω 11ᵀ`` and ω, which is 0 where the sum has no order."""
        for even, other in ((self.gram.low, self.gram.high), (self.gram.high, self.gram.low)):
            if np.ptp(even) <= 1e-12 * even[0]:
                moved = other + tilt / even[0]
                pair = (even, moved) if even is self.gram.low else (moved, even)
                return OrderedGram(*pair), tilt
        return self.gram, 0.0

    def optimum(self, tilt: float) -> tuple[Array, Array, float, float]:
        """Return weights, direction, ``q tr(G Y)`` and ``zᵀ G z`` of the optimum with a tilt."""
        gram, tilt = self.tilt_gram(tilt)
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


TOLERANCE = 1e-4  # gap between the loss and its mean under λ at which the climb stops
MOST_STEPS = 300
SLOWED = 30  # steps after which a loss above the best makes the weights move less
WARM = 60  # steps that such a start counts for
LONG = 400  # codes from which an order gives weights and directions to start from
ROUNDS = 6  # of one-attribute optima
FALLS = 1.02
NEGLIGIBLE = 1e-24  # share of the largest error that every set is given at least
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Design:
    """Frames and shares of sets, and the weights of cells and rows left by the search."""

    frames: tuple[Frame, ...]  # of every attribute, as they were at the best loss
    shares: Array  # (sets,), of sum 1
    loss: float  # of the search
    weights: tuple[Array, ...]  # λ of every attribute
    weighted: TableUnion  # the workload whose total is bounded: the union, or a mean of its rows


def best_shares(errors: Array) -> Array:
    root = np.sqrt(np.maximum(errors, NEGLIGIBLE * errors.max()))
    return np.asarray(root / root.sum())


def starting_frames(union: TableUnion) -> list[Frame]:
    """Return one frame for all attributes that may change places."""
    own = {
        i: Frame(
            np.full(union.sizes[i], 1.0 / union.sizes[i]),
            reached_beside_ones([kind.gram for kind in union.kinds[i]]),
        )
        for i in sorted(set(union.twin))
    }
    return [own[i] for i in union.twin]


class FrameClimb:
    """A search that can be taken up again: frames and shares of sets, the best of all steps."""

    is_warm = False  # whether it begins near the optimum

    def __init__(self, union: TableUnion) -> None:
        self.union = union
        self.own = sorted(set(union.twin))
        self.frames = starting_frames(union)
        self.squares = (union.weights / union.weights.max()) ** 2
        self.step, self.is_done, self.best = 0, False, np.inf
        self.kept, self.shares = self.frames, np.ones(len(union.sets))

    @abstractmethod
    def take_step(self, tolerance: float) -> None:
        """Solve the frames, keep them where they are the best, and move on."""

    def keep(self, loss: float, shares: Array) -> None:
        if loss < self.best:
            self.best, self.shares = loss, shares
            kept = {i: copy(self.frames[i]) for i in self.own}
            self.kept = [kept[i] for i in self.union.twin]

    def weighted_union(self) -> TableUnion:
        """Return the tables whose total error the weights bound."""
        return self.union

    def run(self, tolerance: float, most: int) -> Design:
        while not self.is_done and self.step < most:
            self.take_step(tolerance)
        weights = tuple(frame.weights for frame in self.frames)
        loss = self.best * float(self.union.weights.max()) ** 2
        return Design(tuple(self.kept), self.shares, loss, weights, self.weighted_union())


class TotalClimb(FrameClimb):
    """Frames, and the slopes by which Grams are mixed."""

    def __init__(self, union: TableUnion) -> None:
        super().__init__(union)
        self.age, self.power = 0, 1.0
        shape = union.count, max(map(len, union.kinds))
        self.residual, self.total = np.ones(shape), np.ones(shape)  # N and a of every kind
        self.residual_slopes, self.total_slopes = np.ones(shape), np.ones(shape)
        self.worst = np.ones(union.count)  # q
        self.of_set, self.of_table = union.pairs
        self.inside = union.set_members[self.of_set]
        self.rest = union.table_members[self.of_table] & ~self.inside
        chains = self.ordered_attributes()
        self.is_warm = bool(chains)
        if chains:
            self.start_from_orders(chains)

    def ordered_attributes(self) -> dict[int, OrderedTotals]:
        """Return the attributes of many codes with an order to start from, {} unless all have."""
        long = [
            i for i in self.own if i in self.union.moving_attributes and self.union.sizes[i] >= LONG
        ]
        if any(len(self.union.kinds[i]) > 1 for i in long):
            return {}
        known = {i: OrderedTotals.of(self.union.kinds[i][0]) for i in long}
        found = {i: one for i, one in known.items() if one is not None}
        return found if len(found) == len(long) else {}

    def start_from_orders(self, chains: dict[int, OrderedTotals]) -> None:
        """Start from one-attribute optima, each for its Gram and the totals that tables add to it.

        With ``v = N q`` and the slopes of the loss in v and a, its best point is that for the Gram
        ``G + ω 11ᵀ`` with ``ω = v (f_v / f_a)² - a``: a few rounds find all ω.
        """
        tilts = dict.fromkeys(chains, 0.0)
        others = [i for i in self.own if i not in chains]
        twin = list(self.union.twin)
        for round_ in range(ROUNDS):
            for i, chain in chains.items():
                frame = self.frames[i]
                frame.weights, frame.z, self.residual[i, 0], self.total[i, 0] = chain.optimum(
                    tilts[i]
                )
            self.solve_frames(others, everything=round_ == 0)
            self.residual, self.total = self.residual[twin], self.total[twin]
            each, errors = self.errors()
            self.take_slopes(each / best_shares(errors)[self.of_set])
            for i in chains:
                ratio = self.residual_slopes[i, 0] / max(self.total_slopes[i, 0], TINY)
                tilt = self.residual[i, 0] * ratio**2 - self.total[i, 0]
                tilts[i] = float(np.clip(tilt, 0.0, 1e6 * (self.residual[i, 0] + self.total[i, 0])))
            for i in others:
                if i in self.union.moving_attributes:
                    self.frames[i].move_direction(self.mix_grams(i, self.total_slopes))
                    self.frames[i].move_weights(self.power, WARM)
        self.age = WARM

    def mix_grams(self, i: int, slopes: Array) -> Array:
        pairs = zip(slopes[i], self.union.kinds[i], strict=False)
        return np.asarray(np.sum([x * kind.gram for x, kind in pairs], axis=0), np.float64)

    def solve(self, everything: bool) -> None:
        self.solve_frames(self.own, everything)
        twin = list(self.union.twin)
        self.worst, self.residual = self.worst[twin], self.residual[twin]
        self.total = self.total[twin]

    def solve_frames(self, chosen: list[int], everything: bool) -> None:
        for i in chosen:
            frame, kinds = self.frames[i], self.union.kinds[i]
            if everything or i in self.union.moving_attributes:
                frame.solve(self.mix_grams(i, self.residual_slopes))
            self.worst[i] = frame.norms.max()
            for k, kind in enumerate(kinds):
                self.residual[i, k] = self.worst[i] * (kind.gram * frame.inverse).sum()
                self.total[i, k] = frame.z @ kind.gram @ frame.z

    def errors(self) -> tuple[Array, Array]:
        every, kind = np.arange(self.union.count), self.union.kind
        inside, rest = self.residual[every, kind], self.total[every, kind]
        parts = np.where(self.inside, inside[self.of_table], 1.0)
        parts = np.where(self.rest, rest[self.of_table], parts)
        each = self.squares[self.of_table] * parts.prod(axis=1)
        return each, np.asarray(np.bincount(self.of_set, each, len(self.union.sets)), np.float64)

    def take_slopes(self, each: Array) -> None:
        """Set the slopes of the loss in N and a of every kind."""
        self.residual_slopes[:], self.total_slopes[:] = 0.0, 0.0
        for i in self.own:
            kind: Longs = self.union.kind[self.of_table, i]
            np.add.at(self.residual_slopes[i], kind, each * self.inside[:, i])
            np.add.at(self.total_slopes[i], kind, each * self.rest[:, i])
        self.residual_slopes /= np.maximum(self.residual, TINY)
        self.total_slopes /= np.maximum(self.total, TINY)

    def move(self, power: float, step: int) -> None:
        for i in self.own:
            if i in self.union.moving_attributes:
                self.frames[i].move_direction(self.mix_grams(i, self.total_slopes))
                self.frames[i].move_weights(power, step)

    def take_step(self, tolerance: float) -> None:
        union = self.union
        self.solve(everything=self.step == 0)
        each, errors = self.errors()
        loss = float(np.sqrt(errors).sum() ** 2)
        lowered = np.where(union.set_members, self.worst, 1.0).prod(axis=1)
        mean = float(np.sqrt(errors / lowered).sum() ** 2)  # the loss if all columns were average
        if self.age > SLOWED and loss > FALLS * self.best:
            self.power = max(0.5, 0.8 * self.power)
        shares = best_shares(errors)
        self.keep(loss, shares)
        self.is_done = loss < mean * (1.0 + tolerance) and (
            self.age > HELD or not union.moving_attributes
        )
        if not self.is_done:
            self.take_slopes(each / shares[self.of_set])
            self.move(self.power, self.age)
            self.step, self.age = self.step + 1, self.age + 1
