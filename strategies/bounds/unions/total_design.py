"""Frames of least total error for a union of tables, with the weights that prove how good it is.

With ``q_i = max diag B_iᵀB_i``, ``N = tr(G Y) q`` and ``a = zᵀ G z`` for an attribute's Gram G in a
table, measuring every set S with share s_S of the squared sensitivity has the error

    Σ_S e_S / s_S,    e_S = Σ_{T ⊇ S} w_T² Π_S N Π_{T - S} a,

least at ``s ∝ √e``: the loss is ``(Σ_S √e_S)²``. Its slopes in N and a are the weights with which
an attribute's Grams are mixed into that of its residuals and that of its totals; every step solves
all frames for them and moves z and the weights λ of codes.
"""

from copy import copy
from dataclasses import dataclass

import numpy as np

from strategies.bounds.unions.frame import HELD, Frame, OrderedTotals, reached_beside_ones
from strategies.operators import Array
from strategies.operators.base.arrays import Longs
from strategies.problem.table_union import TableUnion

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
    """Return shares of the squared sensitivity for sets of some errors."""
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


class TotalClimb:
    """A search that can be taken up again: frames, and the slopes by which Grams are mixed."""

    def __init__(self, union: TableUnion) -> None:
        self.union = union
        self.own = sorted(set(union.twin))
        self.frames = starting_frames(union)
        self.step, self.age, self.power, self.is_done = 0, 0, 1.0, False
        self.best, self.kept, self.shares = np.inf, self.frames, np.ones(len(union.sets))
        shape = union.count, max(map(len, union.kinds))
        self.residual, self.total = np.ones(shape), np.ones(shape)  # N and a of every kind
        self.residual_slopes, self.total_slopes = np.ones(shape), np.ones(shape)
        self.worst = np.ones(union.count)  # q
        self.of_set, self.of_table = union.pairs
        self.inside = union.in_set[self.of_set]
        self.rest = union.in_table[self.of_table] & ~self.inside
        self.squares = (union.weights / union.weights.max()) ** 2
        chains = self.ordered_attributes()
        self.is_warm = bool(chains)
        if chains:
            self.start_from_orders(chains)

    def ordered_attributes(self) -> dict[int, OrderedTotals]:
        """Return the attributes of many codes with an order to start from, {} unless all have."""
        long = [i for i in self.own if i in self.union.moving and self.union.sizes[i] >= LONG]
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
                if i in self.union.moving:
                    self.frames[i].move_direction(self.mixed(i, self.total_slopes))
                    self.frames[i].move_weights(self.power, WARM)
        self.age = WARM

    def mixed(self, i: int, slopes: Array) -> Array:
        """Return the sum of an attribute's Grams at some slopes."""
        pairs = zip(slopes[i], self.union.kinds[i], strict=False)
        return np.asarray(np.sum([x * kind.gram for x, kind in pairs], axis=0), np.float64)

    def solve(self, everything: bool) -> None:
        """Solve the frames; then take what every kind of table says of them."""
        self.solve_frames(self.own, everything)
        twin = list(self.union.twin)
        self.worst, self.residual = self.worst[twin], self.residual[twin]
        self.total = self.total[twin]

    def solve_frames(self, chosen: list[int], everything: bool) -> None:
        """Solve some frames, and take what their kinds say of them."""
        for i in chosen:
            frame, kinds = self.frames[i], self.union.kinds[i]
            if everything or i in self.union.moving:
                frame.solve(self.mixed(i, self.residual_slopes))
            self.worst[i] = frame.norms.max()
            for k, kind in enumerate(kinds):
                self.residual[i, k] = self.worst[i] * (kind.gram * frame.inverse).sum()
                self.total[i, k] = frame.z @ kind.gram @ frame.z

    def errors(self) -> tuple[Array, Array]:
        """Return the errors of sets within tables, and of sets."""
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
        """Move the directions and the weights of codes."""
        for i in self.own:
            if i in self.union.moving:
                self.frames[i].move_direction(self.mixed(i, self.total_slopes))
                self.frames[i].move_weights(power, step)

    def to(self, tolerance: float, most: int) -> "Design":
        """Climb until the gap is small, or some steps are taken in all; return the best found."""
        while not self.is_done and self.step < most:
            self.take_step(tolerance)
        weights = tuple(frame.weights for frame in self.frames)
        unit = float(self.union.weights.max()) ** 2
        return Design(tuple(self.kept), self.shares, self.best * unit, weights, self.union)

    def take_step(self, tolerance: float) -> None:
        """Solve the frames, keep them where they are the best, and move on."""
        union = self.union
        self.solve(everything=self.step == 0)
        each, errors = self.errors()
        loss = float(np.sqrt(errors).sum() ** 2)
        lowered = np.where(union.in_set, self.worst, 1.0).prod(axis=1)
        mean = float(np.sqrt(errors / lowered).sum() ** 2)  # the loss if all columns were average
        if self.age > SLOWED and loss > FALLS * self.best:
            self.power = max(0.5, 0.8 * self.power)
        shares = best_shares(errors)
        if loss < self.best:
            self.best, self.shares = loss, shares
            kept = {i: copy(self.frames[i]) for i in self.own}
            self.kept = [kept[i] for i in union.twin]
        self.is_done = loss < mean * (1.0 + tolerance) and (self.age > HELD or not union.moving)
        if not self.is_done:
            self.take_slopes(each / shares[self.of_set])
            self.move(self.power, self.age)
            self.step, self.age = self.step + 1, self.age + 1
