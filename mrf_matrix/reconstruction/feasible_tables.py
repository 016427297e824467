"""The tables that counts can be: not negative, with known sums where there are any."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.reconstruction.simplex import nearest

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeasibleTables:
    """Tables (g, k) without negative entries, whose columns or whole may have known sums.

    Attributes
    ----------
    sums : ndarray of shape (k,) or (1,), optional
        Sum of each column, or of the whole table.
    shared : bool
        Whether there is one sum for all columns together.
    """

    sums: Array | None = None
    shared: bool = False

    def project(self, table: Array, metric: Array) -> Array:
        """Return the nearest table, where rows weigh ``metric`` (g,)."""
        if self.sums is None:
            return np.maximum(table, 0.0)
        if not self.shared:
            return nearest(table, self.sums, metric)
        k = table.shape[1]
        flat = nearest(table.reshape(-1, 1), self.sums, np.repeat(metric, k))
        return np.asarray(flat.reshape(table.shape))

    def met(self, table: Array) -> Array:
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
