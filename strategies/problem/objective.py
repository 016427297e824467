"""What a loss adds up: all rows, or the worst row or group of rows, each row with a weight.

With ``e_i = ||A||² ||(W A⁺)_i||²`` the error of row i, weights ω and groups G_k,

    total:  Σ_i ω_i e_i            max:  max_k Σ_{i in G_k} ω_i e_i

A weighted error is the error of ``diag(√ω) W``, so weights become part of the workload and only
groups are left for a method to know.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from strategies.operators import Gram, Marginals, Operator, RowScaled
from strategies.operators.base.arrays import Array, Longs
from strategies.operators.base.validation import plain_array, real_array

Objective = Literal["total", "max"]
OBJECTIVES: tuple[Objective, ...] = ("total", "max")


@dataclass(frozen=True, eq=False)
class Aim:
    """An objective over a workload's rows, its weights apart."""

    objective: Objective = "total"
    # (q,): group of every row, numbered from 0 without gaps; None where every row is its own group
    groups: Longs | None = None

    @classmethod
    def of(cls, workload: Operator, objective: object, groups: object) -> "Aim":
        """Check an objective and labels of groups, or refuse by name."""
        if objective not in OBJECTIVES:
            raise ValueError(
                f"objective={objective!r}: expected 'total' (all rows) or 'max' (the worst row, "
                f"or the worst group of rows)."
            )
        if objective == "total":
            if groups is not None:
                raise ValueError("groups given with objective='total': expected objective='max'.")
            return cls()
        if isinstance(workload, Gram):
            raise ValueError(
                "workload is a Gram, which has no rows: expected the rows themselves for "
                "objective='max'."
            )
        return cls("max", None if groups is None else checked_groups(groups, workload.shape[0]))

    def n_groups(self, rows: int) -> int:
        """Return how many sums the objective takes the largest of."""
        if self.objective == "total":
            return 1
        return rows if self.groups is None else int(self.groups.max()) + 1

    def most_rows(self, rows: int) -> int:
        """Return how many rows the largest sum has."""
        if self.objective == "total":
            return rows
        return 1 if self.groups is None else int(np.bincount(self.groups).max())

    def value(self, errors: Array) -> float:
        """Return the objective of the rows' weighted errors, shape (q,).

        >>> Aim("max", np.array([0, 1, 0])).value(np.array([1.0, 2.5, 2.0]))
        3.0
        """
        if self.objective == "total":
            return float(errors.sum())
        sums = errors if self.groups is None else np.bincount(self.groups, weights=errors)
        return float(sums.max())


def checked_groups(groups: object, rows: int) -> Longs:
    """Return labels as numbers from 0 without gaps, or refuse by name."""
    labels = plain_array("groups", groups)
    if labels.shape != (rows,):
        raise ValueError(
            f"groups has shape {labels.shape}: expected one label for each of the {rows} rows."
        )
    if labels.dtype.kind not in "iu":
        raise TypeError(f"groups has dtype {labels.dtype}: expected integer labels.")
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)


def checked_weights(weights: object, rows: int) -> Array:
    """Return weights of rows as floats, or refuse by name."""
    values = real_array("weights", weights, 1).astype(np.float64)
    if len(values) != rows:
        raise ValueError(
            f"weights has {len(values)} entries: expected one for each of the {rows} rows."
        )
    if values.min(initial=0.0) < 0:
        raise ValueError("weights has negative entries: expected none below 0.")
    if not values.max(initial=0.0) > 0:
        raise ValueError("weights are all zero: expected a positive one.")
    return values


def weighted(workload: Operator, weights: object) -> Operator:
    """Return ``diag(√ω) W`` with the workload's structure kept.

    Raises ValueError, TypeError if the weights are not one finite number for each row, or some are
    negative, or all zero, or the workload has no rows.
    """
    if isinstance(workload, Gram):
        raise ValueError("workload is a Gram, which has no rows to weigh: expected the rows.")
    values = checked_weights(weights, workload.shape[0])
    if (values == 1.0).all():
        return workload
    roots = np.sqrt(values)
    if isinstance(workload, Marginals):
        tables = np.split(roots, np.cumsum(workload.rows)[:-1])
        if all((table == table[0]).all() for table in tables):
            own = [w * float(t[0]) for w, t in zip(workload.weights, tables, strict=True)]
            return Marginals(workload.domain_sizes, workload.attribute_sets, own)
    return RowScaled(roots, workload)
