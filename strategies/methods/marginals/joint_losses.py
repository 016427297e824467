"""Two groups of tables, each in product marginals of its own, answered by joint least squares.

Each group g sees the classes of codes that its tables tell apart, ``u_g``, and estimates them with
the covariance Σ_g. What both see are coarser classes ``c = C_1u_1 = C_2u_2``, of which they have
estimates of covariances ``D_g = C_gΣ_gC_gᵀ``. With ``X = (D_1 + D_2)⁻¹`` (Woodbury),

    Σ_g' = Σ_g - Σ_gC_gᵀ X C_gΣ_g,    loss = (t_1 + t_2)² Σ_g Σ_T (error_gT - tr(X M_gT)),

``M_gT = C_gΣ_gW_TᵀW_TΣ_gC_gᵀ``. ``Σ_g = Σ_U 1/λ_U ⊗ (Y_i in U, z_iz_iᵀ elsewhere)``, so D and M are
sums over sets of attributes of Kronecker products of small matrices.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from scipy import linalg, sparse

from strategies.methods.descents import REFUSED
from strategies.methods.marginals.product_losses import Point, ProductLosses, Slopes
from strategies.operators.base.arrays import Array, Bools, Longs
from strategies.operators.masks.packed_masks import containment
from strategies.operators.tables.product_marginals import coarser_classes

ChainSlopes = tuple[Array, Array, list[Array], Array]
FLOOR = 1e-13  # precision of what is not measured, beside the largest: keeps inverses finite


class Chain:
    """``Σ_T w_T <l, ⊗_i F_i,T X>`` for tables T with one of few factors along every axis."""

    def __init__(self, kinds: Longs) -> None:
        self.levels: list[tuple[Longs, Longs]] = []  # number before, and factor, of every prefix
        number = np.zeros(len(kinds), dtype=np.int64)
        for column in kinds.T:
            pairs, inverse = np.unique(
                np.stack([number, column], axis=1), axis=0, return_inverse=True
            )
            self.levels.append((pairs[:, 0], pairs[:, 1]))
            number = inverse.ravel()
        self.number = number

    def slopes(
        self, x: Array, factors: Sequence[Array], ends: Array, weights: Array
    ) -> ChainSlopes:
        """Return every table's value, and the sum's slopes in X, the factors and the ends.

        `x`: one entry for each choice of a column of every factor; `factors`: (kinds, w, columns);
        `ends`: (w ** axes,).
        """
        state, states = x.reshape(1, 1, -1), []
        for (before, kind), factor in zip(self.levels, factors, strict=True):
            cut = state.reshape(*state.shape[:2], factor.shape[2], -1)
            states.append(cut)
            state = factor[kind][:, None] @ cut[before]
            state = state.reshape(len(kind), -1, cut.shape[3])
        last = state[:, :, 0]
        values = (last @ ends)[self.number]
        summed = np.bincount(self.number, weights, len(last))
        back = np.asarray(np.multiply.outer(summed, ends)[:, :, None])
        by_factors = []
        for (before, kind), factor, cut in zip(
            self.levels[::-1], factors[::-1], states[::-1], strict=True
        ):
            above = back.reshape(len(kind), cut.shape[1], factor.shape[1], cut.shape[3])
            by_factor = np.zeros_like(factor)
            np.add.at(by_factor, kind, (above @ cut[before].swapaxes(2, 3)).sum(axis=1))
            by_factors.append(by_factor)
            below = np.zeros_like(cut)
            np.add.at(below, before, factor[kind].swapaxes(1, 2)[:, None] @ above)
            back = below.reshape(len(cut), cut.shape[1], -1)
        return values, back.reshape(x.shape), by_factors[::-1], summed @ last


@dataclass(frozen=True, eq=False)
class SharedEstimate:
    """What one group's estimate of the shared classes is made of, at some roots."""

    sides: list[tuple[Array, Array]]  # C z and C τY of every shared attribute
    inverse: Array  # 1/λ_U Π_U 1/τ of its subsets
    spread: list[Array]  # (1, 2, c²): the covariances' factors
    crossed: list[Array]  # (kinds, 4, c²): those of M


class Group:
    """One group beside the shared classes: which tables it answers, and its slopes."""

    def __init__(self, form: ProductLosses, coarse: Sequence[Longs], answered: Bools) -> None:
        self.form, self.answered = form, answered
        self.shared = [i for i, labels in enumerate(coarse) if labels.max() > 0]
        self.onto = []  # C of every shared attribute
        for i in self.shared:
            classes = form.classes[form.owner[i]]
            onto = np.zeros((int(coarse[i].max()) + 1, classes.count))
            onto[coarse[i], classes.labels] = 1.0
            self.onto.append(onto)
        every = np.arange(2 ** len(self.shared))[:, None] >> np.arange(len(self.shared))[::-1] & 1
        self.below = np.zeros((len(every), form.count), dtype=bool)
        self.below[:, self.shared] = every.astype(bool)
        self.above = sparse.csr_array(containment(self.below, form.sets))
        kinds = form.kind[answered]
        self.tables = Chain(kinds[:, self.shared])
        self.one = Chain(np.zeros((1, len(self.shared)), dtype=np.int64))
        others = [i for i in range(form.count) if i not in self.shared]
        self.others = [  # codes of the totals that each answered table multiplies
            (form.first[form.owner[i]] + kinds[:, i], kinds[:, i] > 0) for i in others
        ]

    def at(self, point: Point) -> SharedEstimate:
        """Return the factors of D and of M."""
        sides, spread, crossed = [], [], []
        for i, onto in zip(self.shared, self.onto, strict=True):
            own = self.form.owner[i]
            side = point.sides[own]
            first, rest = onto @ side.z, side.tau * (onto @ side.residual)
            rows = np.stack([np.multiply.outer(first, side.z), rest])  # (2, c, n)
            spread.append((rows @ onto.T).reshape(1, 2, -1))
            across = rows[None] @ self.form.classes[own].gram_stack[:, None]  # (kinds, 2, c, n)
            pairs = across[:, :, None] @ rows.swapaxes(1, 2)[None, None]
            crossed.append(pairs.reshape(len(across), 4, -1))
            sides.append((first, rest))
        values = self.above @ point.shares
        return SharedEstimate(sides, 1.0 / (values + FLOOR * values.max()), spread, crossed)

    def weights(self, point: Point) -> Array:
        """Return ``w_T² Π z_iᵀG_iz_i`` over attributes that are not shared, of answered tables."""
        result = self.form.squares[self.answered].copy()
        for code, used in self.others:
            result *= np.where(used, point.totals[code], 1.0)
        return result

    def covariance(self, shared: SharedEstimate, unit: Array) -> Array:
        """Return D, its entries in the order of pairs of codes, attribute by attribute."""
        return self.one.slopes(unit, shared.spread, shared.inverse, np.ones(1))[1]

    def slopes(
        self, point: Point, shared: SharedEstimate, crossed: ChainSlopes, by_covariance: Array
    ) -> Slopes:
        """Return slopes in shares, totals and sides of minus ``Σ tr(X M)`` and of ``tr(S D)``."""
        form, q = self.form, len(self.shared)
        values, _, by_crossed, by_pairs = crossed
        _, _, by_spread, by_inverse = self.one.slopes(
            by_covariance, shared.spread, shared.inverse, np.ones(1)
        )
        square = by_pairs.reshape([2] * (2 * q))
        square = square.transpose([*range(0, 2 * q, 2), *range(1, 2 * q, 2)])
        square = square.reshape(2**q, 2**q)
        by_inverse = by_inverse - (square + square.T) @ shared.inverse
        result = Slopes.none(point)
        result.by_share[:] = self.above.T @ (-by_inverse * shared.inverse**2)
        products = -values * self.weights(point)
        for code, used in self.others:
            np.add.at(result.by_total, code[used], products[used])
        for k, i in enumerate(self.shared):
            own = form.owner[i]
            side, onto, (first, rest) = point.sides[own], self.onto[k], shared.sides[k]
            c = len(onto)
            rows = np.stack([np.multiply.outer(first, side.z), rest])
            grams = form.classes[own].gram_stack
            pairs = -by_crossed[k].reshape(len(grams), 2, 2, c, c)
            both = pairs + pairs.transpose(0, 2, 1, 4, 3)
            by_rows = np.einsum("kuvab,vbn,knm->uam", both, rows, grams, optimize=True)
            by_rows += by_spread[k].reshape(2, c, c) @ onto
            by_hat = onto.T @ by_rows[1]
            by_hat = 0.5 * (by_hat + by_hat.T)
            result.by_residual[own] += side.tau * by_hat
            result.by_tau[own] += float(np.vdot(by_hat, side.residual))
            result.by_z[own] += onto.T @ (by_rows[0] @ side.z) + by_rows[0].T @ first
        return result


class JointLosses:
    """Two groups: their joint loss and its slope."""

    def __init__(self, one: ProductLosses, two: ProductLosses) -> None:
        self.forms = one, two
        self.coarse = shared_classes(one, two)
        only = ~np.isin(two.tables, one.tables)
        self.groups = (
            Group(one, self.coarse, np.ones(len(one.tables), dtype=bool)),
            Group(two, self.coarse, only),
        )
        self.sizes = [int(labels.max()) + 1 for labels in self.coarse if labels.max() > 0]

    def __call__(self, x: Array) -> tuple[float, Array]:
        halves = np.split(x, [self.forms[0].size])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            points = [form.at(half) for form, half in zip(self.forms, halves, strict=True)]
        if not all(np.isfinite(point.errors).all() for point in points):
            return REFUSED, np.zeros_like(x)
        shared = [group.at(point) for group, point in zip(self.groups, points, strict=True)]
        both = list(zip(self.groups, points, shared, strict=True))
        unit = np.zeros([n * n for n in self.sizes])
        parts = [group.covariance(s, unit) for group, _, s in both]
        spread = self.matrix(parts[0] + parts[1])
        inverse = linalg.inv(spread)
        x_pairs = self.pairs(inverse)
        crossed = [
            group.tables.slopes(x_pairs, s.crossed, pair_products(s.inverse), group.weights(point))
            for group, point, s in both
        ]
        measured = self.matrix(crossed[0][1] + crossed[1][1])
        by_spread = self.pairs(inverse @ measured @ inverse)
        error = sum(float(p.errors[g.answered].sum()) for g, p, _ in both)
        error -= float(np.vdot(inverse, measured))
        weight = sum(float((p.roots**2).sum()) for p in points)
        if not error > 0:
            return REFUSED, np.zeros_like(x)
        slopes = []
        for (group, point, s), one in zip(both, crossed, strict=True):
            more = group.slopes(point, s, one, by_spread)
            slope = point.slope(group.answered.astype(np.float64), more) / error
            slope[: len(point.roots)] += 4.0 / weight * point.roots
            slopes.append(slope)
        return 2.0 * np.log(weight) + np.log(error), np.concatenate(slopes)

    def matrix(self, pairs: Array) -> Array:
        """Return entries in the order of pairs of codes as a matrix over the shared classes."""
        q = len(self.sizes)
        tensor = pairs.reshape([n for size in self.sizes for n in (size, size)])
        order = [*range(0, 2 * q, 2), *range(1, 2 * q, 2)]
        return tensor.transpose(order).reshape([int(np.prod(self.sizes))] * 2)

    def pairs(self, matrix: Array) -> Array:
        """Return the reverse of `matrix`."""
        q = len(self.sizes)
        tensor = matrix.reshape([*self.sizes, *self.sizes])
        order = [axis for i in range(q) for axis in (i, q + i)]
        return tensor.transpose(order).reshape([n * n for n in self.sizes])


def pair_products(values: Array) -> Array:
    """Return ``v_U v_V`` with U and V by turns, attribute by attribute."""
    q = int(np.log2(len(values)))
    square = np.multiply.outer(values, values).reshape([2] * (2 * q))
    return square.transpose([axis for i in range(q) for axis in (i, q + i)]).ravel()


def shared_classes(one: ProductLosses, two: ProductLosses) -> list[Longs]:
    """Return the classes of every attribute's codes that both groups see."""
    pairs = zip(one.owner, two.owner, strict=True)
    return [coarser_classes(one.classes[a].labels, two.classes[b].labels) for a, b in pairs]


def shared_cells(one: ProductLosses, two: ProductLosses) -> int:
    return prod(int(labels.max()) + 1 for labels in shared_classes(one, two))
