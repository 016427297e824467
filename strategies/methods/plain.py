"""What needs no search: the Identity, and the workload measured as it is.

The Identity measures every merged cell once.

With G the groups of equal columns of W, the strategy is A = G: sensitivity 1 in both norms, and
loss ``||W'||_F²`` for the workload W' over the groups. It is a local minimum of the L1
objective wherever ``|H_ij| <= min(H_ii, H_jj)`` for ``H = W'ᵀW'``, which holds for every 0/1
workload, and never above the Identity on the cells themselves.
"""

from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    Family,
    Search,
    anywhere,
    factory,
)
from strategies.operators import Gram, Identity, Operator
from strategies.problem.problem import Problem


def merged_cells(problem: Problem, search: Search) -> Operator:
    """Return the groups of merged cells, or the identity where n is too large to enumerate."""
    if problem.merging is None:
        return Identity(problem.workload.shape[1], problem.workload.sizes)
    return problem.merging.invert(Identity(problem.merging.n_groups))


@factory
def identity() -> Family:
    """Measure every merged cell once: serves everything, at no cost."""
    return Family(
        "identity",
        "domain",
        BOTH_NORMS,
        anywhere,
        merged_cells,
        share=0.0,
        objectives=BOTH_OBJECTIVES,
    )


OWN_ROWS = Family(
    "workload_itself",
    "domain",
    BOTH_NORMS,
    anywhere,
    lambda problem, _: problem.workload,
    objectives=BOTH_OBJECTIVES,
)
"""The workload measured as it is: what every result has to be as good as."""


def own_loss(problem: Problem) -> float:
    """Return the loss of noise on each row of the workload itself, ``||W||² · rows``.

    For the worst row or group, the rows of the largest group.
    """
    workload = problem.workload
    if isinstance(workload, Gram):  # its rows are not known
        return float("inf")
    return problem.own_sensitivity**2 * float(problem.aim.most_rows(workload.shape[0]))
