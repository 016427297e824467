"""The rows of a merged workload that an objective tells apart, each once.

For the worst row, equal rows have equal errors and one of them is enough; for the worst group,
equal rows of a group become one, times the root of their number. Rows of zeros have no error.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from strategies.operators import Dense, Operator, RowScaled, Sparse, as_operator, fits
from strategies.operators.base.arrays import Array, Longs
from strategies.operators.masks.attribute_sets import unique_rows
from strategies.problem.merging import dense_keys, sparse_keys
from strategies.problem.objective import Aim
from strategies.problem.workload_factor import factor_of_gram, factor_of_rows, is_tall


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Distinct rows over the merged cells, and the sums of errors that are compared."""

    rows: Array  # (k, g): R
    groups: Longs  # (k,): group of every row, numbered from 0 without gaps
    origin: Longs  # (q,): row of R behind every row of the workload, -1 for a row of zeros

    @property
    def n_groups(self) -> int:
        """Number of sums."""
        return int(self.groups.max()) + 1

    def value(self, errors: Array) -> float:
        """Return the largest sum of errors, given one for each row of R."""
        return float(np.bincount(self.groups, weights=errors).max())

    @cached_property
    def factor(self) -> Array:
        """A factor F (r, g) of full row rank with ``RᵀR = FᵀF``."""
        if is_tall(self.rows.shape):
            return factor_of_gram(self.rows.T @ self.rows)
        return factor_of_rows(self.rows)

    @cached_property
    def coordinates(self) -> Array:
        """C (k, r) with ``R = C F``."""
        lengths = np.linalg.norm(self.factor, axis=1)
        unit = self.factor / lengths[:, None]  # orthonormal up to rounding, and solved with as is
        solved = linalg.solve(unit @ unit.T, unit @ self.rows.T, assume_a="pos")
        return np.asarray(solved.T / lengths)


def distinct_rows(merged: Operator, aim: Aim) -> DistinctRows | None:
    """Return the distinct rows of a merged workload; None where they do not fit the memory cap."""
    q, g = merged.shape
    if not fits((q, 4)) or not fits((merged.entries,), 32):
        return None
    form = merged.compact()
    keys = sparse_keys(form.T.tocsc()) if merged.prefers_sparse else dense_keys(form.T + 0.0)
    groups = np.zeros(q, np.int64) if aim.groups is None else aim.groups
    table = np.concatenate([keys.view(np.int64), groups[:, None]], axis=1)
    first, inverse = unique_rows(table)
    counts = np.bincount(inverse)
    if not fits((len(first), g), 32):
        return None
    picked = form[first]
    if not agrees(form, picked, inverse):  # a hash met twice: every row stands for itself
        first, inverse, picked = np.arange(q), np.arange(q), form
        counts = np.ones(q, dtype=np.int64)
    rows = np.asarray(picked.toarray() if merged.prefers_sparse else picked, dtype=np.float64)
    kept = rows.any(axis=1)
    origin = np.where(kept, np.cumsum(kept) - 1, -1)[inverse]
    rows, first, counts = rows[kept], first[kept], counts[kept]
    if aim.groups is None:
        return DistinctRows(rows, np.arange(len(rows)), origin)
    labels = np.unique(groups[first], return_inverse=True)[1].astype(np.int64)
    return DistinctRows(rows * np.sqrt(counts)[:, None], labels, origin)


def rows_in_order(merged: Operator) -> Operator:
    """Return an explicit matrix with its rows sorted by what is in them, others as they are."""
    inner = merged.inner if isinstance(merged, RowScaled) else merged
    if not isinstance(inner, Dense | Sparse):
        return merged
    form = merged.compact()
    order = np.argsort(form @ np.random.default_rng(0).normal(size=form.shape[1]), kind="stable")
    return as_operator(form[order])


def agrees(form: Any, picked: Any, inverse: Longs) -> bool:
    """Compare every row with the one that stands for it, entry for entry, a band at a time."""
    step = max(1, 2**22 // form.shape[1])
    return all(
        not np.any((form[s : s + step] != picked[inverse[s : s + step]]).sum())
        for s in range(0, form.shape[0], step)
    )
