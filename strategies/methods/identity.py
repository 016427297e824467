"""The Identity: measure every merged cell once.

With G the groups of equal columns of W, the strategy is A = G: sensitivity 1 in both norms, and
loss ``||W'||_F²`` for the workload W' over the groups. It is a local minimum of the L1
objective wherever ``|H_ij| <= min(H_ii, H_jj)`` for ``H = W'ᵀW'``, which holds for every 0/1
workload, and never above the Identity on the cells themselves.
"""

from strategies.methods.family import BOTH_NORMS, BOTH_OBJECTIVES, Family, Search
from strategies.operators import Identity, Operator
from strategies.problem.problem import Problem


def identity(problem: Problem, search: Search) -> Operator:
    """Return the groups of merged cells, or the identity where n is too large to enumerate."""
    if problem.merging is None:
        return Identity(problem.workload.shape[1], problem.workload.sizes)
    return problem.merging.invert(Identity(problem.merging.n_groups))


FAMILY = Family(
    "identity",
    "domain",
    BOTH_NORMS,
    lambda problem: True,
    identity,
    share=0.0,
    objectives=BOTH_OBJECTIVES,
)
