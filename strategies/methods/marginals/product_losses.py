"""Losses of product marginals and their slopes, from Grams of one attribute at a time.

``A = stack of t_S ⊗ (A_i for i in S, the row of ones elsewhere)`` with p-Identities
``A_i = [I; B_i] diag(1/e)``, ``e = 1 + Σ|B_i|``, of column norm 1, has L1 sensitivity ``Σ t_S``.
With ``K = (AᵀA)⁻¹`` of one attribute, ``τ = 1/1ᵀK1``, ``z = τK1`` and ``Y = K - zzᵀ/τ``, least
squares over all tables answers the table T with Grams ``G_i`` with the error

    w_T² Σ_{U ⊆ T} 1/λ_U Π_U tr(G_i Y_i) Π_{T∖U} z_iᵀG_iz_i,    λ_U = Σ_{S ⊇ U} t_S² Π_{S∖U} τ_i.

`strategies.operators.ProductMarginals` has the same forms for exact rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from scipy import sparse

from strategies.methods.descents import REFUSED
from strategies.operators.base.arrays import Array, Bools, Longs
from strategies.operators.masks.packed_masks import containment
from strategies.problem.table_union import Kind, TableUnion

TINY = 1e-300  # stands for zero under a logarithm
ROWS = 0.6  # rows beside the identity, times the root of the codes


@dataclass(frozen=True, eq=False)
class Classes:
    """Codes of an attribute that the tables of a form do not tell apart, as one class."""

    labels: Longs  # (n,), classes numbered as they come
    grams: tuple[Array, ...]  # of every kind that the classes allow, over classes; 0 is the total
    allowed: Bools  # which of the attribute's kinds these are

    @classmethod
    def of(cls, kinds: Sequence[Kind], used: Sequence[int]) -> "Classes":
        """Return the coarsest classes that some of an attribute's kinds need."""
        grams = [kind.gram for kind in kinds]
        labels = joined_labels([kinds[k].classes for k in used], len(grams[0]))
        first = np.unique(labels, return_index=True)[1]
        small = [gram[np.ix_(first, first)] for gram in grams]
        pairs = zip(small, grams, strict=True)
        allowed = np.array([np.allclose(g[np.ix_(labels, labels)], whole) for g, whole in pairs])
        kept = [g for g, is_allowed in zip(small, allowed, strict=True) if is_allowed]
        return cls(labels, (np.ones((len(first),) * 2), *kept), allowed)

    @property
    def count(self) -> int:
        return len(self.grams[0])

    @cached_property
    def gram_stack(self) -> Array:
        return np.stack(self.grams)

    @cached_property
    def rows(self) -> int:
        """Rows beside the identity: one where every table asks for single classes."""
        plain = all(np.count_nonzero(g) == np.count_nonzero(np.diag(g)) for g in self.grams[1:])
        return 1 if plain else max(2, round(ROWS * self.count**0.5))

    @property
    def is_plain(self) -> bool:
        return self.rows == 1


def joined_labels(parts: Sequence[Longs], n: int) -> Longs:
    """Return the common refinement of several labels, classes numbered as they come."""
    whole = reduce(
        lambda a, b: np.unique(a * (b.max() + 1) + b, return_inverse=True)[1].ravel(),
        parts,
        np.zeros(n, dtype=np.int64),
    )
    _, first, inverse = np.unique(whole, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[inverse.ravel()], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Side:
    """One attribute at some rows ``B = r|r|``: its closed forms, and slopes through them."""

    roots: Array  # r, (p, n)
    widths: Array  # e, (n,)
    solved: Array  # (I + BBᵀ)⁻¹B
    cover: Array  # K
    tau: float
    z: Array

    @classmethod
    def at(cls, roots: Array) -> "Side":
        rows, widths = roots * np.abs(roots), 1.0 + (roots * roots).sum(axis=0)
        solved = np.asarray(np.linalg.solve(np.eye(len(rows)) + rows @ rows.T, rows), np.float64)
        cover: Array = (np.eye(len(widths)) - rows.T @ solved) * widths[:, None] * widths
        sums: Array = cover.sum(axis=1)
        return cls(roots, widths, solved, cover, float(1.0 / sums.sum()), sums / sums.sum())

    @cached_property
    def residual(self) -> Array:
        return self.cover - np.multiply.outer(self.z, self.z) / self.tau

    def matrix(self) -> Array:
        """Return ``A_i``, of column norm 1."""
        rows = self.roots * np.abs(self.roots)
        return np.vstack([np.eye(len(self.widths)), rows]) / self.widths

    def energies(self, grams: Sequence[Array]) -> tuple[Array, Array]:
        """Return ``tr(G Y)`` and ``zᵀGz`` of several Grams."""
        totals = np.array([self.z @ gram @ self.z for gram in grams])
        traces = np.array([np.vdot(gram, self.cover) for gram in grams])
        return np.maximum(traces - totals / self.tau, TINY), np.maximum(totals, TINY)

    def slope(self, by_residual: Array, by_z: Array, by_tau: float) -> Array:
        """Return the slope in the roots of what has some slopes in Y, z and τ.

        All are linear in dK: ``dz = τ(dK1 - z 1ᵀdK1)``, ``dτ = -τ² 1ᵀdK1``.
        """
        z, tau, e = self.z, self.tau, self.widths
        across = by_residual @ z
        inner = by_residual + 0.0
        v = 0.5 * tau * by_z - across
        inner += v[:, None] + v + (z @ across - tau * (by_z @ z) - tau**2 * by_tau)
        by_rows = -2.0 * (self.solved @ (inner * e[:, None] * e)) @ (self.cover / e[:, None] / e)
        by_widths = 2.0 * (inner * self.cover).sum(axis=1) / e
        return np.asarray(2.0 * (by_rows * np.abs(self.roots) + self.roots * by_widths))


class ProductLosses:
    """The tables of a union, or a group of them, in product marginals over their classes."""

    def __init__(self, union: TableUnion, served: Longs) -> None:
        self.union = union
        kind = np.where(union.table_members, union.kind + 1, 0)
        used = [np.unique(kind[served, i][kind[served, i] > 0]) - 1 for i in range(union.count)]
        self.classes: list[Classes] = []
        self.owner: list[int] = []  # number in `classes`, of every attribute
        known: dict[tuple[int, bytes], int] = {}
        for i in range(union.count):
            key = union.twin[i], used[i].tobytes()
            if key not in known:
                known[key] = len(self.classes)
                self.classes.append(Classes.of(union.kinds[i], used[i].tolist()))
            self.owner.append(known[key])
        allowed = [np.r_[True, self.classes[o].allowed] for o in self.owner]
        places = [np.cumsum(one) - 1 for one in allowed]
        fits = np.all([one[kind[:, i]] for i, one in enumerate(allowed)], axis=0)
        self.tables = np.flatnonzero(fits)  # all that the classes allow
        self.kind = np.stack([p[kind[fits, i]] for i, p in enumerate(places)], axis=1)
        self.squares = union.weights[fits] ** 2
        self._number_pairs(fits)

    @property
    def count(self) -> int:
        return len(self.owner)

    def _number_pairs(self, fits: Bools) -> None:
        """List the sets below every table, and the logarithms that each pair of them sums."""
        own = self.kind > 0
        of_set, of_table = self.union.pairs
        kept = fits[of_table]
        used, self.of_set = np.unique(of_set[kept], return_inverse=True)
        self.of_table = (np.cumsum(fits) - 1)[of_table[kept]]
        self.below = self.union.set_members[used]
        inside = self.below[self.of_set]
        first = np.cumsum([0, *(len(one.grams) for one in self.classes)])
        code = first[np.array(self.owner)] + self.kind[self.of_table]  # (pairs, attributes)
        outside = own[self.of_table] & ~inside
        pairs = np.concatenate([np.nonzero(inside)[0], np.nonzero(outside)[0]])
        codes = np.concatenate([code[inside], first[-1] + code[outside]])
        shape = len(code), 2 * int(first[-1])
        self.sums = sparse.csr_array((np.ones(len(pairs)), (pairs, codes)), shape=shape)
        self.summed = sparse.csr_array(self.sums.T)
        self.first = first

    def measure(self, sets: Bools) -> None:
        self.sets = sets
        counts = np.zeros((len(sets), len(self.classes)))
        for i, o in enumerate(self.owner):
            counts[:, o] += sets[:, i]
        self.powers = counts  # attributes of a set that share a side
        self.above = sparse.csr_array(containment(self.below, sets))
        self.above_each = sparse.csr_array(self.above.T)

    @property
    def size(self) -> int:
        """Number of variables: a root for every set, and those of every side's rows."""
        return len(self.sets) + sum(one.rows * one.count for one in self.classes)

    def split(self, x: Array) -> tuple[Array, list[Array]]:
        parts, at = [], len(self.sets)
        for one in self.classes:
            parts.append(x[at : at + one.rows * one.count].reshape(one.rows, one.count))
            at += one.rows * one.count
        return x[: len(self.sets)], parts

    def at(self, x: Array) -> "Point":
        roots, parts = self.split(x)
        sides = [Side.at(part) for part in parts]
        taus = np.array([side.tau for side in sides])
        energies = [s.energies(c.grams) for s, c in zip(sides, self.classes, strict=True)]
        residuals = np.concatenate([t * e[0] for t, e in zip(taus, energies, strict=True)])
        totals = np.concatenate([e[1] for e in energies])
        shares = roots**4 * np.exp(self.powers @ np.log(taus))
        values = self.above @ shares + TINY
        logs = self.sums @ np.log(np.maximum(np.concatenate([residuals, totals]), TINY))
        terms = self.squares[self.of_table] * np.exp(logs) / values[self.of_set]
        errors = np.asarray(np.bincount(self.of_table, terms, len(self.squares)), np.float64)
        return Point(self, roots, sides, shares, values, terms, errors, residuals, totals)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Return ``2 log Σ t_S + log Σ_T error_T``, the loss of one form for all, and its slope."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            point = self.at(x)
            weight, error = float((point.roots**2).sum()), float(point.errors.sum())
            slope = point.slope(np.full(len(point.errors), 1.0 / error))
        if not np.isfinite(slope).all():  # rows so large that rounding leaves no inverse
            return REFUSED, np.zeros_like(x)
        slope[: len(point.roots)] += 4.0 / weight * point.roots
        return 2.0 * np.log(weight) + np.log(error), slope


@dataclass(frozen=True, eq=False)
class Point:
    """Errors of tables at some roots, and slopes of sums of them."""

    form: ProductLosses
    roots: Array
    sides: list[Side]
    shares: Array  # t_S² Π_S τ
    values: Array  # λ_U Π_U τ
    terms: Array  # of every pair of a table and a set below it
    errors: Array  # of every table
    residuals: Array  # τ tr(G Y), kind by kind of all sides
    totals: Array  # zᵀGz

    def slope(self, weights: Array, more: "Slopes | None" = None) -> Array:
        """Return the slope of ``Σ_T weights_T error_T`` in the roots, and of what has `more`."""
        form, more = self.form, more or Slopes.none(self)
        terms = self.terms * weights[form.of_table]
        by_value = -np.bincount(form.of_set, terms, len(self.values)) / self.values
        by_share = form.above_each @ by_value + more.by_share
        by_tau = form.powers.T @ (by_share * self.shares)  # by its logarithm
        by_log = form.summed @ terms
        count = len(self.totals)
        slopes = [4.0 * by_share * self.shares / np.where(self.roots == 0, 1.0, self.roots)]
        for o, (side, one) in enumerate(zip(self.sides, form.classes, strict=True)):
            part = slice(form.first[o], form.first[o + 1])
            residual, total = by_log[:count][part], by_log[count:][part] + more.by_total[part]
            residuals = np.tensordot(residual * side.tau / self.residuals[part], one.gram_stack, 1)
            totals = np.tensordot(total / self.totals[part], one.gram_stack, 1)
            slope = side.slope(
                residuals + more.by_residual[o],
                2.0 * totals @ side.z + more.by_z[o],
                (by_tau[o] + residual.sum()) / side.tau + more.by_tau[o],
            )
            slopes.append(slope.ravel())
        return np.concatenate(slopes)


@dataclass(frozen=True, eq=False)
class Slopes:
    """Slopes in what a point is made of: shares, logarithms of totals, and Y, z, τ of sides."""

    by_share: Array
    by_total: Array
    by_residual: list[Array]
    by_z: list[Array]
    by_tau: Array

    @classmethod
    def none(cls, point: Point) -> "Slopes":
        sides = point.sides
        return cls(
            np.zeros_like(point.shares),
            np.zeros_like(point.totals),
            [np.zeros_like(side.cover) for side in sides],
            [np.zeros_like(side.z) for side in sides],
            np.zeros(len(sides)),
        )
