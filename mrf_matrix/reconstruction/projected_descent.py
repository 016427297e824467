"""Least squares over a convex set, by accelerated projected descent.

Minimises ``½ ||A X - Y||_F²`` over a set that is easy to project on, in the metric
``d = diag(AᵀA)`` (Nesterov, 1983; Beck and Teboulle, 2009), restarted whenever the momentum points
uphill (O'Donoghue and Candès, 2015).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.reconstruction.active_cells import minimise_by_exchange
from mrf_matrix.reconstruction.simplex import FeasibleTables
from strategies.operators import Operator, check_allocation

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

    Up to `EXPLICIT_CELLS` columns, a descent that is slow to end gives way to `exchanged`, whose
    result counts only if its duality gap says that no answer ``w X`` is further from the best than
    `CERTAIN` of its deviation: ``½ ||A (X - X*)||²`` is at most the gap, and ``|w (X - X*)|`` at
    most ``||w A⁺|| ||A (X - X*)||``. (Without sums: if the best table has at most twice the sums
    of the one found. Rounding of the answers, 1e-14 of their squares, is allowed besides.)

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
    """Return the action of ``AᵀA``."""
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
