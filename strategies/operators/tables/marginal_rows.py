"""The rows of marginals one by one: each is a Kronecker product of masks."""

from collections.abc import Sequence
from math import prod

import numpy as np

from strategies.operators.base.memory import check_allocation
from strategies.operators.base.operator import Operator
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.row_scaled import RowScaled

MOST_PARTS = 2**20  # components of all rows together up to which marginals are asked row by row
MOST_BITS = 2**27  # bits of all rows' masks up to which they are


def marginal_rows(
    sizes: Sequence[int], attribute_sets: Sequence[Sequence[int]], weights: Sequence[float]
) -> Operator:
    """Return marginals as weighted rows of masks, for what has a rule for those.

    Row (S, cell) admits one code of each attribute of S and all codes of the others. It takes
    ``m * sum(n_i)`` bytes while it is built, a bit each afterwards.

    `sizes`: sizes of the attributes; `attribute_sets`: the attributes S of each marginal;
    `weights`: the weight of each marginal.

    Of shape (m, n).

    >>> marginal_rows((2, 2), [(0,)], [0.5]).to_dense()
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """
    cells = [prod(sizes[i] for i in chosen) for chosen in attribute_sets]
    m = sum(cells)
    check_allocation("masks of the marginals' rows", (m, sum(sizes)), 2)
    masks = [np.ones((m, size), dtype=bool) for size in sizes]
    first = 0
    for chosen, count in zip(attribute_sets, cells, strict=True):
        shape = tuple(sizes[i] for i in chosen)
        codes = np.unravel_index(np.arange(count), shape) if chosen else ()
        for i, code in zip(chosen, codes, strict=True):
            masks[i][first : first + count] = code[:, None] == np.arange(sizes[i])
        first += count
    return RowScaled(
        np.repeat(np.asarray(weights, np.float64), cells), RowKronecker.from_masks(masks)
    )


def split_cheaply(sizes: Sequence[int], attribute_sets: Sequence[Sequence[int]]) -> bool:
    """Tell whether all rows have few components, ``2**|S|`` each, and their masks few entries."""
    cells = [prod(sizes[i] for i in chosen) for chosen in attribute_sets]
    parts = sum(count << len(chosen) for chosen, count in zip(attribute_sets, cells, strict=True))
    return parts <= MOST_PARTS and sum(cells) * sum(sizes) <= MOST_BITS
