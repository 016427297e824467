"""What the descents have in common: L-BFGS, and iterations from a work allowance."""

from collections.abc import Callable

import numpy as np
import scipy

from strategies.operators import Array

NEGLIGIBLE = 1e-3
"""Share of the largest root below which an entry is dropped: its square is a millionth."""
MEMORY = 20  # pairs of steps and gradients that L-BFGS keeps
STALLED = 1e-10  # relative progress of a step below which a descent ends
PRODUCTS = 4e10  # operations a second of the reference machine in matrix products
ENTRIES = 6e-8  # seconds per variable and step: entrywise work and the vectors of L-BFGS
OVERHEAD = 2e-4  # seconds per step however small


def minimise(
    value: Callable[[Array], tuple[float, Array]], start: Array, iterations: int
) -> tuple[Array, float]:
    """Return where L-BFGS ends after a number of iterations, in the start's shape, and the value.

    `value`: objective and gradient at an array of the start's shape.

    The gradient's size is no reason to stop, since the objectives are logarithms of losses that
    do not depend on the scale of their argument.
    """

    def flat_value(flat: Array) -> tuple[float, Array]:
        loss, gradient = value(flat.reshape(start.shape))
        return loss, gradient.ravel()

    found = scipy.optimize.minimize(
        flat_value,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": iterations,
            "maxfun": 2 * iterations + 20,
            "maxcor": MEMORY,
            "ftol": STALLED,
            "gtol": 0.0,
        },
    )
    return np.asarray(found.x, dtype=np.float64).reshape(start.shape), float(found.fun)


def minimise_sparse(
    value: Callable[[Array], tuple[float, Array]], start: Array, warmup: int, iterations: int
) -> tuple[Array, float]:
    """Minimise in two runs: over all entries, then over those that are not nearly zero.

    Where most entries of a solution are zero, the second run's vectors are far shorter. Suits
    entries ``s |s|`` of a matrix, which hardly move once they are small.
    """
    roots, lowest = minimise(value, start, warmup) if warmup > 0 else (start, np.inf)
    active = np.abs(roots) > NEGLIGIBLE * np.abs(roots).max(initial=0.0)
    whole = np.zeros_like(roots)

    def active_value(entries: Array) -> tuple[float, Array]:
        whole[active] = entries
        loss, gradient = value(whole)
        return loss, gradient[active]

    entries, found = minimise(active_value, roots[active], iterations)
    if found > lowest:  # dropping entries cost more than the descent gained
        return roots, lowest
    ended = np.zeros_like(roots)
    ended[active] = entries
    return ended, found


def step_seconds(operations: float, variables: int) -> float:
    """Return the seconds of one step on the reference machine, by its counts."""
    return OVERHEAD + operations / PRODUCTS + ENTRIES * variables
