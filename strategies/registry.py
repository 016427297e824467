"""The families that `select` knows, in the order in which a portfolio runs them."""

from reprlib import repr as short

from strategies import (
    common_refinement,
    gaussian_optimal,
    identity,
    kronecker_p_identity,
    marginals,
    p_identity,
    polished,
    row_space,
    tree_hierarchy,
    workload_itself,
)
from strategies.family import Family
from strategies.problem import Problem

FAMILIES: tuple[Family, ...] = (
    identity.FAMILY,
    gaussian_optimal.FAMILY,
    workload_itself.FAMILY,
    marginals.FAMILY,
    kronecker_p_identity.FAMILY,
    common_refinement.FAMILY,
    tree_hierarchy.FAMILY,
    row_space.FAMILY,
    p_identity.FAMILY,
    polished.FAMILY,
)
"""Cheap ones first, so that the searches that follow have starts to improve on."""

SHARES: dict[str, float] = {
    "identity": 0.0,
    "gaussian_optimal": 0.5,
    "workload_itself": 0.5,
    "kronecker_p_identity": 0.5,
    "tree_hierarchy": 0.3,
    "row_space": 1.5,
    "p_identity": 4.0,
}
"""Parts of the work relative to the others' 1."""


SELDOM: dict[str, int] = {
    "gaussian_optimal": 500,
    "workload_itself": 1000,
    "tree_hierarchy": 200,
}
"""Families that seldom win for Laplace noise, and the rows or cells up to which they are tried."""


def families() -> tuple[str, ...]:
    """Return the names that ``select(method=...)`` accepts beside "auto".

    Examples
    --------
    >>> "identity" in families()
    True
    """
    return tuple(family.name for family in FAMILIES)


def family_named(name: str) -> Family:
    """Return a family by name, or refuse and list the names."""
    for family in FAMILIES:
        if family.name == name:
            return family
    raise ValueError(f"method={short(name)}: expected 'auto' or one of {', '.join(families())}.")


def portfolio_for(problem: Problem) -> tuple[Family, ...]:
    """Return the families that serve a problem and are worth their time on it."""
    merging = problem.merging
    rank = 0
    if merging is not None and problem.norm == "l1":
        rank = min(problem.workload.shape[0], merging.n_groups)
    worth = (family for family in FAMILIES if rank <= SELDOM.get(family.name, rank))
    return tuple(family for family in worth if family.serves(problem))


def shares_of(families: tuple[Family, ...]) -> tuple[float, ...]:
    """Return each family's part of the work, in all 1; a family alone gets everything."""
    shares = [SHARES.get(family.name, 1.0) for family in families]
    total = sum(shares)
    return tuple(share / total for share in shares) if total > 0 else (1.0,) * len(families)
