"""L-BFGS for many variables: two recursions over a few pairs, and a step halved until it descends.

SciPy's routine spends as long on its vectors as a structured loss on its value. This one keeps its
pairs as rows of two matrices, so that a step costs four products of such a matrix and a vector.
"""

from collections.abc import Callable

import numpy as np

from strategies.operators import Array

PAIRS = 10  # steps and changes of the gradient that are kept
SUFFICIENT = 1e-4  # share of the predicted descent that a step must make (Armijo)
HALVINGS = 20  # trials of one step
STALLED = 1e-9  # progress over ten steps below which the descent ends


def descend_steps(
    value: Callable[[Array], tuple[float, Array]], start: Array, evaluations: int
) -> tuple[Array, float]:
    """Return where a descent ends after a number of evaluations, and the value there.

    `value`: objective, a logarithm or the like of unit scale, and gradient of the argument's shape.
    """
    point = start.copy()
    level, gradient = value(point)
    pairs = _Pairs(point.size)
    levels = [level]
    while evaluations > 0:
        direction = -pairs.solve(gradient.ravel()).reshape(point.shape)
        slope = float(np.vdot(direction, gradient))
        if not slope < 0.0:
            break
        step, accepted = 1.0, False
        for _ in range(HALVINGS):
            evaluations -= 1
            trial = point + step * direction
            trial_level, trial_gradient = value(trial)
            if trial_level <= level + SUFFICIENT * step * slope:
                accepted = True
                break
            step /= 2.0
        if not accepted:
            break
        pairs.add((trial - point).ravel(), (trial_gradient - gradient).ravel())
        point, level, gradient = trial, trial_level, trial_gradient
        levels.append(level)
        if len(levels) > 10 and levels[-11] - level < STALLED:
            break
    return point, level


class _Pairs:
    """The last steps and changes of the gradient, which stand for the inverse Hessian."""

    def __init__(self, size: int) -> None:
        self.steps = np.zeros((PAIRS, size))
        self.changes = np.zeros((PAIRS, size))
        self.products = np.zeros(PAIRS)
        self.count = 0

    def add(self, step: Array, change: Array) -> None:
        """Keep a pair in the place of the oldest, where the function bends upward along it."""
        product = float(step @ change)
        if product <= 1e-12 * float(change @ change) or product <= 0:
            return
        place = self.count % PAIRS
        self.steps[place], self.changes[place], self.products[place] = step, change, product
        self.count += 1

    def solve(self, gradient: Array) -> Array:
        """Return the inverse Hessian's approximation times a gradient."""
        newest = [k % PAIRS for k in range(self.count - 1, max(-1, self.count - 1 - PAIRS), -1)]
        vector = gradient.copy()
        shares = np.zeros(PAIRS)
        for place in newest:
            shares[place] = self.steps[place] @ vector / self.products[place]
            vector -= shares[place] * self.changes[place]
        if newest:
            change = self.changes[newest[0]]
            vector *= self.products[newest[0]] / float(change @ change)
        else:
            vector *= 1.0 / max(1.0, float(np.sqrt(gradient @ gradient)))
        for place in reversed(newest):
            share = shares[place] - self.changes[place] @ vector / self.products[place]
            vector += share * self.steps[place]
        return np.asarray(vector)
