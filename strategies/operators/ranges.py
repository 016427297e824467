"""Sums over chosen intervals of ordered cells, each with a weight."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from strategies.operators.base.arrays import Array, Longs, Real, check_allocation, real_array
from strategies.operators.base.operator import Norm, Operator
from strategies.operators.base.recovery import Factors, factored_trace
from strategies.operators.masks.anova import line_energies, structure_energies
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.ordered_sums import PrefixSums

DENSE = 3  # a matrix with fewer zeros than this share of its entries is written out densely
BAND = 2**22  # entries of differences that are held at once


@dataclass(frozen=True, eq=False, repr=False)
class Ranges(Operator):
    """Row r is ``weights[r]`` on the cells from ``starts[r]`` up to, not with, ``stops[r]``.

    With cuts ``0 ... n`` between cells and L the Laplacian of the graph that has the rows as edges
    between cuts, ``WᵀW = (sums from a cell on) L (sums up to a cut)``: a product costs the cells
    and the rows, however long these are.

    Parameters
    ----------
    n : int
        Number of cells.
    starts, stops : array-like of int, shape (q,)
        First cell of every row and the one after its last: equal in an empty row.
    weights : array-like of shape (q,)
        Integers stay exact.

    Examples
    --------
    >>> Ranges(3, [0, 1], [2, 3], [1, 2]).to_dense()
    array([[1., 1., 0.],
           [0., 2., 2.]])
    """

    n: int
    starts: Longs
    stops: Longs
    weights: Real
    _own_numbers = ("weights",)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n={self.n}: expected at least one cell.")
        object.__setattr__(self, "n", int(self.n))
        object.__setattr__(self, "weights", real_array("weights", self.weights, 1))
        for name in ("starts", "stops"):
            values = real_array(name, getattr(self, name), 1)
            if len(values) and values.dtype.kind != "i":
                raise TypeError(f"{name} has dtype {values.dtype}: expected numbers of cells.")
            object.__setattr__(self, name, values.astype(np.int64, copy=False))
        if not len(self.starts) == len(self.stops) == len(self.weights):
            raise ValueError("starts, stops, weights: expected one entry of each for every row.")
        bad = (self.starts < 0) | (self.starts > self.stops) | (self.stops > self.n)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"row {row} goes from cell {self.starts[row]} to before {self.stops[row]}: "
                f"expected 0 <= start <= stop <= n={self.n}."
            )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts), self.n

    @cached_property
    def lengths(self) -> Longs:
        """Cells of every row, shape (q,)."""
        return self.stops - self.starts

    @property
    def squares(self) -> Array:
        """Squared weights, shape (q,); those of integers would overflow."""
        return np.asarray(self.weights.astype(np.float64) ** 2)

    @cached_property
    def prefers_sparse(self) -> bool:
        """Whether most entries are zeros."""
        return DENSE * int(self.lengths.sum()) < len(self.starts) * self.n

    @property
    def entries(self) -> int:
        q, n = self.shape
        return int(self.lengths.sum()) if self.prefers_sparse else q * n

    @cached_property
    def _ends(self) -> sparse.csr_array:
        """Each row's weight at its last cut and the opposite at its first, (q, n + 1)."""
        q, n = self.shape
        places = (np.tile(np.arange(q), 2), np.concatenate([self.stops, self.starts]))
        values = np.concatenate([self.weights, -self.weights]).astype(np.float64)
        return sparse.csr_array((values, places), shape=(q, n + 1))

    @cached_property
    def laplacian(self) -> sparse.csr_array:
        """L, of the graph of cuts whose edges are the rows (n + 1, n + 1)."""
        return sparse.csr_array(self._ends.T @ self._ends)

    def _matmat(self, right: Array) -> Array:
        return np.asarray(self._ends @ sums_to_cuts(right))

    def _rmatmat(self, left: Array) -> Array:
        return sums_from_cells(self._ends.T @ left)

    def to_sparse(self) -> sparse.csr_array:
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        check_allocation("sparse Ranges", (int(starts[-1]), 2))
        cells = np.arange(starts[-1]) - np.repeat(starts[:-1] - self.starts, self.lengths)
        values = np.repeat(self.weights, self.lengths)
        form = sparse.csr_array((values, cells, starts), shape=self.shape)
        form.eliminate_zeros()
        return form

    def to_dense(self) -> Array:
        check_allocation("dense Ranges", self.shape)
        cells = np.arange(self.n)
        held = (cells >= self.starts[:, None]) & (cells < self.stops[:, None])
        return np.where(held, self.weights[:, None], 0.0)

    def gram_dense(self) -> Array:
        check_allocation("gram of Ranges", (self.n, self.n))
        held = np.zeros((self.n + 1, self.n + 1))
        np.add.at(held, (self.starts, self.stops), self.squares)
        upper = np.cumsum(np.cumsum(held, axis=0)[:-1, :0:-1], axis=1)[:, ::-1]
        return np.asarray(np.triu(upper) + np.triu(upper, 1).T)

    def row_squares(self) -> Array:
        return np.asarray(self.squares * self.lengths)

    @cached_property
    def diagonal(self) -> Array:
        """The squared norms of the columns, shape (n,)."""
        return self._sums_of_holders(self.squares)

    def _sums_of_holders(self, values: Array) -> Array:
        """Return for every cell the sum of a number of each row that holds it."""
        begun = np.bincount(self.starts, weights=values, minlength=self.n + 1)
        ended = np.bincount(self.stops, weights=values, minlength=self.n + 1)
        return np.asarray(np.cumsum(begun - ended)[:-1])

    def column_norms(self, norm: Norm) -> Array:
        if norm == "l2":
            return np.sqrt(np.maximum(self.diagonal, 0.0))
        return np.maximum(self._sums_of_holders(np.abs(self.weights.astype(np.float64))), 0.0)

    def multiply_rows(self, weights: Real) -> "Ranges":
        """Return the rows times weights."""
        return Ranges(self.n, self.starts, self.stops, self.weights * weights)

    def sorted_rows(self) -> "Ranges":
        """Return the rows in an order of their own, the empty ones left out."""
        order = np.lexsort((self.weights, self.stops, self.starts))
        return self.take(order[(self.lengths[order] > 0) & (self.weights[order] != 0)])

    def take(self, rows: Longs) -> "Ranges":
        """Return some of the rows."""
        return Ranges(self.n, self.starts[rows], self.stops[rows], self.weights[rows])

    def restrict_cells(self, cells: Longs) -> "Ranges":
        """Return the rows over some of the cells, in ascending order."""
        starts, stops = (np.searchsorted(cells, ends) for ends in (self.starts, self.stops))
        return Ranges(len(cells), starts, np.maximum(starts, stops), self.weights)

    def coarse(self, factor: int) -> "Ranges":
        """Return the rows over groups of `factor` cells: ends are rounded outwards."""
        if factor == 1:
            return self
        n, stops = -(-self.n // factor), -(-self.stops // factor)
        return Ranges(n, self.starts // factor, stops, self.weights)

    @cached_property
    def typical_length(self) -> int:
        """Length beyond which rows make up at most a tenth of ``||W||_F²``."""
        order = np.argsort(self.lengths)
        shares = np.cumsum(self.row_squares()[order])
        return int(self.lengths[order[np.searchsorted(shares, 0.9 * shares[-1])]])

    def squared_differences(self, sums: Array, others: Array | None = None) -> Array:
        """Return ``w² <x_stop - x_start, y_stop - y_start>`` of every row (q,).

        `sums`: (n + 1, r), x at every cut; `others`: y, x where it is not given.
        """
        found, step = np.empty(len(self.starts)), max(1, BAND // max(sums.shape[1], 1))
        for rows in (slice(s, s + step) for s in range(0, len(found), step)):
            first, last = self.starts[rows], self.stops[rows]
            one = sums[last] - sums[first]
            other = one if others is None else others[last] - others[first]
            found[rows] = np.einsum("ij,ij->i", one, other)
        return np.asarray(found * self.squares)


def equal_columns(ranges: Ranges) -> Longs:
    """Return for every cell the first one that the same rows hold, shape (n,)."""
    rows = len(ranges.starts)
    keys = np.random.default_rng(0).integers(2**64, size=(rows, 2), dtype=np.uint64)
    steps = np.zeros((ranges.n + 1, 2), dtype=np.uint64)
    np.add.at(steps, ranges.starts, keys)
    np.subtract.at(steps, ranges.stops, keys)
    first, number = unique_rows(np.cumsum(steps, axis=0)[:-1])
    found = first[number]
    return found if agree_with_first(ranges, found) else np.arange(ranges.n)


def agree_with_first(ranges: Ranges, first: Longs) -> bool:
    """Tell whether no row holds just one of a cell and the first of its kind.

    Such a row starts between the two and goes on, or stops between them and began before.
    """
    cells = np.flatnonzero(first != np.arange(ranges.n))
    if not len(cells):
        return True
    latest = np.zeros(ranges.n + 1, dtype=np.int64)
    np.maximum.at(latest, ranges.starts, ranges.stops)
    earliest = np.full(ranges.n + 1, ranges.n)
    np.minimum.at(earliest, ranges.stops, ranges.starts)
    between = np.stack([first[cells] + 1, cells + 1], axis=1).ravel()
    ends = np.maximum.reduceat(latest, between)[::2]
    begins = np.minimum.reduceat(earliest, between)[::2]
    return bool(np.all(ends <= cells) and np.all(begins > first[cells]))


def prefix_ends(workload: Operator) -> tuple[Longs, Array] | None:
    """Return the last cells and squared weights (q,) of rows that are prefix sums, else None."""
    weights, rows = workload.weights_and_rows
    squares = np.asarray(weights, dtype=np.float64) ** 2
    if isinstance(rows, PrefixSums):
        return np.arange(rows.n), np.broadcast_to(squares, (rows.n,))
    if not isinstance(rows, Ranges) or rows.starts.any() or not rows.lengths.all():
        return None
    return rows.stops - 1, squares * rows.squares


def sums_to_cuts(cells: Array) -> Array:
    """Return the sums of all cells before each cut, (n + 1, j) from (n, j)."""
    sums = np.zeros((len(cells) + 1, *cells.shape[1:]))
    np.cumsum(cells, axis=0, out=sums[1:])
    return sums


def sums_from_cells(cuts: Array) -> Array:
    """Return the sums over all cuts after each cell, (n, j) from (n + 1, j)."""
    return np.asarray(np.cumsum(cuts[:0:-1], axis=0)[::-1])


def ranges_error(factors: Factors, ranges: Ranges) -> float:
    """Return ``tr(G (AᵀA)⁺)`` by the inverse of one triangle: sums of squares of differences."""
    if factors.basis is not None or factors.triangle.ndim == 1 or factors.is_lower:
        return factored_trace(ranges, factors, ranges.gram_dense())
    inverse, info = linalg.lapack.dtrtri(factors.triangle.T, lower=1)  # as it lies in memory
    if info != 0:
        raise linalg.LinAlgError("a triangle is singular: expected a strategy of full rank.")
    return float(ranges.squared_differences(sums_to_cuts(inverse.T)).sum())


structure_energies.register(Ranges, line_energies)
