"""The least largest error of weighted marginal tables under Gaussian noise, at any size.

All rows of a table have one error. With weights μ of sum 1 on the tables and ``e_tU`` the energy
of one row of table t on the component of U, the total of weighted errors has the closed optimum

    f(μ)² = (Σ_U sqrt(p_U Σ_t μ_t e_tU))²,

a lower bound of the largest error for every strategy and both norms, concave in μ. The optimal
strategy's errors are its slopes: ``μ <- μ e / f²`` climbs, and ends where no error is above f².

References
----------
Xiao, He, Zhang, Kifer: An optimal and scalable matrix mechanism for noisy marginals under convex
loss functions (2023), for the maximum variance. Written from the formulas.
"""

from dataclasses import dataclass

import numpy as np

from strategies.bounds.dual_weights import MARGIN
from strategies.operators import Array, Marginals
from strategies.operators.masks.components import table_components
from strategies.operators.masks.energies import products_over
from strategies.problem.problem import Problem

TOLERANCE = 1e-6
MOST_STEPS = 500


@dataclass(frozen=True, eq=False)
class TableDual:
    """Weights of the tables' rows together, of sum 1, and the bound that they prove."""

    weights: Array
    bound: float


def table_dual(problem: Problem) -> TableDual | None:
    """Return the climbed weights; None where rows are grouped, or no tables are asked for.

    >>> W = Marginals((2, 4), [(0,), (1,)], [1.0, 1.0])
    >>> dual = table_dual(Problem.of(W, "l2", "max"))
    >>> round(dual.bound, 4), dual.weights.round(3).tolist()
    (1.6408, [0.558, 0.442])
    """
    tables = problem.workload
    if problem.aim.groups is not None or not isinstance(tables, Marginals):
        return None
    used = np.flatnonzero(tables.weights)
    sets, scales = [tables.attribute_sets[i] for i in used], [tables.weights[i] for i in used]
    parts = table_components(tables.domain_sizes, sets, scales)
    energies = parts.energies
    ranks = products_over(parts.sets, np.asarray(tables.domain_sizes, dtype=np.float64) - 1.0)
    reached = np.flatnonzero(energies.sum(axis=0) > 0)
    energies, ranks = energies[:, reached], ranks[reached]
    weights = np.full(len(used), 1.0 / len(used))
    best, found = 0.0, weights
    for _ in range(MOST_STEPS):
        values = weights @ energies
        root = float(np.sqrt(values * ranks).sum())
        errors = root * (energies @ np.sqrt(ranks / values))
        if root**2 > best:
            best, found = root**2, weights
        if errors.max() <= best * (1.0 + TOLERANCE):
            break
        weights = np.maximum(weights * errors / root**2, np.finfo(float).tiny ** 0.5)
        weights = weights / weights.sum()
    every = np.zeros(len(tables.weights))
    every[used] = found
    return TableDual(every, best * (1.0 - MARGIN))
