"""Least squares over a convex set, by accelerated projected descent.

Minimises ``½ ||A X - Y||_F²`` over a set that is easy to project on, in the metric
``d = diag(AᵀA)`` (Nesterov, 1983; Beck and Teboulle, 2009), restarted whenever the momentum points
uphill (O'Donoghue and Candès, 2015).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from strategies.operators import Operator, check_allocation

Array = NDArray[np.float64]
Projection = Callable[[Array, Array], Array]
"""Nearest point of the set to (g, k), in the metric of weights (g,)."""

EXPLICIT_CELLS = 4096
"""Columns up to which the normal equations are formed."""
STEPS = 50_000
ACCURACY = 1e-6
"""Length of the last step, in deviations of the noise, that ends the descent."""


def constrained_least_squares(
    matrix: Operator, answers: Array, project: Projection, deviation: float
) -> Array:
    """Return X (g, k) in the set that minimises ``||A X - Y||``.

    Parameters
    ----------
    matrix : Operator of shape (m, g)
    answers : ndarray of shape (m, k)
    project : callable
    deviation : float
        Deviation of the noise in the answers, the unit of accuracy; 0 without noise.

    Raises
    ------
    MemoryCapError
        If iterates or normal equations exceed the memory cap.
    RuntimeError
        If the steps are still long after `STEPS` of them.
    """
    g, k = matrix.shape[1], answers.shape[1]
    check_allocation("iterates of the cells", (g, 4 * k))
    normal = _normal_matrix(matrix)
    metric = _metric(matrix)
    right = matrix.rmatmat(answers)
    size = float(np.sqrt((right**2 / metric[:, None]).sum()))
    short = ACCURACY * deviation + 1e-13 * size
    return _descend(normal, right, metric, project, short)


def _normal_matrix(matrix: Operator) -> Callable[[Array], Array]:
    """Return the action of ``AᵀA``."""
    g = matrix.shape[1]
    if g > EXPLICIT_CELLS:
        return lambda x: matrix.rmatmat(matrix.matmat(x))
    gram = matrix.gram_dense()
    return lambda x: np.asarray(gram @ x)


def _metric(matrix: Operator) -> Array:
    """Return the squared norm of every column, cells that nothing measures a little above 0."""
    squares = matrix.column_norms("l2") ** 2
    floor = 1e-12 * float(squares.max(initial=0.0)) or 1.0
    return np.maximum(squares, floor)


def _descend(
    normal: Callable[[Array], Array], right: Array, metric: Array, project: Projection, short: float
) -> Array:
    d = metric[:, None]
    point = project(right / d, metric)
    image = normal(point)
    ahead, ahead_image, momentum, bound = point, image, 1.0, 1.0
    for _ in range(STEPS):
        slope = ahead_image - right
        while True:
            found = project(ahead - slope / (bound * d), metric)
            step = found - ahead
            found_image = normal(found)
            length = float((d * step * step).sum())
            curvature = float((step * (found_image - ahead_image)).sum())
            if curvature <= bound * length * (1 + 1e-9) or length * bound <= short**2:
                break
            bound = max(2 * bound, curvature / length)
        if bound * length <= short**2:
            return found
        uphill = float(((ahead - found) * d * (found - point)).sum()) > 0
        following = 1.0 if uphill else 0.5 + np.sqrt(0.25 + momentum**2)
        rate = 0.0 if uphill else (momentum - 1) / following
        ahead = found + rate * (found - point)
        ahead_image = found_image + rate * (found_image - image)
        point, image, momentum = found, found_image, float(following)
    raise RuntimeError(
        f"constrained least squares did not settle in {STEPS} steps: the strategy is too badly "
        f"conditioned over the merged cells. Expected a strategy of condition below about 1e4; "
        f"use combine(...), which needs no descent."
    )
