"""Strategy families, and their registry: those that `select` knows, in a portfolio's order."""

from strategies.methods import (
    common_refinement,
    few_rows,
    free_entries,
    gaussian_optimal,
    kronecker_selections,
    ordered_cells,
    trees,
    weighted_rows,
)
from strategies.methods.family import Family, Search, identity
from strategies.methods.marginals import gaussian_unions, product_marginals
from strategies.methods.marginals.marginals import marginals as weighted_marginals
from strategies.methods.marginals.marginals import residual_marginals

__all__ = ["Family", "Search", "families"]

FAMILIES: tuple[Family, ...] = (
    gaussian_unions.weighted_kronecker(),
    gaussian_unions.oblique_residuals(),
    gaussian_unions.joint_tables(),
    identity(),
    ordered_cells.ordered_cells(),
    gaussian_optimal.leaves(),
    residual_marginals(),
    product_marginals.product_marginals(),
    kronecker_selections.kronecker_selections(),
    kronecker_selections.boxes(),
    gaussian_optimal.gaussian_optimal(),
    gaussian_optimal.path_optimal(),
    weighted_marginals(),
    weighted_rows.workload_itself(),
    common_refinement.common_refinement(),
    few_rows.row_space(),
    few_rows.p_identity(),
    weighted_rows.weighted_rows(),
    free_entries.free_entries(),
    trees.tree(),
    trees.levels(),
    trees.wavelet(),
    ordered_cells.prefix_factorisation(),
    ordered_cells.toeplitz(),
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
