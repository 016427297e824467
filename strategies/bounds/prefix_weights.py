"""Weights of rows and cells that prove how small the largest error of prefix sums can be.

Where the rows are prefix sums of ordered cells, with weights, ``diag(√u) P diag(√y)`` of
`strategies.bounds.joint_weights` has an inverse of two diagonals, so that

    K⁻¹ = diag(√y) Pᵀ diag(u) P diag(√y),    K_jj = (1/u_j + 1/u_(j-1)) / y_j,
    K_(j,j+1) = -1 / (u_j √(y_j y_(j+1)))

has three. f is the trace of ``K^(-1/2)``, ``diag(K^(-1/2)) / y`` the squared column norms, and the
errors are the same with u and y exchanged and both reversed. So a step costs what it costs for the
total error (`strategies.bounds.ordered_dual`), and coarser problems begin as there.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg

from strategies.bounds.dual_weights import MARGIN, Climb
from strategies.bounds.joint_weights import RELAXED, JointDual, moved_weights
from strategies.bounds.ordered_dual import (
    COARSEST,
    certified_root,
    interpolated_weights,
    root_diagonal,
    steps_within,
)
from strategies.operators import Array
from strategies.operators.base.arrays import Longs
from strategies.operators.ordered.ranges import Ranges, prefix_ends
from strategies.problem.consecutive import FEWEST, ranges_as_given
from strategies.problem.problem import Problem

TOLERANCE = 1e-6
FAINT = 5e-7
LEAST = (1e-4, 1e-3)
"""Least weight in units of the mean, by the number of cells and within limits: K's condition stays
where its pivots keep their digits. A bound loses no larger share by it."""
MOST_STEPS = 400
MOST_DENSE = 2600  # cells up to which singular values are taken where K has lost digits
CLOSE = 1e-4  # share of f² that a bound may lose before
WORK = 4.0  # seconds of the reference machine for the weights


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
        """Number of cells."""
        return int(self.ends.max()) + 1

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1

    @property
    def is_plain(self) -> bool:
        """Whether every cell ends one row, a group of its own."""
        return bool(np.array_equal(self.groups, self.ends))

    @property
    def coarser(self) -> "PrefixRows":
        """Every second row of plain ones, over every second cell."""
        squares = self.squares[::2]
        cells = np.arange(len(squares))
        return PrefixRows(cells, squares, cells, cells, self.is_flipped)


def long_prefix_rows(problem: Problem) -> PrefixRows | None:
    """Return them where cells are so many that joint weights take long, else None."""
    merging = problem.merging
    return None if merging is None or merging.n_groups <= COARSEST else prefix_rows(problem)


def prefix_rows(problem: Problem) -> PrefixRows | None:
    """Return the rows whose largest error is asked for where they are prefix sums, else None."""
    merged = problem.merged_workload
    if problem.is_total or merged is None or merged.shape[1] < 2:
        return None
    rows, flipped, n = prefix_ends(merged), False, merged.shape[1]
    if rows is None and not isinstance(merged, Ranges) and n >= FEWEST:
        return None  # many cells in order are known as ranges
    if rows is None:
        ranges = ranges_as_given(merged)
        if ranges is None or not ranges.lengths.all():
            return None
        flipped = bool(ranges.starts.any())
        if flipped:
            ranges = Ranges(n, n - ranges.stops, n - ranges.starts, ranges.weights)
        rows = prefix_ends(ranges)
    if rows is None or not np.bincount(rows.ends, rows.squares, n).all():
        return None
    if problem.aim.groups is not None:
        return PrefixRows(rows.ends, rows.squares, problem.aim.groups, problem.aim.groups, flipped)
    squares = np.zeros(n)
    np.maximum.at(squares, rows.ends, rows.squares)  # of equal rows the heaviest counts
    return PrefixRows(np.arange(n), squares, np.arange(n), rows.ends, flipped)


def row_weights(rows: PrefixRows, groups: Array) -> Array:
    """Return u (n,) at weights of the groups: of the rows that end at each cell, together."""
    sums = np.bincount(rows.ends, groups[rows.groups] * rows.squares)
    return np.asarray(sums, dtype=np.float64)


def prefix_bands(rows: PrefixRows, groups: Array, cells: Array) -> tuple[Array, Array]:
    """Return the diagonal (n,) and the side diagonal (n - 1,) of K."""
    return two_sided(row_weights(rows, groups), cells)


def two_sided(sums: Array, cells: Array) -> tuple[Array, Array]:
    """Return both diagonals for given u and y."""
    inverse = 1.0 / sums
    diagonal = (inverse + np.concatenate([[0.0], inverse[:-1]])) / cells
    return diagonal, -inverse[:-1] / np.sqrt(cells[:-1] * cells[1:])


def assess_prefix(rows: PrefixRows, groups: Array, cells: Array) -> JointDual:
    """Return what weights of the groups and of the cells prove."""
    sums = row_weights(rows, groups)
    norms = root_diagonal(*two_sided(sums, cells)) / cells
    errors = root_diagonal(*two_sided(cells[::-1], sums[::-1]))[::-1] / sums
    shares = np.bincount(rows.groups, rows.squares * errors[rows.ends]).astype(np.float64)
    return JointDual(groups, cells, float(cells @ norms), shares, norms)


def climb_prefix(rows: PrefixRows, work: float) -> JointDual:
    """Return the best weights found, from those of coarser problems where rows are plain."""

    def move(last: JointDual, power: float) -> JointDual:
        groups = moved_weights(last.groups, last.errors / last.root, power, least)
        cells = moved_weights(last.cells, last.norms / last.root, power, least)
        return assess_prefix(rows, groups, cells)

    least = float(np.clip(FAINT * rows.n, *LEAST))
    if rows.is_plain and rows.n >= 2 * COARSEST:
        known = climb_prefix(rows.coarser, work)
        start = tuple(interpolated_weights(one, rows.n) for one in (known.groups, known.cells))
    else:
        start = tuple(np.full(count, 1.0 / count) for count in (rows.n_groups, rows.n))
    climb = Climb(move, assess_prefix(rows, *start), RELAXED)
    return climb.to(TOLERANCE, min(MOST_STEPS, steps_within(2 * rows.n, work)))


_DUALS: "WeakKeyDictionary[Problem, JointDual]" = WeakKeyDictionary()


def prefix_dual(problem: Problem, rows: PrefixRows) -> JointDual:
    """Return the weights of a problem of prefix sums, climbed once."""
    if problem not in _DUALS:
        _DUALS[problem] = climb_prefix(rows, WORK)
    return _DUALS[problem]


def prefix_bound(rows: PrefixRows, dual: JointDual) -> float:
    """Return the bound at given weights, rounded down.

    Where weights are faint, from the singular values themselves: K has lost their small squares.
    """
    bound = certified_root(*prefix_bands(rows, dual.groups, dual.cells))
    if rows.n > MOST_DENSE or bound > (1.0 - CLOSE) * dual.root**2:
        return bound
    sums = row_weights(rows, dual.groups)
    whole = np.sqrt(sums)[:, None] * np.tri(rows.n) * np.sqrt(dual.cells)
    values = linalg.svdvals(whole, overwrite_a=True, check_finite=False)
    error = 4.0 * rows.n**2 * np.finfo(float).eps * float(values[0])
    return max(bound, (float(values.sum()) - error) ** 2 * (1.0 - MARGIN))
