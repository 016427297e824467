"""The rows of marginals one by one: each is a Kronecker product of masks."""

from typing import TYPE_CHECKING

import numpy as np

from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Operator
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.row_scaled import RowScaled

if TYPE_CHECKING:
    from strategies.operators.marginals import Marginals

MOST_PARTS = 2**20
"""Components of all rows together up to which marginals are asked row by row."""


def marginal_rows(marginals: "Marginals") -> Operator:
    """Return the same matrix as weighted rows of masks, for what has a rule for those.

    Row (S, cell) admits one code of each attribute of S and all codes of the others. It takes
    ``m * sum(n_i)`` bytes while it is built, a bit each afterwards.

    Parameters
    ----------
    marginals : Marginals of shape (m, n)

    Returns
    -------
    RowScaled of shape (m, n)

    Examples
    --------
    >>> from strategies.operators import Marginals
    >>> marginal_rows(Marginals((2, 2), [(0,)], [0.5])).to_dense()
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """
    sizes, m = marginals.domain_sizes, marginals.shape[0]
    check_allocation("masks of the marginals' rows", (m, sum(sizes)), 2)
    masks = [np.ones((m, size), dtype=bool) for size in sizes]
    first = 0
    for chosen, count in zip(marginals.attribute_sets, marginals.cells, strict=True):
        shape = tuple(sizes[i] for i in chosen)
        codes = np.unravel_index(np.arange(count), shape) if chosen else ()
        for i, code in zip(chosen, codes, strict=True):
            masks[i][first : first + count] = code[:, None] == np.arange(sizes[i])
        first += count
    weights = np.repeat(np.asarray(marginals.weights, dtype=np.float64), marginals.cells)
    return RowScaled(weights, RowKronecker.from_masks(masks))


def rows_are_cheaper(marginals: "Marginals") -> bool:
    """Tell whether the rows' masks take less than the entries over the domain."""
    m, n = marginals.shape
    return m * sum(marginals.domain_sizes) <= n * len(marginals.weights)


def split_cheaply(marginals: "Marginals") -> bool:
    """Tell whether all rows have few components, ``2**|S|`` each, and their masks few entries."""
    pairs = zip(marginals.attribute_sets, marginals.cells, strict=True)
    parts = sum(count << len(chosen) for chosen, count in pairs)
    return parts <= MOST_PARTS and marginals.shape[0] * sum(marginals.domain_sizes) <= 2**27
