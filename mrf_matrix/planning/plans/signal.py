"""What stands behind a plan's answers: public numbers of records, and the noise of votes."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.planning.plans.workloads import leaf_shares, vote_shares_of, vote_workload

if TYPE_CHECKING:
    from mrf_matrix.planning.plans.plan import Plan

Array = NDArray[np.float64]


def records_behind(plan: "Plan", leaves: bool) -> Array:
    """Return the records of each leaf, or of each query's votes, if all cells are as likely.

    Raises
    ------
    ValueError
        If the plan does not know the public number of records.
    """
    if plan.n_records is None:
        raise ValueError(
            "n_records is not known: expected plan(..., n_records=N), the public number of records."
        )
    if plan.mode == "subsample" and plan.voting == "hard":
        trees = sum(part.ensemble.forest.n_trees for part in plan.parts)
        return np.full(len(plan.queries), float(trees))
    shares = []
    for part in plan.parts:
        one = leaf_shares(part.ensemble) if leaves else None
        one = vote_shares_of(part.ensemble, plan.queries) if one is None else one
        apart = plan.mode == "subsample" or plan.allocation == "disjoint"
        shares.append(one / (part.ensemble.forest.n_trees if apart else 1))
    stacked = np.concatenate(shares) if leaves else np.sum(shares, axis=0)
    return np.asarray(plan.n_records * stacked)


def vote_variances(plan: "Plan") -> Array:
    """Return the expected squared error of every query's weight votes in one class, (b,).

    Raises
    ------
    ValueError
        If votes multiply.
    """
    if plan.mode == "posterior":
        raise ValueError(
            "mode='posterior' votes by product under a model, and such votes have no expected "
            "error or flip probability: expected answers (leaves), or another mode. The "
            "objective 'accuracy' judges it."
        )
    if plan.mode != "training":
        return plan.row_variances
    total = np.zeros(len(plan.queries))
    for part in plan.parts:
        if part.strategy is None:  # every leaf has its own noise
            total += part.row_variances[0] * part.ensemble.forest.n_trees
        else:
            total += part.variances_of(vote_workload("training", part.ensemble, plan.queries))
    return total
