"""The sum form for tables with rows of any kind: a metric a table, answers by least squares on all.

``X = AᵀA = Σ_T X_T ⊗ J`` holds every strategy whose rows lie on one table each. The loss

    Σ_T max diag X_T · tr(G X⁻¹)

is convex in the ``X_T``. With ``K_T = X_T (X⁻¹ G X⁻¹)_TT X_T`` it is majorised by one problem a
table, ``tr(G Y⁻¹) <= Σ_T tr(K_T Y_T⁻¹)``, with equality at Y = X. With weights λ_T of a table's
cells, Θ = ``CᵀΛC`` = LLᵀ over the columns C that rows reach, its least value has

    X_T = C L^(-T) (Lᵀ K L)^½ L⁻¹ Cᵀ:

one spectrum a table a step. Weights move to where columns are long, ``λ_c ← λ_c (X_T)_cc``, and
where they are best no column is longer than the mean.

For probabilities λ = ⊗λ_i of the domain's cells every loss is at least ``(tr M^½)²``, with
``M = Λ^½ WᵀW Λ^½``. On the columns of `SharedColumns` M is an arrow: ``M + t`` is inverted table by
table, and a sum over shifts ``t_k = e^(kh)`` stands for the root: over all k,
``(h/π) Σ √t_k x/(x + t_k)`` is √x times a number within ``2 Σ_m 1/cosh(2π²m/h)`` of 1, by Poisson's
formula. Its terms are positive, so that those left out only lower the bound.
"""

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from math import prod
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg

from strategies.bounds.dual_ascent import MARGIN, SPEED, ascend, gaussian_strategy
from strategies.bounds.total_design import FAINT, REACHED
from strategies.operators import Array, TableStack, fits
from strategies.operators.base.arrays import Longs
from strategies.operators.base.operator import cached_per_value
from strategies.operators.base.qr import qr_triangle, singular_values
from strategies.operators.kronecker import kronecker_product
from strategies.operators.tables.overlapping_tables import Basis, JointSolve, SharedColumns, Table
from strategies.operators.tables.table_stack import as_tables, few_rows, sum_to_table
from strategies.problem.problem import Problem

LARGEST_TABLE, LARGEST_SHARED = 1600, 2600  # cells of one table; shared columns of all
MOST_TABLES = 1000
TOLERANCE = 1e-3  # gap between the largest column and the mean at which a climb ends
SLOW = 0.02  # share of the tolerance that a step must gain to go on
FEWEST_STEPS, MOST_STEPS = 12, 240
APART_STEPS = 20  # of each table alone
LEAST = 1e-8  # weight that no cell falls below
FLOOR = 1e-6  # share of the longest column by which a metric is raised to full rank
SPACING = 1.25  # h, of shifts in logarithms
RIPPLE = 2.001 / np.cosh(2.0 * np.pi**2 / SPACING)
RANGE = 1e8  # the largest shift beside the trace
EPS = float(np.finfo(float).eps)

_CLIMBS: "WeakKeyDictionary[Problem, JointTables]" = WeakKeyDictionary()


class JointTables:
    """A climb over metrics and weights of cells, for the tables that lie below no other."""

    def __init__(self, asked: TableStack, shared: SharedColumns) -> None:
        self.shared, every = shared, range(len(shared.tables))
        below = zip(shared.tables, blocks_below(asked, shared.tables), strict=True)
        self.cell_rows = [rows_above(asked, table, blocks) for table, blocks in below]
        self.bases = [self.reached_basis(t) for t in every]
        self.rows = [
            rows @ one.columns / np.sqrt(len(one.columns))
            for rows, one in zip(self.cell_rows, self.bases, strict=True)
        ]
        sizes = [one.columns.shape for one in self.bases]
        even = [np.full(n, 1.0 / n) for n, _ in sizes]
        self.start([np.eye(r) / np.sqrt(n) for n, r in sizes], even)

    def start(self, triangles: list[Array], weights: list[Array]) -> None:
        self.triangles, self.weights = triangles, weights  # R, of metrics RᵀR
        self.best, self.kept = np.inf, (triangles, weights)
        self.step, self.mean, self.is_done = 0, np.inf, False
        self.proved = 0, 0.0  # the step at which the bound was taken, and the bound

    @cached_property
    def second_climb(self) -> "JointTables | None":
        """A climb from every table at its own optimum, None where this one is below their total.

        At even weights of cells the singular values of a table's rows bound its loss from below.
        """
        spectra = [singular_values(rows) for rows in self.cell_rows]
        least = sum(values.sum() / np.sqrt(right.shape[1]) for values, right in spectra)
        if least**2 >= self.best:
            return None
        factors = [
            (values[:, None] * right)[values > REACHED * values.max(initial=0.0)]
            for values, right in spectra
        ]
        if not all(map(len, factors)):  # a table of zeros has no optimum of its own
            return None
        duals = [ascend(factor, TOLERANCE, APART_STEPS) for factor in factors]
        roots = np.sqrt([dual.root * float(dual.ratios.max()) for dual in duals])
        if roots.sum() ** 2 >= self.best:
            return None
        triangles = []
        for factor, dual, one, share in zip(
            factors, duals, self.bases, roots / roots.sum(), strict=True
        ):
            rows = gaussian_strategy(factor, dual) @ one.columns
            triangles.append(raised_root(rows.T @ rows * (share / len(one.columns))))
        found = copy(self)
        found.start(triangles, [dual.weights for dual in duals])
        return found

    def reached_basis(self, t: int) -> Basis:
        """Return a table's shared columns, and those of its own that its rows reach."""
        whole = self.shared.basis(t)
        own, rest = np.split(whole.columns, [whole.own], axis=1)
        _, lengths, right = linalg.svd(self.cell_rows[t] @ own, full_matrices=False)
        kept = right[lengths > REACHED * lengths.max(initial=0.0)].T
        return Basis(np.column_stack([own @ kept, rest]), kept.shape[1], whole.places)

    def run(self, tolerance: float, most: int) -> None:
        while not self.is_done and self.step < most:
            self.take_step(tolerance)
            self.step += 1

    def take_step(self, tolerance: float) -> None:
        solve = JointSolve(tuple(self.bases), tuple(self.triangles), self.shared.width)
        white = [solve.whiten(t, rows) for t, rows in enumerate(self.rows)]
        error = sum(float((own**2).sum() + (shared**2).sum()) for own, shared in white)
        columns = [self.columns(t, triangle) for t, triangle in enumerate(self.triangles)]
        mean = sum(float(w @ c) for w, c in zip(self.weights, columns, strict=True))
        largest = sum(float(one.max()) for one in columns)
        if error * largest < self.best:
            self.best, self.kept = error * largest, (self.triangles, self.weights)
        gain, self.mean = self.mean / (error * mean), error * mean
        self.is_done = largest < mean * (1.0 + tolerance) and gain < 1.0 + SLOW * tolerance
        moved = [weights * one for weights, one in zip(self.weights, columns, strict=True)]
        moved = [np.maximum(one / one.sum(), LEAST) for one in moved]
        self.weights = [one / one.sum() for one in moved]
        self.move(solve, white)

    def move(self, solve: JointSolve, white: Sequence[tuple[Array, Array]]) -> None:
        """Move every metric to the least value of its majorant."""
        across = [linalg.solve_triangular(solve.shared_triangle, one[1].T).T for one in white]
        spread = sum((one.T @ one for one in across), np.zeros((self.shared.width,) * 2))
        triangles = [
            linalg.cholesky(
                self.best_metric(t, self.majorant(t, triangle, white[t][0], across[t], spread))
            )
            for t, triangle in enumerate(self.triangles)
        ]
        total = sum(
            float(w @ self.columns(t, one))
            for t, (w, one) in enumerate(zip(self.weights, triangles, strict=True))
        )
        self.triangles = [one / np.sqrt(total) for one in triangles]

    def columns(self, t: int, triangle: Array) -> Array:
        basis = self.bases[t].columns
        return np.asarray(((triangle @ basis.T) ** 2).sum(axis=0) * len(basis))

    def majorant(self, t: int, triangle: Array, own: Array, across: Array, spread: Array) -> Array:
        """Return ``K_T`` over a table's columns: of its own rows, and others' on shared columns.

        `own`: its rows in terms of its own answers; `across`: of all rows on shared columns times
        their covariance; `spread`: the Gram of those of every table.
        """
        k, at = self.bases[t].own, self.bases[t].places
        corner = triangle[k:, k:]
        metric = corner.T @ corner
        mine = across[:, at]
        left = np.column_stack([self.rows[t][:, :k], own @ triangle[:k, k:] + mine @ metric])
        whole = np.asarray(left.T @ left)
        whole[k:, k:] += metric @ (spread[np.ix_(at, at)] - mine.T @ mine) @ metric
        return whole

    def best_metric(self, t: int, majorant: Array) -> Array:
        """Return the metric of least ``tr(K X⁻¹)`` at a given mean of its columns' lengths."""
        basis = self.bases[t].columns * np.sqrt(len(self.bases[t].columns))
        lower = linalg.cholesky((basis.T * self.weights[t]) @ basis, lower=True)
        values, vectors = linalg.eigh(lower.T @ majorant @ lower)
        roots = np.sqrt(np.maximum(values, FAINT * values[-1]))
        sides = linalg.solve_triangular(lower, vectors, lower=True, trans=1)
        return np.asarray((sides * roots) @ sides.T)

    def matrices(self) -> list[Array]:
        """Return the best rows of every table: triangles of full rank, one row a cell."""
        found = []
        for one, triangle in zip(self.bases, self.kept[0], strict=True):
            rows = triangle @ one.columns.T
            found.append(raised_root(rows.T @ rows * len(one.columns)))
        return found

    def bound(self) -> float:
        if self.proved[0] != self.step:
            self.proved = self.step, bound_at(self, attribute_weights(self))
        return self.proved[1]


def raised_root(metric: Array) -> Array:
    """Return R with ``RᵀR`` a metric raised to full rank."""
    floor = FLOOR * float(np.diagonal(metric).max())
    return np.asarray(linalg.cholesky(metric + floor * np.eye(len(metric))))


def blocks_below(asked: TableStack, tables: Sequence[Table]) -> list[list[int]]:
    """Return for every table the blocks whose attributes it is the first to have."""
    sets = set(asked.attribute_sets)
    first = {one: next(t for t, own in enumerate(tables) if {*one} <= {*own}) for one in sets}
    found: list[list[int]] = [[] for _ in tables]
    for b, one in enumerate(asked.attribute_sets):
        found[first[one]].append(b)
    return found


def rows_above(asked: TableStack, table: Table, below: Sequence[int]) -> Array:
    """Return the rows of some blocks over the cells of a table above them; not many more."""
    sizes, sets = asked.sizes, asked.attribute_sets
    every = np.eye(prod(sizes[i] for i in table))
    parts = [few_rows(asked.blocks[b], sum_to_table(every, table, sets[b], sizes)) for b in below]
    rows = np.concatenate(parts)
    return qr_triangle(rows) if len(rows) > len(every) else rows


@cached_per_value
def problem_tables(problem: Problem) -> tuple[TableStack, SharedColumns] | None:
    """Return a workload as several tables, and what those share that lie below no other.

    None where it shows no tables, or where those are too many or too large.
    """
    asked = as_tables(problem.workload)
    sets = sorted(set(() if asked is None else asked.attribute_sets))
    if asked is None or not 1 < len(sets) <= MOST_TABLES:
        return None
    above = [one for one in sets if not any({*one} < {*other} for other in sets)]
    shared = SharedColumns(asked.sizes, tuple(above))
    return (asked, shared) if len(above) > 1 and tables_fit(shared) else None


def tables_fit(shared: SharedColumns) -> bool:
    cells = [prod(shared.sizes[i] for i in one) for one in shared.tables]
    if max(cells) > LARGEST_TABLE or shared.width > LARGEST_SHARED:
        return False
    return fits((sum(one**2 for one in cells) + shared.width**2,), 16)


def step_seconds(asked: TableStack, shared: SharedColumns) -> float:
    cubes = 10.0 * shared.width**3
    for table, blocks in zip(shared.tables, blocks_below(asked, shared.tables), strict=True):
        sizes = [shared.sizes[i] for i in table]
        rows = sum(asked.blocks[b].shape[0] for b in blocks)
        cubes += 100.0 * min(prod(sizes), rows + sum(sizes)) ** 3
    return 1e-3 * len(shared.tables) + cubes / SPEED


def least_seconds(problem: Problem) -> float:
    """Return the seconds of the shortest climb, nothing where it was taken."""
    known = problem_tables(problem)
    if known is None or problem in _CLIMBS:
        return 0.0
    return FEWEST_STEPS * step_seconds(*known)


def joint_climbs(problem: Problem, work: float) -> list[JointTables]:
    """Return the climbs of a problem as far as the work goes; none where it shows no tables."""
    known = problem_tables(problem)
    if known is None:
        return []
    if problem not in _CLIMBS:
        _CLIMBS[problem] = JointTables(*known)
    first, steps = _CLIMBS[problem], int(work / step_seconds(*known))
    first.run(TOLERANCE, min(MOST_STEPS, max(FEWEST_STEPS, steps)))
    if first.second_climb is None:
        return [first]
    first.second_climb.run(TOLERANCE, min(MOST_STEPS, max(FEWEST_STEPS, steps - first.step)))
    return [first, first.second_climb]


def joint_design(problem: Problem, work: float) -> JointTables | None:
    """Return the climb of the least loss."""
    return min(joint_climbs(problem, work), key=lambda climb: climb.best, default=None)


# The certificate ----------------------------------------------------------------------------


def joint_bound(problem: Problem, work: float) -> float:
    """Return the bound that the climbs' weights prove, 0 without tables or the work for a climb."""
    if least_seconds(problem) > work:
        return 0.0
    return max((climb.bound() for climb in joint_climbs(problem, work)), default=0.0)


def attribute_weights(climb: JointTables) -> list[Array]:
    sizes, tables = climb.shared.sizes, climb.shared.tables
    sums = [np.full(size, 1e-12) for size in sizes]
    for table, weights in zip(tables, climb.kept[1], strict=True):
        whole = weights.reshape([sizes[i] for i in table])
        for axis, i in enumerate(table):
            sums[i] += whole.sum(axis=tuple(a for a in range(len(table)) if a != axis))
    return [one / one.sum() for one in sums]


def bound_at(climb: JointTables, weights: Sequence[Array]) -> float:
    roots = [np.sqrt(one) for one in weights]
    width = climb.shared.width
    low = np.zeros((width, width))
    parts: list[tuple[Array, Array, Longs]] = []
    for t, rows in enumerate(climb.cell_rows):
        basis = climb.shared.basis(t, roots)
        root = kronecker_product([np.ones(1), *(roots[i] for i in climb.shared.tables[t])])
        inner = (rows * root) @ basis.columns
        own, rest = inner[:, : basis.own], inner[:, basis.own :]
        values, vectors = linalg.eigh(own.T @ own)
        low[np.ix_(basis.places, basis.places)] += rest.T @ rest
        parts.append((values, vectors.T @ (own.T @ rest), basis.places))
    trace = float(np.trace(low)) + sum(float(np.maximum(one[0], 0.0).sum()) for one in parts)
    size = width + sum(len(values) for values, _, _ in parts)
    error = 8.0 * size * EPS * trace  # of the spectrum
    total = 0.0
    for shift in np.exp(np.arange(np.log(4.0 * error), np.log(RANGE * trace), SPACING)):
        rest = size - shift * inverse_trace(low, parts, shift - error)
        total += np.sqrt(shift) * max(rest - 8.0 * size * EPS, 0.0)
    return float((SPACING / np.pi * total / (1.0 + RIPPLE)) ** 2 * (1.0 - MARGIN))


def inverse_trace(low: Array, parts: Sequence[tuple[Array, Array, Longs]], shift: float) -> float:
    """Return ``tr (M + t)⁻¹`` of an arrow: spectra and couplings of own columns, and the rest."""
    corner = low + shift * np.eye(len(low))
    beside, total = np.eye(len(low)), 0.0
    for values, coupling, at in parts:
        shifted = np.maximum(values, 0.0) + shift
        scaled = coupling / shifted[:, None]
        corner[np.ix_(at, at)] -= coupling.T @ scaled
        beside[np.ix_(at, at)] += scaled.T @ scaled
        total += float((1.0 / shifted).sum())
    factor = linalg.cho_factor(corner)
    return total + float(np.trace(linalg.cho_solve(factor, beside)))
