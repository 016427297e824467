"""Private trees that could not be held are refused before budget is spent on them."""

from mrf_matrix.domain import Domain
from mrf_matrix.forests import PrivateMultinomialTrees
from strategies.operators import check_allocation


def check_growth_memory(trees: PrivateMultinomialTrees, domain: Domain) -> None:
    """Refuse trees that could outgrow the memory cap, by public numbers alone.

    Parameters
    ----------
    trees : PrivateMultinomialTrees
    domain : Domain

    Raises
    ------
    ValueError
        If the forest could have too many nodes, or (a `MemoryCapError`) one of its largest arrays
        could exceed the cap: whatever the records are, and however many.
    """
    sizes = trees.sizes(domain)
    sizes.check()
    for what, shape, itemsize in sizes.arrays:
        check_allocation(what, shape, itemsize)
