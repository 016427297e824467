"""The leaves that test records visit: the optimum of batch prediction for Gaussian noise.

For ``W = Q Tᵀ T`` the strategy A = T has ``W A⁺ = Q Tᵀ T T⁺``, so every row's error is at most
``||q Tᵀ||²``, the number of trees τ, and its squared column norms are at most τ. No row can have
less than ``max_j W_ij² = τ²`` (`strategies.bounds.closed_bounds`): T is optimal for every query at
once. Leaves that no query visits are left out, and a path in c trees is one row of weight √c.
"""

import numpy as np
from scipy import sparse

from strategies.methods.family import Family, Search, evaluation_seconds, factory
from strategies.operators import Array, Operator, Product, RowKronecker, RowScaled, Scaled
from strategies.operators.masks.components import mask_rows
from strategies.problem.problem import Problem

MOST_LEAVES = 3000
"""Distinct visited leaves up to which the errors are computed from their inner products."""


EQUAL = 1e-12  # difference of weights that is rounding


def combined_paths(workload: Operator) -> RowKronecker | None:
    """Return the paths that a workload's rows combine, None where they combine none."""
    combined = False
    while isinstance(workload, Scaled | RowScaled | Product):
        combined = combined or isinstance(workload, Product)
        workload = workload.right if isinstance(workload, Product) else workload.inner
    return workload if combined and isinstance(workload, RowKronecker) else None


def visited_leaves(problem: Problem, search: Search) -> Operator:
    """Return the visited leaves, each with the root of its number of trees as weight.

    Raises ValueError if the workload's rows are no combinations of paths.
    """
    paths, rows = combined_paths(problem.workload), mask_rows(problem.workload)
    if paths is None or rows is None or rows.mix is None:
        raise ValueError(
            f"workload {problem.workload!r} combines no paths: expected Q Tᵀ T as a Product."
        )
    trees = multiplicities(sparse.csr_array(abs(rows.mix)))
    visited = np.flatnonzero(trees)
    kept = paths.take_rows(visited)
    weights = np.sqrt(trees[visited] / trees[visited].min())
    return kept if np.ptp(weights) < EQUAL else RowScaled(weights, kept)


def multiplicities(mix: sparse.csr_array) -> Array:
    """Return every path's share of the trees, zero where no row uses it, shape (o,).

    A record is in one leaf of every tree, so each row sums to its own scale times τ.
    """
    sums = np.asarray(mix.sum(axis=1)).ravel()
    scales = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    shares = sparse.csc_array(sparse.diags_array(scales) @ mix)
    return np.asarray(shares.max(axis=0).todense(), dtype=np.float64).ravel()


def applies(problem: Problem) -> bool:
    """Tell whether the rows combine paths, few enough for their inner products."""
    paths = combined_paths(problem.workload)
    return paths is not None and paths.shape[0] <= MOST_LEAVES


def least_seconds(problem: Problem) -> float:
    """Return the seconds of one evaluation of all leaves."""
    paths = combined_paths(problem.workload)
    return 0.0 if paths is None else evaluation_seconds(problem, paths.shape[0])


@factory
def leaves() -> Family:
    """Measure the leaves that test records visit: batch prediction, Gaussian noise."""
    return Family(
        "leaves",
        "domain",
        frozenset({"l2"}),
        applies,
        visited_leaves,
        share=0.0,
        least=least_seconds,
    )
