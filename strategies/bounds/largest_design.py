"""Frames of least largest error for a union of tables, with weights of rows that prove it.

With weights R of sum 1 on all rows of all tables, a mean of errors is never above the largest. The
weights climb towards the rows of largest error, ``R <- R (error / mean)^p``; beside them frames,
directions and weights of codes move as for the total: a row's error is

    w_T² Σ_{S ⊆ T} 1/s_S Π_S |r_i Z_i|² q_i Π_{T - S} (r_i z_i)²,

so that an attribute's Grams are those of its rows at the slopes of the mean. For the certificate,
which needs products, rows of an attribute are weighted by table size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from strategies.bounds.total_design import HELD, TINY, FrameClimb, best_shares
from strategies.operators import Array
from strategies.operators.base.arrays import Longs
from strategies.problem.table_union import Kind, TableUnion

TOLERANCE = 2e-3  # gap between the largest error and the mean at which the climb stops
POWER = 0.7  # of the rows' update; 1 swings
MOST_ROWS = 2**19  # rows of all tables together that have a weight each
ENDS, MIDDLE = 6, 12
"""Groups of a factor's rows where those are more: the first and last alone, the rest in parts."""


@dataclass(frozen=True, eq=False)
class Rows:
    """An attribute's rows of one kind, some of which share a weight."""

    rows: Array  # (m, n), over the kind's scale
    groups: Longs  # (m,)
    counts: Longs  # rows in every group

    @classmethod
    def of(cls, kind: Kind, grouped: bool) -> "Rows":
        """Return a kind's rows: single codes share a weight, others where they are too many."""
        rows = kind.rows.to_dense() / kind.scale
        m = len(rows)
        groups = np.arange(m)
        if kind.is_plain:
            groups = np.zeros(m, dtype=np.int64)
        elif grouped and m > 2 * ENDS + MIDDLE:
            inner = ENDS + np.arange(m - 2 * ENDS) * MIDDLE // (m - 2 * ENDS)
            groups = np.r_[np.arange(ENDS), inner, ENDS + MIDDLE + np.arange(ENDS)]
        return cls(rows, groups, np.bincount(groups))

    def gram(self, weights: Array) -> Array:
        return (self.rows * (weights / self.counts)[self.groups][:, None]).T @ self.rows

    def means(self, values: Array) -> Array:
        return np.bincount(self.groups, values) / self.counts


def outer(vectors: Sequence[Array]) -> Array:
    return np.asarray(reduce(np.multiply.outer, vectors, np.ones(())))


def rows_of_tables(union: TableUnion) -> float:
    """Return the rows of all tables together, plain attributes counted as one row."""
    rows = [[1 if kind.is_plain else kind.rows.shape[0] for kind in kinds] for kinds in union.kinds]
    pairs = zip(union.tables, union.kind, strict=True)
    return float(sum(np.prod([float(rows[i][kind[i]]) for i in t]) for t, kind in pairs))


class LargestClimb(FrameClimb):
    """Frames, weights of codes and weights of rows."""

    def __init__(self, union: TableUnion) -> None:
        super().__init__(union)
        grouped = rows_of_tables(union) > MOST_ROWS
        known = {kind.number: Rows.of(kind, grouped) for kinds in union.kinds for kind in kinds}
        self.rows = [[known[kind.number] for kind in kinds] for kinds in union.kinds]
        self.parts = [
            [self.rows[i][kind[i]] for i in t]
            for t, kind in zip(union.tables, union.kind, strict=True)
        ]
        self.weights = [np.ones([len(one.counts) for one in parts]) for parts in self.parts]
        self.weights = [one / (one.size * len(self.weights)) for one in self.weights]
        self.slopes = [[np.full(len(one.counts), 1.0 / len(one.counts)) for one in kinds]
                       for kinds in self.rows]  # fmt: skip

    def take_step(self, tolerance: float) -> None:
        union = self.union
        inside, rest = self.solve_rows(everything=self.step == 0)
        products, errors = self.products(inside, rest)
        shares = best_shares(errors)
        inverse = [1.0 / shares[[union.index[s] for s in below]] for below in union.sets_below]
        variances = [
            square * np.tensordot(own, np.asarray(each), 1)
            for square, own, each in zip(self.squares, inverse, products, strict=True)
        ]
        largest = max(float(v.max()) for v in variances)
        mean = sum(float((x * v).sum()) for x, v in zip(self.weights, variances, strict=True))
        self.keep(largest, shares)
        still = self.step <= HELD and bool(union.moving_attributes)
        self.is_done = largest < mean * (1.0 + tolerance) and not still
        if not self.is_done:
            self.move(products, shares, inside, rest)
            moved = [x * (v / mean) ** POWER for x, v in zip(self.weights, variances, strict=True)]
            whole = sum(float(x.sum()) for x in moved)
            self.weights = [x / whole for x in moved]
            self.step += 1

    def solve_rows(self, everything: bool) -> tuple[list[list[Array]], list[list[Array]]]:
        """Solve the frames; return ``|r Z|² q`` and ``(r z)²`` of every kind's groups of rows."""
        inside: list[list[Array]] = [[] for _ in self.rows]
        rest: list[list[Array]] = [[] for _ in self.rows]
        for i in self.own:
            frame = self.frames[i]
            if everything or i in self.union.moving_attributes:
                pairs = zip(self.slopes[i], self.rows[i], strict=True)
                frame.solve(np.sum([one.gram(x) for x, one in pairs], axis=0))
            worst = frame.norms.max()
            for one in self.rows[i]:
                squares = np.maximum(((one.rows @ frame.inverse) * one.rows).sum(axis=1), 0.0)
                inside[i].append(one.means(worst * squares))
                rest[i].append(one.means((one.rows @ frame.z) ** 2))
        twin = self.union.twin
        return [inside[i] for i in twin], [rest[i] for i in twin]

    def products(
        self, inside: list[list[Array]], rest: list[list[Array]]
    ) -> tuple[list[list[Array]], Array]:
        """Return the errors of rows from every set below their table, and of sets in the mean."""
        union, errors, result = self.union, np.zeros(len(self.union.sets)), []
        for t, kind, below, x, square in zip(
            union.tables, union.kind, union.sets_below, self.weights, self.squares, strict=True
        ):
            each = [outer([(inside if i in s else rest)[i][kind[i]] for i in t]) for s in below]
            for s, product in zip(below, each, strict=True):
                errors[union.index[s]] += square * float((x * product).sum())
            result.append(each)
        return result, errors

    def move(
        self,
        products: list[list[Array]],
        shares: Array,
        inside: list[list[Array]],
        rest: list[list[Array]],
    ) -> None:
        """Set the slopes of the mean in groups of rows; move directions and weights of codes."""
        union = self.union
        own = [[np.zeros(len(one.counts)) for one in kinds] for kinds in self.rows]
        others = [[np.zeros(len(one.counts)) for one in kinds] for kinds in self.rows]
        for number, (t, below, x) in enumerate(
            zip(union.tables, union.sets_below, self.weights, strict=True)
        ):
            kind = union.kind[number]
            for s, product in zip(below, products[number], strict=True):
                each = x * product * (self.squares[number] / shares[union.index[s]])
                for axis, i in enumerate(t):
                    if i in union.moving_attributes and i in self.own:
                        into, by = (own, inside) if i in s else (others, rest)
                        axes = tuple(m for m in range(len(t)) if m != axis)
                        into[i][kind[i]] += each.sum(axis=axes) / np.maximum(by[i][kind[i]], TINY)
        for i in self.own:
            if i in union.moving_attributes:
                pairs = zip(others[i], self.rows[i], strict=True)
                self.frames[i].move_direction(np.sum([one.gram(x) for x, one in pairs], axis=0))
                self.frames[i].move_weights(1.0, self.step)
                self.slopes[i] = own[i]

    def weighted_union(self) -> TableUnion:
        """Return tables whose total error is a mean of the rows', for products of rows' weights."""
        union = self.union
        sums: dict[tuple[int, int, int], Array] = {}
        names = [
            [
                (union.twin[i], int(kind[i]), len(t) if i in union.moving_attributes else 0)
                for i in t
            ]
            for t, kind in zip(union.tables, union.kind, strict=True)
        ]
        for t, x, mine in zip(union.tables, self.weights, names, strict=True):
            for axis, name in enumerate(mine):
                part = x.sum(axis=tuple(m for m in range(len(t)) if m != axis))
                sums[name] = sums.get(name, 0.0) + part
        order = {name: number for number, name in enumerate(sorted(sums))}
        kinds = {}
        for name, x in sums.items():
            old = union.kinds[name[0]][name[1]]
            gram = self.rows[name[0]][name[1]].gram(x / max(float(x.sum()), TINY))
            kinds[name] = replace(old, number=order[name], gram=gram)
        by_attribute = [
            sorted({m for t, mine in zip(union.tables, names, strict=True)
                    for j, m in zip(t, mine, strict=True) if j == i})
            for i in range(union.count)
        ]  # fmt: skip
        kind = np.zeros_like(union.kind)
        for number, (t, mine) in enumerate(zip(union.tables, names, strict=True)):
            for i, name in zip(t, mine, strict=True):
                kind[number, i] = by_attribute[i].index(name)
        weights = union.weights * np.sqrt([float(x.sum()) for x in self.weights])
        every = tuple(tuple(kinds[name] for name in own) for own in by_attribute)
        return replace(union, kinds=every, kind=kind, weights=weights)
