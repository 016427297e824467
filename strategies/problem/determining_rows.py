"""The rows that determine a loss: a factor of the Gram, distinct rows, prefix sums.

The total depends on a workload through its Gram alone, so W may be replaced by any F of full row
rank with ``WᵀW = FᵀF``. It has as many rows as W has rank, which is often far below both sides
of W: work over r x r matrices instead of g x g ones.

For the worst row, equal rows have equal errors and one of them is enough; for the worst group,
equal rows of a group become one, times the root of their number. Rows of zeros have no error.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from strategies.operators import (
    Gram,
    Operator,
    fits,
)
from strategies.operators.base.arrays import Array, Longs
from strategies.operators.base.qr import check_finite, singular_values
from strategies.operators.base.recovery import WELL_CONDITIONED
from strategies.operators.explicit import agrees, dense_keys, sparse_keys
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.ranges import Ranges, prefix_ends
from strategies.problem.merging import FEWEST, given_order_ranges

TALL = 4  # W itself is factorised while it has no more rows than this many times its columns
NOISE = 4.0  # eigenvalues below this many units of rounding are zeros of the Gram


def is_explicit(merged: Operator) -> bool:
    """Tell whether the rows of a merged workload are few enough to be written out."""
    return not isinstance(merged, Gram) and not is_tall(merged.shape) and fits(merged.shape, 32)


def is_tall(shape: tuple[int, int]) -> bool:
    """Tell whether a matrix has so many rows that its Gram is factorised instead."""
    return shape[0] > TALL * shape[1]


def factor_of_rows(rows: Array) -> Array:
    """Return F (r, g) of a matrix W (q, g), its rows orthogonal and the longest first.

    The smaller Gram, ``W Wᵀ = U Λ Uᵀ`` or ``WᵀW = V Λ Vᵀ``, gives ``F = Uᵀ W`` or the rows
    ``||W v|| vᵀ`` of V where what it keeps is well conditioned and nothing else is left of W, by
    the measure that singular values are held to. They are the fallback.

    >>> factor = factor_of_rows(np.ones((5, 3)))
    >>> factor.shape, (factor.T @ factor).round(6).tolist()[0]
    ((1, 3), [5.0, 5.0, 5.0])
    """
    check_finite(rows)
    factor = _well_conditioned(rows)
    if factor is not None:
        return factor
    values, right = singular_values(rows)
    kept = values > _noise(rows, values[0])
    return np.asarray(values[kept, None] * right[kept])


def _well_conditioned(rows: Array) -> Array | None:
    """Return F from the smaller Gram of W, None where its spectrum does not tell the rank."""
    wide = rows.shape[0] <= rows.shape[1]
    gram = rows @ rows.T if wide else rows.T @ rows
    values, vectors = linalg.eigh(gram, driver="evd", overwrite_a=True, check_finite=False)
    kept = values > WELL_CONDITIONED * values[-1]
    basis = vectors[:, kept][:, ::-1]
    inside = basis.T @ rows if wide else rows @ basis
    if not kept.all():  # what is left out may be faint without being rounding
        rest = rows - (basis @ inside if wide else inside @ basis.T)
        if np.linalg.norm(rest) > _noise(rows, np.sqrt(values[-1])):
            return None
    return inside if wide else np.asarray(np.linalg.norm(inside, axis=0)[:, None] * basis.T)


def _noise(rows: Array, largest: float) -> float:
    """Return the singular value up to which a matrix with this largest one holds rounding."""
    return float(NOISE * max(rows.shape) * np.finfo(float).eps * largest)


def factor_of_gram(gram: Array) -> Array:
    """Return F (r, g) of a Gram ``WᵀW`` (g, g) from its spectrum."""
    values, vectors = linalg.eigh(gram, driver="evd", check_finite=False)
    kept = values > NOISE * len(values) * np.finfo(float).eps * values[-1]
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Distinct rows over the merged cells, and the sums of errors that are compared."""

    rows: Array  # (k, g): R
    groups: Longs  # (k,): group of every row, numbered from 0 without gaps
    origin: Longs  # (q,): row of R behind every row of the workload, -1 for a row of zeros

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    def value(self, errors: Array) -> float:
        """Return the largest sum of errors, given one for each row of R."""
        return float(np.bincount(self.groups, weights=errors).max())

    @cached_property
    def factor(self) -> Array:
        """A factor F (r, g) of full row rank with ``RᵀR = FᵀF``."""
        if is_tall(self.rows.shape):
            return factor_of_gram(self.rows.T @ self.rows)
        return factor_of_rows(self.rows)

    @cached_property
    def coordinates(self) -> Array:
        """C (k, r) with ``R = C F``."""
        lengths = np.linalg.norm(self.factor, axis=1)
        unit = self.factor / lengths[:, None]  # orthonormal up to rounding, and solved with as is
        solved = linalg.solve(unit @ unit.T, unit @ self.rows.T, assume_a="pos")
        return np.asarray(solved.T / lengths)


def distinct_rows(merged: Operator, labels: Longs | None) -> DistinctRows | None:
    """Return the distinct rows of a merged workload; None where they do not fit the memory cap.

    `labels`: the group of every row, None where every row is its own.
    """
    q, g = merged.shape
    if not fits((q, 4)) or not fits((merged.entries,), 32):
        return None
    form = merged.compact()
    keys = sparse_keys(form.T.tocsc()) if merged.prefers_sparse else dense_keys(form.T + 0.0)
    groups = np.zeros(q, np.int64) if labels is None else labels
    table = np.concatenate([keys.view(np.int64), groups[:, None]], axis=1)
    first, inverse = unique_rows(table)
    counts = np.bincount(inverse)
    if not fits((len(first), g), 32):
        return None
    picked = form[first]
    if not agrees(form, picked, inverse):  # a hash met twice: every row stands for itself
        first, inverse, picked = np.arange(q), np.arange(q), form
        counts = np.ones(q, dtype=np.int64)
    rows = np.asarray(picked.toarray() if merged.prefers_sparse else picked, dtype=np.float64)
    kept = rows.any(axis=1)
    origin = np.where(kept, np.cumsum(kept) - 1, -1)[inverse]
    rows, first, counts = rows[kept], first[kept], counts[kept]
    if labels is None:
        return DistinctRows(rows, np.arange(len(rows)), origin)
    numbers = np.unique(groups[first], return_inverse=True)[1].astype(np.int64)
    return DistinctRows(rows * np.sqrt(counts)[:, None], numbers, origin)


@dataclass(frozen=True, eq=False)
class PrefixRows:
    """Rows over n ordered cells that are weighted prefix sums, each cell the last of one."""

    ends: Longs  # (q,): last cells of the rows, in the order of the cells
    squares: Array  # (q,): squared weights
    groups: Longs  # (q,): their groups, numbered from 0
    origin: Longs  # of every row of the workload, its group
    is_flipped: bool  # whether the rows are sums from a cell on: the order is then reversed

    @property
    def n(self) -> int:
        return int(self.ends.max()) + 1

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    @property
    def is_plain(self) -> bool:
        """Whether every cell ends one row, a group of its own."""
        return bool(np.array_equal(self.groups, self.ends))

    @property
    def coarser(self) -> "PrefixRows":
        squares = self.squares[::2]
        cells = np.arange(len(squares))
        return PrefixRows(cells, squares, cells, cells, self.is_flipped)


def prefix_rows(merged: Operator, groups: Longs | None) -> PrefixRows | None:
    """Return a merged workload's rows where they are prefix sums in either order, else None."""
    rows, flipped, n = prefix_ends(merged), False, merged.shape[1]
    if rows is None and not isinstance(merged, Ranges) and n >= FEWEST:
        return None  # many cells in order are known as ranges
    if rows is None:
        ranges = given_order_ranges(merged)
        if ranges is None or not ranges.lengths.all():
            return None
        flipped = bool(ranges.starts.any())
        if flipped:
            ranges = Ranges(n, n - ranges.stops, n - ranges.starts, ranges.weights)
        rows = prefix_ends(ranges)
    if rows is None or not np.bincount(*rows, n).all():
        return None
    ends, each = rows
    if groups is not None:
        return PrefixRows(ends, each, groups, groups, flipped)
    squares = np.zeros(n)
    np.maximum.at(squares, ends, each)  # of equal rows the heaviest counts
    return PrefixRows(np.arange(n), squares, np.arange(n), ends, flipped)
