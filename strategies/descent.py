"""What the descents have in common: L-BFGS, and iterations from a work allowance."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from strategies.operators import Array

MEMORY = 20
"""Pairs of steps and gradients that L-BFGS keeps."""
STALLED = 1e-10
"""Relative progress of a step below which a descent ends."""
PRODUCTS = 4e10
"""Operations a second of the reference machine in matrix products."""
ENTRIES = 6e-8
"""Seconds per variable and step: entrywise work and the vectors of L-BFGS."""
OVERHEAD = 2e-4
"""Seconds per step however small."""


def minimise(
    value: Callable[[Array], tuple[float, Array]], start: Array, iterations: int
) -> tuple[Array, float]:
    """Return where L-BFGS ends after a number of iterations, in the start's shape, and the value.

    Parameters
    ----------
    value : callable
        Objective and gradient at an array of the start's shape.
    start : ndarray
    iterations : int

    Notes
    -----
    The gradient's size is no reason to stop, since the objectives are logarithms of losses that
    do not depend on the scale of their argument.
    """
    options: dict[str, Any] = {
        "maxiter": iterations,
        "maxfun": 2 * iterations + 20,
        "maxcor": MEMORY,
        "ftol": STALLED,
        "gtol": 0.0,
    }

    def flat_value(flat: Any) -> Any:
        loss, gradient = value(flat.reshape(start.shape))
        return loss, gradient.ravel()

    minimize: Any = optimize.minimize
    found = minimize(flat_value, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64).reshape(start.shape), float(found.fun)


def step_seconds(operations: float, variables: int) -> float:
    """Return the seconds of one step on the reference machine, by its counts."""
    return OVERHEAD + operations / PRODUCTS + ENTRIES * variables
