"""Starts far from the Identity, where the L1 objective has a local minimum that holds descents.

A start is a stack of rows beside the Identity, in units of the identity rows' weight: every
column of the heaviest has L1 norm `heft`. What starts well: the workload's own rows squared entry
by entry (a row of ``Q Tᵀ T`` is a bump around a test record, its square a narrower one), the
optimum for Gaussian noise, and a few random rows.
"""

import numpy as np

from strategies.bounds.climbs import steps_within, update_seconds
from strategies.bounds.dual_weights import ascend, gaussian_strategy
from strategies.operators import Array
from strategies.operators.masks.packed_masks import unique_rows
from strategies.problem.problem import Problem

MOST_ROWS = 700  # distinct rows of a workload that are few enough to start from
MANY_REPEATS = 50  # rows per merged cell above which a workload's distinct rows are not looked for


def hefty(rows: Array, heft: float) -> Array:
    """Scale rows so that their largest column has L1 norm `heft`."""
    return np.asarray(rows * (heft / np.abs(rows).sum(axis=0).max()))


def own_rows(problem: Problem) -> Array | None:
    """Return the distinct nonzero rows of the merged workload, None where they are many."""
    merged = problem.merged_workload
    if merged is None or merged.shape[0] > MANY_REPEATS * merged.shape[1]:
        return None
    dense = merged.to_dense() + 0.0
    rows = dense[unique_rows(dense)[0]]
    rows = rows[rows.any(axis=1)]
    return rows if len(rows) <= min(MOST_ROWS, merged.shape[1]) else None


def bumps(rows: Array, power: float = 2.0) -> Array:
    """Return the rows' entries to a power, with their signs, every row with largest entry 1."""
    scaled = rows / np.abs(rows).max(axis=1, keepdims=True)
    return np.asarray(np.sign(scaled) * np.abs(scaled) ** power)


def gaussian_rows(factor: Array, work: float) -> Array:
    """Return rows close to the optimum for Gaussian noise (r, g)."""
    steps = steps_within(update_seconds(factor), work)
    return gaussian_strategy(factor, ascend(factor, 1e-4, steps))


def random_rows(generator: np.random.Generator, count: int, cells: int) -> Array:
    """Return rows of uniform random entries."""
    return generator.random((count, cells))
