"""The bound for the same weight on every cell, or on some of many: one spectrum, no climb."""

import numpy as np
from scipy import linalg

from strategies.bounds.dual_weights import MARGIN
from strategies.operators import Array, Gram
from strategies.operators.base.explicit_forms import densified
from strategies.problem.problem import Problem

MOST_CELLS = 3500
"""Cells that carry weight where there are more."""


def uniform_bound(gram: Array) -> float:
    """Return the bound for uniform weights, rounded down: the SVD bound ``||W||_*² / g``.

    One spectrum of the Gram ``WᵀW`` (g, g), without eigenvectors.
    """
    g = len(gram)
    values = linalg.eigvalsh(gram, check_finite=False)
    error = 8.0 * g * np.finfo(float).eps * values[-1]
    root = np.sqrt(np.maximum(values - error, 0.0)).sum()
    return float(root**2 / g * (1.0 - MARGIN))


def sampled_gram(problem: Problem) -> Array:
    """Return the Gram over evenly spaced merged cells, at most `MOST_CELLS` of them.

    Weights on some of the cells only prove a bound too, at the price of a smaller spectrum.
    """
    merged, merging = problem.merged_workload, problem.merging
    if merged is None or merging is None:
        raise ValueError("workload is too large to enumerate: expected merged cells.")
    g = merging.n_groups
    if g <= MOST_CELLS and problem.gram is not None:
        return problem.gram
    cells = np.unique(np.linspace(0, g - 1, min(g, MOST_CELLS)).astype(np.int64))
    if isinstance(merged, Gram):
        return np.asarray(merged.array[np.ix_(cells, cells)])
    part = merged.columns(cells)
    return densified(part.T @ part)
