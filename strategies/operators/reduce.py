"""A workload seen over groups of cells on which it is constant."""

import numpy as np

from strategies.operators.base.operator import Operator
from strategies.operators.base.pseudo_inverse import check_contained
from strategies.operators.convert import as_operator
from strategies.operators.grouping import Grouping
from strategies.operators.sparse import Sparse


def over_groups(workload: Operator, grouping: Grouping) -> Operator:
    """Return W' with ``W = W' G``, one column a group.

    Parameters
    ----------
    workload : Operator of shape (q, n)
    grouping : Grouping of shape (g, n)

    Raises
    ------
    RowSpaceError
        If the workload tells cells of one group apart, so that ``W G⁺ G`` is not W.
    """
    if workload.shape[1] != grouping.shape[1]:
        raise ValueError(
            f"workload has {workload.shape[1]} columns: expected the {grouping.shape[1]} cells "
            f"of the grouping."
        )
    if grouping.shape[0] == grouping.shape[1]:
        order = np.argsort(grouping.labels)
        return Sparse(workload.columns(order))
    form = workload.compact()
    columns = form[:, grouping.representatives]
    difference = form - columns[:, grouping.labels]
    outside = float((difference * difference).sum())
    check_contained(outside, float((form * form).sum()))
    return as_operator(columns, "workload")
