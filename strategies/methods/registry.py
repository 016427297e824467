"""The families that `select` knows, in the order in which a portfolio runs them."""

from strategies.methods.common_refinement import common_refinement
from strategies.methods.family import Family, identity
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
from strategies.methods.weighted_rows import weighted_rows, workload_itself

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
