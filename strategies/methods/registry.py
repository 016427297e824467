"""The families that `select` knows, in the order in which a portfolio runs them."""

from collections.abc import Mapping, Sequence
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
    tree_hierarchy,
    workload_itself,
)
from strategies.methods.family import Family
from strategies.methods.marginals import marginals, oblique_residuals, residual_marginals
from strategies.methods.ordered import ordered_cells, trees
from strategies.methods.paths import leaves, path_optimal
from strategies.methods.worst import weighted_rows
from strategies.problem.problem import Problem

FAMILIES: tuple[Family, ...] = (
    oblique_residuals.FAMILY,
    plain.identity(),
    ordered_cells.FAMILY,
    leaves.FAMILY,
    residual_marginals.FAMILY,
    kronecker_selections.FAMILY,
    gaussian_optimal.FAMILY,
    path_optimal.FAMILY,
    marginals.FAMILY,
    workload_itself.FAMILY,
    kronecker_p_identity.FAMILY,
    common_refinement.FAMILY,
    tree_hierarchy.FAMILY,
    row_space.FAMILY,
    p_identity.FAMILY,
    weighted_rows.FAMILY,
    free_entries.FAMILY,
    trees.tree(),
    trees.levels(),
    trees.wavelet(),
)
"""Cheap ones first, so that the searches that follow have starts to improve on."""


class Families(dict[str, str]):
    """Names of families and what each is for; prints a line for each."""

    def __repr__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:{width}}  {purpose}" for name, purpose in self.items())


def families() -> Families:
    """Return the names that ``select(method=...)`` accepts, each with what it is for.

    Each is a function of this package as well, which takes the family's options:
    ``strategies.p_identity(p=8)``.

    Examples
    --------
    >>> "identity" in families()
    True
    >>> families()["wavelet"]
    'Measure the Haar wavelet of the cells in their order.'
    """
    return Families((family.name, family.purpose) for family in FAMILIES)


def requested_families(
    method: str | Family | Sequence[str | Family], problem: Problem
) -> tuple[Family, ...]:
    """Return the families that a user's ``method=`` asks for and that serve a problem.

    Raises TypeError if something is neither a name nor a `Family`; ValueError if a name is unknown
    or stands twice, or no family asked for can serve the workload.
    """
    if isinstance(method, str) and method == "auto":
        return tuple(f for f in FAMILIES if f.serves(problem) and f.worthwhile(problem))
    several = [method] if isinstance(method, str | Family) else method
    if not isinstance(several, Sequence | Mapping):
        raise TypeError(
            f"method={short(method)}: expected 'auto', the name of a family, a Family, or a "
            f"sequence of names and families."
        )
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


def shares_of(families: Sequence[Family]) -> tuple[float, ...]:
    """Return each family's part of the work, in all 1; a family alone gets everything."""
    total = sum(one.share for one in families)
    if not total > 0:
        return (1.0,) * len(families)
    return tuple(one.share / total for one in families)
