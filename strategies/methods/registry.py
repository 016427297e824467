"""The families that `select` knows, in the order in which a portfolio runs them."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from reprlib import repr as short

from strategies.methods.common_refinement import common_refinement
from strategies.methods.family import Family
from strategies.methods.few_rows import p_identity, row_space
from strategies.methods.free_entries import free_entries
from strategies.methods.gaussian_optimal import gaussian_optimal, leaves, path_optimal
from strategies.methods.kronecker_selections import kronecker_selections
from strategies.methods.marginals.gaussian_unions import (
    joint_tables,
    oblique_residuals,
    weighted_kronecker,
)
from strategies.methods.marginals.marginals import marginals, residual_marginals
from strategies.methods.marginals.product_marginals import product_marginals
from strategies.methods.ordered_cells import boxes, ordered_cells
from strategies.methods.streams import prefix_factorisation, toeplitz
from strategies.methods.trees import levels, tree, wavelet
from strategies.methods.weighted_rows import weighted_rows
from strategies.methods.workload_itself import identity, workload_itself
from strategies.problem.problem import Problem

FAMILIES: tuple[Family, ...] = (
    weighted_kronecker(),
    oblique_residuals(),
    joint_tables(),
    identity(),
    ordered_cells(),
    leaves(),
    residual_marginals(),
    product_marginals(),
    kronecker_selections(),
    boxes(),
    gaussian_optimal(),
    path_optimal(),
    marginals(),
    workload_itself(),
    common_refinement(),
    row_space(),
    p_identity(),
    weighted_rows(),
    free_entries(),
    tree(),
    levels(),
    wavelet(),
    prefix_factorisation(),
    toeplitz(),
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
        rated = (one for one in FAMILIES if problem.norm in one.norms)
        return tuple(one for one in rated if one.worthwhile(problem) and one.serves(problem))
    given: list[object] = [method]
    if isinstance(method, Sequence | Mapping) and not isinstance(method, str):
        given = list(method)
    asked = tuple(requested_family(one) for one in given)
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
    known = {family.name: family for family in FAMILIES}
    if isinstance(method, Family):
        if known.get(method.name, method) is not method:
            raise ValueError(
                f"method={method.name!r} is the name of a family of this library: expected a "
                f"name of its own."
            )
        return method
    if not isinstance(method, str):
        is_matrix = getattr(method, "ndim", 0) == 2
        hint = " For a given matrix call strategies.evaluate(W, matrix)." if is_matrix else ""
        raise TypeError(
            f"method={short(method)}: expected 'auto', the name of a family, a Family, or a "
            f"sequence of names and families.{hint}"
        )
    if method not in known:
        nearest = get_close_matches(method, known, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(
            f"method={short(method)}: expected 'auto' or one of {', '.join(sorted(known))}.{hint}"
        )
    return known[method]


def shares_of(families: Sequence[Family]) -> tuple[float, ...]:
    """Return each family's part of the work, in all 1; a family alone gets everything."""
    total = sum(one.share for one in families)
    if not total > 0:
        return (1.0,) * len(families)
    return tuple(one.share / total for one in families)
