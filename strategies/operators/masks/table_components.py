"""One row of every marginal table, split into the components of its attribute sets.

The rows of a table differ in which codes they admit, not in how many: all have the same energies
``||w E_U||² / n = θ² Π_{U} p_i (1 - p_i) Π_{S - U} p_i²`` with ``p_i = 1/n_i``, for U inside S.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from strategies.operators.base.memory import check_allocation
from strategies.operators.masks.components import Components, MaskRows, components


def table_components(
    sizes: Sequence[int], attribute_sets: Sequence[Sequence[int]], weights: Sequence[float]
) -> Components:
    """Return the energies of one row of every weighted marginal table.

    `sizes`: sizes of the attributes; `attribute_sets`: the attributes S of each table.

    One row a table.

    >>> table_components((2, 4), [(1,)], [1.0]).energies.toarray().tolist()
    [[0.0625, 0.1875]]
    """
    check_allocation("masks of the marginals", (len(attribute_sets), sum(sizes)), 1)
    sets = np.zeros((len(attribute_sets), len(sizes)), dtype=bool)
    for row, chosen in zip(sets, attribute_sets, strict=True):
        row[list(chosen)] = True
    masks = [np.ones((len(sets), size), dtype=bool) for size in sizes]
    for mask, fixed in zip(masks, sets.T, strict=True):
        mask[fixed, 1:] = False  # its first code, for any
    mix = sparse.csr_array(sparse.diags_array(np.asarray(weights, dtype=np.float64)))
    return components(MaskRows(tuple(masks), mix))
