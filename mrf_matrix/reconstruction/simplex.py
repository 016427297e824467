"""The tables that counts can be, not negative and of known sums, and the nearest such table."""

from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array, plain_floats


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
