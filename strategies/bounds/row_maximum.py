"""A bound from single entries: no row can be answered better than its largest cell.

For a strategy of sensitivity Δ, ``Δ² ||w A⁺||² >= max_j w_j²`` for every row w: with y on cell j
alone the bound of `strategies.bounds.dual_weights` is that entry's square. Hence no loss is below
``Σ_i max_j W_ij²``, for both norms, at any size. For the batch prediction ``W = Q Tᵀ T`` with
Gaussian noise it is the optimum: A = T reaches it (`strategies.methods.paths.leaves`).
"""

import numpy as np
from scipy import sparse

from strategies.operators import Array, Gram, RowKronecker, fits
from strategies.operators.base.explicit_forms import densified
from strategies.operators.masks.components import MaskRows, mask_rows
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
