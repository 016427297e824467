"""Constrained least squares by an active set: which cells are empty is decided one at a time.

A table is optimal where cells that are not empty solve the normal equations, up to one multiplier
λ for each known sum, and no empty cell would lower the residual. From a feasible table one goes
toward the solution over the cells that are not empty, empties those that are met at 0, and fills
the one that helps most (Lawson and Hanson, 1974). Every step lowers the residual, so badly
conditioned strategies need no more of them than others.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from mrf_matrix.base.arrays import Array, Bools
from mrf_matrix.reconstruction.simplex import FeasibleTables

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
        values, emptied = _toward(values, aim, blocked, tables.shared)
        inside &= ~emptied
        arrived = ~(np.full(blocked.shape[1], blocked.any()) if tables.shared else blocked.any(0))
        slopes = unit @ values - solver.target
        if tables.gap(scale[:, None] * values, slopes / scale[:, None]) <= enough:
            break
        filled = _most_useful(slopes - np.outer(scale, solver.multipliers), inside, arrived)
        if arrived.all() and not filled.any():
            break
        inside |= filled
    return tables.met(scale[:, None] * values)


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
            found = _refined(self.unit[np.ix_(cells, cells)], both)
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


def _refined(gram: Array, right: Array) -> Array | None:
    """Solve normal equations by a Cholesky factor and corrections, None where there is none."""
    try:
        factor = linalg.cho_factor(gram + RIDGE * np.eye(len(gram)))
    except linalg.LinAlgError:
        return None
    found = linalg.cho_solve(factor, right)
    for _ in range(REFINEMENTS):
        found = found + linalg.cho_solve(factor, right - gram @ found)
    return np.asarray(found)


def _toward(values: Array, aim: Array, blocked: Bools, shared: bool) -> tuple[Array, Bools]:
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
