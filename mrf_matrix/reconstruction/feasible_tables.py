"""The tables that counts can be, and least squares over them.

*Constrained least squares by an active set: which cells are empty is decided one at a time.* A
table is optimal where cells that are not empty solve the normal equations, up to one multiplier λ
for each known sum, and no empty cell would lower the residual. From a feasible table one goes
toward the solution over the cells that are not empty, empties those that are met at 0, and fills
the one that helps most (Lawson and Hanson, 1974). Every step lowers the residual, so badly
conditioned strategies need no more of them than others.

*Least squares over a convex set, by accelerated projected descent.* Minimises ``½ ||A X - Y||_F²``
over a set that is easy to project on, in the metric ``d = diag(AᵀA)`` (Nesterov, 1983; Beck and
Teboulle, 2009), restarted whenever the momentum points uphill (O'Donoghue and Candès, 2015).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from mrf_matrix.base.arrays import Array, Bools
from strategies.operators import Operator, check_allocation
from strategies.operators.base.arrays import plain_floats


def project_to_simplex(
    values: object, total: object = 1.0, *, axis: int = 0, weights: object = None
) -> Array:
    """Project vectors onto the simplex ``{x >= 0, Σ x = total}``.

    The nearest point is ``x_i = max(v_i - λ / d_i, 0)`` for the one λ that meets the sum; it is
    found by sorting ``d_i v_i`` (Held, Wolfe and Crowder, 1974).

    Parameters
    ----------
    values : array-like of shape (g,) or (g, k)
    total : float or array-like, default=1.0
        Sum of every vector, or one for each; not negative. The positive part of an estimate
        will do.
    axis : {0, 1}, default=0
        Axis along which entries sum: 0 projects columns, 1 rows.
    weights : array-like, length of `axis`, optional
        Positive ``d_i``: the distance is ``Σ d_i (x_i - v_i)²``. Inverse variances make the nearest
        point the likeliest under Gaussian noise. Equal by default.

    Returns
    -------
    ndarray of the shape of `values`

    Raises
    ------
    ValueError
        If a shape does not fit, a number is not finite, or a total is negative.

    Examples
    --------
    >>> project_to_simplex([3.0, -2.0, 5.0], total=6.0)
    array([2., 0., 4.])
    """
    table = plain_floats("values", values)
    if table.ndim not in (1, 2) or not table.size or not np.isfinite(table).all():
        raise ValueError(
            f"values has shape {table.shape}: expected finite numbers of shape (g,) or (g, k)."
        )
    if axis not in range(table.ndim):
        raise ValueError(f"axis={axis!r}: expected 0, or 1 for a table.")
    columns = table.T if axis == 1 else table.reshape(len(table), -1)
    sums = _checked_sums(total, columns.shape[1])
    metric = _checked_weights(weights, len(columns))
    projected = nearest(columns, sums, metric)
    return np.ascontiguousarray(projected.T) if axis == 1 else projected.reshape(table.shape)


def nearest(columns: Array, sums: Array, metric: Array) -> Array:
    """Project each column of a (g, k) table, for checked sums (k,) and weights (g,)."""
    keys = columns * metric[:, None]
    order = np.argsort(-keys, axis=0, kind="stable")
    ordered = np.take_along_axis(keys, order, axis=0)
    shares = 1 / metric[order]
    levels = np.cumsum(np.take_along_axis(columns, order, axis=0), axis=0) - sums
    levels /= np.cumsum(shares, axis=0)
    active = np.maximum(np.count_nonzero(ordered > levels, axis=0), 1)
    level = levels[active - 1, np.arange(columns.shape[1])]
    return np.asarray(np.maximum(columns - level / metric[:, None], 0.0))


def _checked_sums(total: object, length: int) -> Array:
    given = plain_floats("total", total)
    if given.shape not in ((), (length,)) or not np.isfinite(given).all() or (given < 0).any():
        raise ValueError(
            f"total={total!r}: expected a finite number that is not negative, or {length} of "
            f"them, one for each vector."
        )
    return np.broadcast_to(given, (length,))


def _checked_weights(weights: object, length: int) -> Array:
    given = np.ones(length) if weights is None else plain_floats("weights", weights)
    if given.shape != (length,) or not np.isfinite(given).all() or (given <= 0).any():
        raise ValueError(f"weights has shape {given.shape}: expected {length} positive numbers.")
    return given


@dataclass(frozen=True, eq=False)
class FeasibleTables:
    """Tables (g, k) without negative entries, whose columns or whole may have known sums."""

    sums: Array | None = None  # shape (k,): sum of each column, or of the whole table
    shared: bool = False  # whether there is one sum for all columns together

    def project(self, table: Array, metric: Array) -> Array:
        if self.sums is None:
            return np.maximum(table, 0.0)
        if not self.shared:
            return nearest(table, self.sums, metric)
        k = table.shape[1]
        flat = nearest(table.reshape(-1, 1), self.sums, np.repeat(metric, k))
        return np.asarray(flat.reshape(table.shape))

    def meet_totals(self, table: Array) -> Array:
        """Return a table without negative entries, multiplied to meet the sums."""
        if self.sums is None:
            return table
        found = np.array([table.sum()]) if self.shared else table.sum(axis=0)
        factors = np.divide(self.sums, found, out=np.zeros_like(found), where=found > 0)
        return np.asarray(table * factors)

    def gap(self, table: Array, slope: Array) -> float:
        """Bound how far a convex function lies above its least value over the tables.

        ``<s, X> - min <s, X'>`` over feasible X' (Frank and Wolfe, 1956), for the function's
        slope s at X. Without sums, X' are tables of at most twice the sum of X in each column,
        and so must the best one be.
        """
        reached = (slope * table).sum(axis=0)
        if self.sums is None:
            least = 2 * table.sum(axis=0) * np.minimum(slope.min(axis=0), 0.0)
        elif self.shared:
            return float(reached.sum() - self.sums[0] * slope.min())
        else:
            least = self.sums * slope.min(axis=0)
        return float((reached - least).sum())


MOST_WORK = 6 * 10**11
"""Sum of the cubes of cells solved for, after which exchanges end: about a minute."""
ROUNDING = 1e-12  # share of the largest value, or slope, that is rounding
RIDGE = 1e-13
"""Added to a diagonal of ones, so that cells that depend on each other can be solved for."""
REFINEMENTS = 3  # corrections of a solution, which take the ridge out of what the answers determine


def minimise_by_exchange(
    gram: Array, right: Array, tables: FeasibleTables, start: Array, enough: float
) -> Array:
    """Return X (g, k) that nearly minimises ``½ tr(XᵀGX) - tr(RᵀX)`` over feasible tables.

    `gram` (g, g): with a positive diagonal; `right` (g, k); `start` (g, k): A feasible table;
    `enough`: duality gap that ends the exchanges; they also end after `MOST_WORK`, and where the
    cells left cannot be solved for.
    """
    scale = 1 / np.sqrt(np.diagonal(gram))
    unit = scale[:, None] * gram * scale
    unit[np.diag_indices_from(unit)] = 1.0
    solver = _CellSolver(unit, scale[:, None] * right, scale, tables)
    values = start / scale[:, None]
    inside = values > 0
    while solver.work < MOST_WORK:
        aim = solver.solve(inside)
        if aim is None:
            break
        blocked = inside & (aim < -ROUNDING * np.abs(aim).max(initial=0.0))
        values, emptied = _step_toward(values, aim, blocked, tables.shared)
        inside &= ~emptied
        arrived = ~(np.full(blocked.shape[1], blocked.any()) if tables.shared else blocked.any(0))
        slopes = unit @ values - solver.target
        if tables.gap(scale[:, None] * values, slopes / scale[:, None]) <= enough:
            break
        filled = _most_useful(slopes - np.outer(scale, solver.multipliers), inside, arrived)
        if arrived.all() and not filled.any():
            break
        inside |= filled
    return tables.meet_totals(scale[:, None] * values)


@dataclass(eq=False)
class _CellSolver:
    """Solves the normal equations over the cells inside, keeping columns that did not change."""

    unit: Array
    target: Array
    scale: Array
    tables: FeasibleTables

    def __post_init__(self) -> None:
        self.multipliers = np.zeros(self.target.shape[1])
        self._plain, self._ones = np.zeros_like(self.target), np.zeros_like(self.target)
        self._solved_for: Bools | None = None
        self.work = 0

    def solve(self, inside: Bools) -> Array | None:
        """Return the values that solve for the cells inside and meet the sums, or None."""
        before = self._solved_for
        changed = (
            np.ones(inside.shape[1], dtype=bool)
            if before is None
            else (before != inside).any(axis=0)
        )
        for j in np.flatnonzero(changed):
            cells = np.flatnonzero(inside[:, j])
            self.work += len(cells) ** 3 + 1
            both = np.column_stack([self.target[cells, j], self.scale[cells]])
            self._plain[:, j] = self._ones[:, j] = 0.0
            found = _solve_refined(self.unit[np.ix_(cells, cells)], both)
            if found is None:
                return None
            self._plain[cells, j], self._ones[cells, j] = found.T
        self._solved_for = inside.copy()
        self.multipliers = self._multipliers()
        return self._plain + self._ones * self.multipliers

    def _multipliers(self) -> Array:
        """Return λ of each column: what its known sum is off by, over how λ moves the sum."""
        sums, gains = self.scale @ self._plain, self.scale @ self._ones
        if self.tables.sums is None:
            return np.zeros_like(sums)
        if self.tables.shared:
            sums, gains = np.full_like(sums, sums.sum()), np.full_like(gains, gains.sum())
        return np.divide(self.tables.sums - sums, gains, out=np.zeros_like(gains), where=gains > 0)


def _solve_refined(gram: Array, right: Array) -> Array | None:
    """Solve normal equations by a Cholesky factor and corrections, None where there is none."""
    try:
        factor = linalg.cho_factor(gram + RIDGE * np.eye(len(gram)))
    except linalg.LinAlgError:
        return None
    found = linalg.cho_solve(factor, right)
    for _ in range(REFINEMENTS):
        found = found + linalg.cho_solve(factor, right - gram @ found)
    return np.asarray(found)


def _step_toward(values: Array, aim: Array, blocked: Bools, shared: bool) -> tuple[Array, Bools]:
    """Go toward the aim as far as nothing turns negative; return values and emptied cells."""
    ratios = np.divide(
        values, values - aim, out=np.full_like(values, np.inf), where=blocked & (values > aim)
    )
    steps = np.minimum(ratios.min(axis=0), 1.0)
    if shared:
        steps = np.full_like(steps, steps.min())
    moved = np.maximum(values + steps * (aim - values), 0.0)
    emptied = blocked & (ratios <= steps)
    moved[emptied] = 0.0
    return moved, emptied


def _most_useful(slopes: Array, inside: Bools, arrived: Bools) -> Bools:
    """Return, in columns that arrived, the empty cell that lowers the residual most."""
    outside = np.where(inside | ~arrived, 0.0, slopes)
    rows, columns = outside.argmin(axis=0), np.arange(slopes.shape[1])
    filled = np.zeros_like(inside)
    filled[rows, columns] = outside[rows, columns] < -ROUNDING * np.abs(slopes).max(initial=0.0)
    return filled


EXPLICIT_CELLS = 4096  # columns up to which the normal equations are formed
STEPS = 50_000
FEW_STEPS = 2_000
"""Steps before cells are exchanged instead, where the normal equations are formed."""
CERTAIN = 1e-3
"""Part of its own noise by which an answer may differ from the best one's, after exchanges."""
ACCURACY = 1e-6  # length of the last step, in deviations of the noise, that ends the descent


def constrained_least_squares(
    matrix: Operator, answers: Array, tables: FeasibleTables, deviation: float
) -> Array:
    """Return X (g, k) in the set that minimises ``||A X - Y||``.

    Up to `EXPLICIT_CELLS` columns, a descent that is slow to end gives way to
    `minimise_by_exchange`, whose result counts only if its duality gap says that no answer ``w X``
    is further from the best than `CERTAIN` of its deviation: ``½ ||A (X - X*)||²`` is at most the
    gap, and ``|w (X - X*)|`` at most ``||w A⁺|| ||A (X - X*)||``. (Without sums: if the best table
    has at most twice the sums of the one found. Rounding of the answers, 1e-14 of their squares, is
    allowed besides.)

    `matrix` (m, g); `answers` (m, k); `deviation`: deviation of the noise in the answers, the unit
    of accuracy; 0 without noise.

    Raises MemoryCapError if iterates or normal equations exceed the memory cap; RuntimeError if the
    steps are still long after `STEPS` of them.
    """
    g, k = matrix.shape[1], answers.shape[1]
    check_allocation("iterates of the cells", (g, 4 * k))
    gram = matrix.gram_dense() if g <= EXPLICIT_CELLS else None
    metric = _metric(matrix)
    right = matrix.rmatmat(answers)
    size = float(np.sqrt((right**2 / metric[:, None]).sum()))
    short = ACCURACY * deviation + 1e-13 * size
    descent = _Descent(_normal_matrix(matrix, gram), right, metric, tables, short)
    point, is_near = descent.run(STEPS if gram is None else FEW_STEPS)
    if is_near:
        return point
    if gram is not None:
        allowed = 0.5 * (CERTAIN * deviation) ** 2 + 1e-14 * float((answers**2).sum())
        found = minimise_by_exchange(
            _with_diagonal(gram, metric), right, tables, point, allowed / 2
        )
        if tables.gap(found, gram @ found - right) <= allowed:
            return found
        point, is_near = descent.run(STEPS)
        if is_near:
            return point
    raise RuntimeError(
        f"constrained least squares did not settle in {STEPS} steps: the strategy is too badly "
        f"conditioned over {g} merged cells. Expected a strategy of condition below about 1e4, or "
        f"at most {EXPLICIT_CELLS} cells; use combine(...), which needs no descent."
    )


def _normal_matrix(matrix: Operator, gram: Array | None) -> Callable[[Array], Array]:
    if gram is None:
        return lambda x: matrix.rmatmat(matrix.matmat(x))
    return lambda x: np.asarray(gram @ x)


def _metric(matrix: Operator) -> Array:
    """Return the squared norm of every column, cells that nothing measures a little above 0."""
    squares = matrix.column_norms("l2") ** 2
    floor = 1e-12 * float(squares.max(initial=0.0)) or 1.0
    return np.maximum(squares, floor)


def _with_diagonal(gram: Array, metric: Array) -> Array:
    changed = gram.copy()
    np.fill_diagonal(changed, metric)
    return changed


@dataclass(frozen=True, eq=False)
class _Descent:
    """Minimises ``½ tr(XᵀGX) - tr(RᵀX)`` over feasible tables."""

    normal: Callable[[Array], Array]
    right: Array
    metric: Array
    tables: FeasibleTables
    short: float

    def run(self, steps: int) -> tuple[Array, bool]:
        """Return the point reached, and whether its last step was short."""
        normal, right, d, short = self.normal, self.right, self.metric[:, None], self.short
        point = self.tables.project(right / d, self.metric)
        image = normal(point)
        ahead, ahead_image, momentum, bound = point, image, 1.0, 1.0
        for _ in range(steps):
            slope = ahead_image - right
            while True:
                found = self.tables.project(ahead - slope / (bound * d), self.metric)
                step = found - ahead
                found_image = normal(found)
                length = float((d * step * step).sum())
                curvature = float((step * (found_image - ahead_image)).sum())
                if curvature <= bound * length * (1 + 1e-9) or length * bound <= short**2:
                    break
                bound = max(2 * bound, curvature / length)
            if bound * length <= short**2:
                return found, True
            uphill = float(((ahead - found) * d * (found - point)).sum()) > 0
            following = 1.0 if uphill else 0.5 + np.sqrt(0.25 + momentum**2)
            rate = 0.0 if uphill else (momentum - 1) / following
            ahead = found + rate * (found - point)
            ahead_image = found_image + rate * (found_image - image)
            point, image, momentum = found, found_image, float(following)
        return point, False
