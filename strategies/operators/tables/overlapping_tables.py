"""Overlapping tables of one domain: what they share, joint least squares, and the worst cell.

The functions on a table split orthogonally into components, one for each set of its attributes:
those that sum to zero along each attribute of the set and do not vary along the others. Components
of sets below two or more tables are *shared*; every other one belongs to its table alone. The
information of all tables together is thus an arrow: blocks of their own beside shared columns.

A table's answers give a triangle ``[[R_oo, R_ol], [0, R_ll]]`` over its own columns o and the
shared ones l. Its own follow from those, ``h = R_oo⁻¹ (c - R_ol u)``, and what is known of u are
the rows ``R_ll`` of all tables. No matrix is larger than one table's cells or the shared columns,
however many tables there are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from math import prod

import numpy as np
from scipy import linalg

from strategies.operators.base.arrays import Array, Longs, Real, check_allocation, fits
from strategies.operators.base.qr import complement, has_full_rank, thin_qr
from strategies.operators.product import as_number

Table = tuple[int, ...]

MOST_JOINED = 2**23  # cells of the largest table that a search for the worst cell adds up


@dataclass(frozen=True, eq=False)
class SharedColumns:
    """Numbers of the shared columns of several tables, each a set of attributes."""

    sizes: tuple[int, ...]  # of all attributes
    tables: tuple[Table, ...]

    @cached_property
    def starts(self) -> dict[Table, int]:
        """The first column of every set of attributes below two or more tables."""
        counts = Counter(below for table in self.tables for below in subsets(table))
        found, first = {}, 0
        for chosen, count in counts.items():
            if count > 1:
                found[chosen] = first
                first += self._columns(chosen)
        return found

    @property
    def width(self) -> int:
        """The number of shared columns."""
        return sum(map(self._columns, self.starts))

    def _columns(self, chosen: Table) -> int:
        return prod(self.sizes[i] - 1 for i in chosen)

    def basis(self, t: int, roots: Sequence[Array] | None = None) -> "Basis":
        """Return an orthonormal basis of a table's functions.

        `roots`: the unit vector along each attribute that stands for its total, even if None. A
        shared column of two tables is the same function on the domain, up to a factor that makes
        it orthonormal there.
        """
        cells = prod(self.sizes[i] for i in self.tables[t])
        check_allocation("columns of a table", (cells, cells))
        matrix = np.ones((1, 1))
        for i in self.tables[t]:
            root = np.full(self.sizes[i], self.sizes[i] ** -0.5) if roots is None else roots[i]
            matrix = np.kron(matrix, np.column_stack([root, complement(root)]))
        numbers = np.arange(cells).reshape([self.sizes[i] for i in self.tables[t]])
        own, shared, places = [], [], []
        for chosen in subsets(self.tables[t]):
            part = tuple(slice(1, None) if i in chosen else 0 for i in self.tables[t])
            columns = np.ravel(numbers[part])
            if chosen in self.starts:
                shared.append(columns)
                places.append(self.starts[chosen] + np.arange(len(columns)))
            else:
                own.append(columns)
        order = np.concatenate([*own, *shared])
        whole = np.concatenate([np.empty(0, dtype=np.int64), *places])
        return Basis(matrix[:, order], len(order) - len(whole), whole)


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns of one table: its own, then shared ones."""

    columns: Array  # (cells, r), orthonormal
    own: int  # number of columns that no other table has
    places: Longs  # of the others among the shared columns


@dataclass(frozen=True, eq=False)
class JointSolve:
    """Triangles of several tables over their columns, solved together."""

    bases: tuple[Basis, ...]
    triangles: tuple[Array, ...]  # (r, r) each
    width: int  # number of shared columns

    @cached_property
    def _shared_qr(self) -> tuple[Array, Array]:
        """Q and R of what all tables say about the shared columns."""
        parts = [r[one.own :, one.own :] for one, r in zip(self.bases, self.triangles, strict=True)]
        whole = np.zeros((max(sum(map(len, parts)), self.width), self.width))
        first = 0
        for one, part in zip(self.bases, parts, strict=True):
            whole[first : first + len(part), one.places] = part
            first += len(part)
        return thin_qr(whole)

    @property
    def shared_triangle(self) -> Array:
        """R of what all tables say about the shared columns, (width, width)."""
        return self._shared_qr[1]

    @cached_property
    def is_determined(self) -> bool:
        """Whether the answers determine every column."""
        pairs = zip(self.bases, self.triangles, strict=True)
        blocks = [r[: one.own, : one.own] for one, r in pairs]
        return all(has_full_rank(block) for block in (*blocks, self.shared_triangle) if len(block))

    def whiten(self, t: int, rows: Array) -> tuple[Array, Array]:
        """Return rows over table t's columns in terms of independent answers of variance one.

        Answers of its own, (q, own), and on shared columns, (q, width): the error of a row is the
        sum of squares of both.
        """
        one, r = self.bases[t], self.triangles[t]
        own = linalg.solve_triangular(r[: one.own, : one.own], rows[:, : one.own].T, trans=1).T
        rest = np.zeros((len(rows), self.width))
        rest[:, one.places] = rows[:, one.own :] - own @ r[: one.own, one.own :]
        return own, linalg.solve_triangular(self.shared_triangle, rest.T, trans=1).T

    def solve(self, answers: Sequence[Array]) -> list[Array]:
        """Return the estimate of every table's columns, from answers (r, k) to its triangle."""
        pairs = list(zip(self.bases, answers, strict=True))
        rest = np.concatenate([answer[one.own :] for one, answer in pairs])
        basis, triangle = self._shared_qr
        shared = linalg.solve_triangular(triangle, basis[: len(rest)].T @ rest)
        found = []
        for (one, answer), r in zip(pairs, self.triangles, strict=True):
            low, k = shared[one.places], one.own
            own = linalg.solve_triangular(r[:k, :k], answer[:k] - r[:k, k:] @ low)
            found.append(np.concatenate([own, low]))
        return found


def subsets(table: Table) -> Iterator[Table]:
    return (chosen for k in range(len(table) + 1) for chosen in combinations(table, k))


def largest_sum(sizes: Sequence[int], tables: Sequence[tuple[Table, Real]]) -> float:
    """Return the largest sum of one value of each table over all cells of the domain.

    Attributes are maximised away one after the other, each in the sum of the tables that have it.
    Where that sum is too large, the sum of the tables' own largest values: a bound above it.

    >>> largest_sum((2, 2), [((0,), np.array([1, 5])), ((0, 1), np.array([9, 0, 2, 3]))])
    10
    """
    plan = elimination(sizes, [chosen for chosen, _ in tables])
    if plan is None:
        return sum(as_number(values.max(initial=0)) for _, values in tables)
    parts = [(c, values.reshape([sizes[i] for i in c])) for c, values in tables]
    for i, joint in plan:
        inside = [part for part in parts if i in part[0]]
        whole = reduce(np.add, [broadcast_axes(values, c, joint) for c, values in inside])
        best = (tuple(j for j in joint if j != i), whole.max(axis=joint.index(i)))
        parts = [part for part in parts if i not in part[0]] + [best]
    return sum(as_number(values.max()) for _, values in parts)


def broadcast_axes(values: Real, chosen: Table, joint: Table) -> Real:
    """Return a table with an axis of one for every attribute that only a larger one has."""
    lengths = iter(values.shape)
    return values.reshape([next(lengths) if i in chosen else 1 for i in joint])


def elimination(sizes: Sequence[int], tables: Sequence[Table]) -> list[tuple[int, Table]] | None:
    """Return attributes in the order in which they are maximised away, with those beside them.

    The one whose tables have fewest cells together comes first; None where those are too many.
    """
    left, plan = [set(one) for one in tables], []
    rest = set().union(*left)
    while rest:
        joint = {i: set().union(*(one for one in left if i in one)) for i in rest}
        i = min(rest, key=lambda i: (prod(sizes[j] for j in joint[i]), i))
        cells = prod(sizes[j] for j in joint[i])
        if cells > MOST_JOINED or not fits((cells,), 24):
            return None
        plan.append((i, tuple(sorted(joint[i]))))
        left = [one for one in left if i not in one] + [joint[i] - {i}]
        rest.remove(i)
    return plan
