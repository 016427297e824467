"""The families that `select` knows, in the order in which a portfolio runs them."""

from collections.abc import Sequence
from reprlib import repr as short

from strategies.methods import (
    common_refinement,
    free_entries,
    gaussian_optimal,
    kronecker_p_identity,
    kronecker_selections,
    p_identity,
    plain,
    row_space,
    weighted_rows,
    workload_itself,
)
from strategies.methods.family import Family
from strategies.methods.marginals import (
    joint_tables,
    marginals,
    oblique_residuals,
    product_marginals,
    residual_marginals,
)
from strategies.methods.ordered import boxes, ordered_cells, streams
from strategies.methods.paths import leaves, path_optimal
from strategies.operators import Norm
from strategies.problem.problem import Problem

FAMILIES: tuple[Family, ...] = (
    oblique_residuals.FAMILY,
    joint_tables.FAMILY,
    plain.IDENTITY,
    ordered_cells.FAMILY,
    leaves.FAMILY,
    residual_marginals.FAMILY,
    product_marginals.FAMILY,
    kronecker_selections.FAMILY,
    boxes.FAMILY,
    gaussian_optimal.FAMILY,
    path_optimal.FAMILY,
    marginals.FAMILY,
    workload_itself.FAMILY,
    kronecker_p_identity.FAMILY,
    common_refinement.FAMILY,
    row_space.FAMILY,
    p_identity.FAMILY,
    weighted_rows.FAMILY,
    free_entries.FAMILY,
    streams.PREFIX_FACTORISATION,
    streams.TOEPLITZ,
)
"""Cheap ones first, so that the searches that follow have starts to improve on."""
ON_REQUEST = frozenset({"prefix_factorisation", "toeplitz"})
"""Forms for a purpose, which "auto" leaves out: their losses are at best those of the others."""


def families() -> tuple[str, ...]:
    """Return the names that ``select(method=...)`` accepts beside "auto" and a `Family`.

    Examples
    --------
    >>> "identity" in families()
    True
    """
    return tuple(family.name for family in FAMILIES)


def requested_families(
    method: str | Family | Sequence[str | Family], problem: Problem
) -> tuple[Family, ...]:
    """Return the families that a user's ``method=`` asks for and that serve a problem.

    Raises TypeError if something is neither a name nor a `Family`; ValueError if a name is unknown
    or stands twice, or no family asked for can serve the workload.
    """
    if isinstance(method, str) and method == "auto":
        usual = (one for one in FAMILIES if one.name not in ON_REQUEST)
        return tuple(f for f in usual if f.is_worthwhile(problem) and f.serves(problem))
    several = method if isinstance(method, Sequence) and not isinstance(method, str) else [method]
    asked = tuple(requested_family(one) for one in several)
    names = [family.name for family in asked]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"method={names!r}: expected at least one family, each name once.")
    able = tuple(family for family in asked if family.serves(problem))
    if not able:
        raise ValueError(
            f"method={', '.join(names)!r} cannot serve a workload of shape "
            f"{problem.workload.shape} for norm={problem.norm!r}: expected method='auto' or "
            f"another family."
        )
    return able


def requested_family(method: object) -> Family:
    """Return a family by name, or a `Family` itself; refuse what is neither."""
    known = {family.name: family for family in FAMILIES}
    if isinstance(method, Family):
        if known.get(method.name, method) is not method:
            raise ValueError(
                f"method={method.name!r} is the name of a family of this library: expected a "
                f"name of its own."
            )
        return method
    if not isinstance(method, str):
        raise TypeError(
            f"method={short(method)}: expected 'auto', the name of a family, a Family, or a "
            f"sequence of names and families."
        )
    if method not in known:
        raise ValueError(f"method={short(method)}: expected 'auto' or one of {', '.join(known)}.")
    return known[method]


def shares_of(families: Sequence[Family], norm: Norm = "l1") -> tuple[float, ...]:
    """Return each family's part of the work, in all 1; a family alone gets everything."""
    shares = [
        one.share if norm == "l1" or one.share_for_l2 is None else one.share_for_l2
        for one in families
    ]
    total = sum(shares)
    if not total > 0:
        return (1.0,) * len(families)
    return tuple(share / total for share in shares)
