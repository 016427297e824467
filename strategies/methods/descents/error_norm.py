"""What a descent minimises of the rows' errors: their sum, or a p-norm of sums over groups.

A rising p turns ``||P||_p`` into the largest sum P_k. Its logarithm has the slope
``z_k / (Σ z · P_k)`` in P_k, with ``z = (P / max P)^p``: every row's error enters a descent with
the weight of its group, and p = 1 is the total.
"""

from dataclasses import dataclass, replace

import numpy as np

from strategies.operators.base.arrays import Array, Longs
from strategies.problem.problem import Problem

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
