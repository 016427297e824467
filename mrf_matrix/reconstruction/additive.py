"""The model in which a cell's count is a sum of one effect for each attribute's code."""

from collections.abc import Sequence

from mrf_matrix.domain import Domain
from strategies.operators import Marginals, Operator


def additive_model(
    domain: Domain | Sequence[int], attribute_sets: Sequence[Sequence[int]] | None = None
) -> Operator:
    """Return X with ``(X β)_cell`` the sum of the effects of the cell's codes.

    Parameters
    ----------
    domain : Domain or sequence of int
        The domain, or its attributes' sizes.
    attribute_sets : sequence of sequences of int, optional
        One table of effects for each set; by default one for each attribute.

    Returns
    -------
    Operator of shape (n, p)
        p is the number of cells of all tables. Sums over each table agree, so its columns are
        dependent where there are several: effects are not unique, answers are.

    Examples
    --------
    >>> additive_model([2, 2]).to_dense()
    array([[1., 0., 1., 0.],
           [1., 0., 0., 1.],
           [0., 1., 1., 0.],
           [0., 1., 0., 1.]])
    """
    sizes = domain.sizes if isinstance(domain, Domain) else tuple(domain)
    sets = [(i,) for i in range(len(sizes))] if attribute_sets is None else list(attribute_sets)
    return Marginals(sizes, sets, [1] * len(sets)).T
