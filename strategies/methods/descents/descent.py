"""What descents have in common: L-BFGS, iterations from a work allowance, what is minimised.

That is the sum of the rows' errors, or a p-norm of sums over groups: a rising p turns ``||P||_p``
into the largest sum P_k. Its logarithm has the slope ``z_k / (Σ z · P_k)`` in P_k, with
``z = (P / max P)^p``: every row's error enters a descent with the weight of its group, and p = 1 is
the total.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from strategies.operators.base.arrays import Array, Longs
from strategies.problem.problem import Problem

NEGLIGIBLE = 1e-3
"""Share of the largest root below which an entry is dropped: its square is a millionth."""
REFUSED = 1e30
"""Value of the objective where a system cannot be factorised: the line search then backs off."""
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


POWERS = (4.0, 16.0, 64.0, 256.0, 1024.0)  # exponents, round by round


@dataclass(frozen=True, eq=False)
class ErrorNorm:
    """A p-norm of the sums of errors over groups of rows."""

    # (k,): group of every row, numbered from 0; None for the total of all rows
    groups: Longs | None = None
    power: float = 1.0  # p, without meaning for the total

    def log_value(self, errors: Array) -> tuple[float, Array]:
        """Return ``log ||P||_p`` and its slope in every row's error, shape (k,).

        >>> value, slopes = ErrorNorm(np.array([0, 0, 1]), 2.0).log_value(np.array([1.0, 2.0, 4.0]))
        >>> round(value, 6), slopes.round(6).tolist()
        (1.609438, [0.12, 0.12, 0.16])
        """
        if self.groups is None:
            total = float(errors.sum())
            return float(np.log(total)), np.full(len(errors), 1.0 / total)
        sums = np.bincount(self.groups, weights=errors)
        largest = sums.max()
        shares = (sums / largest) ** self.power
        whole = shares.sum()
        slopes = np.divide(shares, whole * sums, out=np.zeros_like(sums), where=sums > 0)
        return float(np.log(largest) + np.log(whole) / self.power), slopes[self.groups]

    def value(self, errors: Array) -> float:
        """Return the total, or the largest sum: the limit of every p."""
        if self.groups is None:
            return float(errors.sum())
        return float(np.bincount(self.groups, weights=errors).max())

    def at(self, power: float) -> "ErrorNorm":
        """Return the norm with another exponent; the total stays the total."""
        return self if self.groups is None else replace(self, power=power)

    @property
    def rounds(self) -> tuple["ErrorNorm", ...]:
        """The norms that a descent goes through in turn."""
        return (self,) if self.groups is None else tuple(self.at(power) for power in POWERS)


TOTAL = ErrorNorm()


def descended_rows(problem: Problem) -> tuple[Array, ErrorNorm] | None:
    """Return rows over the merged cells (k, g) and the norm of their errors to descend on.

    For the total any factor of the Gram will do, for the worst row or group the distinct rows;
    None where they cannot be enumerated.
    """
    if problem.is_total:
        return None if problem.factor is None else (problem.factor, TOTAL)
    rows = problem.distinct_rows
    return None if rows is None else (rows.rows, ErrorNorm(rows.groups))
