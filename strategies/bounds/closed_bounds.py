"""Bounds of closed form, for both norms and at any size: from single entries, and for tables.

*No row can be answered better than its largest cell.* For a strategy of sensitivity Δ,
``Δ² ||w A⁺||² >= max_j w_j²`` for every row w: with y on cell j alone the bound of
`strategies.bounds.dual_ascent` is that entry's square. Hence no loss is below ``Σ_i max_j W_ij²``.
For the batch prediction ``W = Q Tᵀ T`` with Gaussian noise it is the optimum: A = T reaches it
(`strategies.methods.gaussian_optimal`).

*The largest error of weighted marginal tables.* All rows of a table have one error. With weights μ
of sum 1 on the tables and ``e_tU`` the energy of one row of table t on the component of U, the
total of weighted errors has the closed optimum

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
from scipy import sparse

from strategies.bounds.dual_ascent import MARGIN
from strategies.operators import Array, Gram, Marginals, RowKronecker, fits
from strategies.operators.base.validation import densified
from strategies.operators.masks.components import MaskRows, mask_rows, table_components
from strategies.operators.masks.energies import products_over
from strategies.problem.problem import Problem

ROUNDING = 1e-12  # share taken off for the rounding of a sum of squares
MOST_ENTRIES = 5 * 10**7  # entries of an explicit workload that are looked through


def row_maximum_bound(problem: Problem) -> float:
    """Return ``Σ_i max_j W_ij²`` or a number below it, 0 where no entry is at hand."""
    if isinstance(problem.workload, Gram):
        return 0.0
    if isinstance(problem.workload, RowKronecker):  # 0/1 rows: 1, or 0 where a mask is empty
        return float((problem.workload.widths > 0).all(axis=1).sum()) * (1 - ROUNDING)
    merged, rows = problem.merged_workload, mask_rows(problem.workload)
    zeros_and_ones = rows is not None and rows.mix is None
    if (
        not zeros_and_ones
        and merged is not None
        and merged.entries <= MOST_ENTRIES
        and fits((merged.entries,), 16)
    ):
        form = abs(merged.compact())
        largest = densified(form.max(axis=1))
        return float((largest**2).sum()) * (1 - ROUNDING)
    if rows is None:
        return 0.0
    return float((met_entries(rows) ** 2).sum()) * (1 - ROUNDING)


def met_entries(rows: MaskRows) -> Array:
    """Return an entry of every row, the largest where all masks of a row meet and add, (q,).

    A cell that lies in all masks of a row has the sum of their coefficients. Where there is none,
    or where coefficients are negative, the entry is left at 0.
    """
    if rows.mix is None:  # 0/1 rows: 1, or 0 where a mask is empty
        return np.asarray(np.all([mask.any(axis=1) for mask in rows.masks], axis=0), np.float64)
    mix = sparse.csr_array(rows.mix)
    used = sparse.csr_array((np.ones_like(mix.data), mix.indices, mix.indptr), shape=mix.shape)
    counts = np.diff(mix.indptr)
    meets = counts > 0
    for mask in rows.masks:
        meets &= np.asarray((used @ mask.astype(np.float64)).max(axis=1)).ravel() == counts
    signs = np.asarray((mix < 0).sum(axis=1)).ravel() == 0
    return np.where(meets & signs, np.asarray(mix.sum(axis=1)).ravel(), 0.0)


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
