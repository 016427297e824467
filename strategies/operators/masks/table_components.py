"""One row of every marginal table, split into the components of its attribute sets.

The rows of a table differ in which codes they admit, not in how many: all have the same energies
``||w E_U||² / n = θ² Π_{U} p_i (1 - p_i) Π_{S - U} p_i²`` with ``p_i = 1/n_i``, for U inside S.
"""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from strategies.operators.base.memory import check_allocation
from strategies.operators.masks.components import Components
from strategies.operators.masks.distinct_rows import unique_rows


def table_components(
    sizes: Sequence[int], attribute_sets: Sequence[Sequence[int]], weights: Sequence[float]
) -> Components:
    """Return the energies of one row of every weighted marginal table.

    Parameters
    ----------
    sizes : sequence of int
        Sizes of the attributes.
    attribute_sets : sequence of sequences of int
        The attributes S of each table.
    weights : sequence of float

    Returns
    -------
    Components
        With one row a table.

    Examples
    --------
    >>> table_components((2, 4), [(1,)], [1.0]).energies.toarray().tolist()
    [[0.0625, 0.1875]]
    """
    total = sum(1 << len(chosen) for chosen in attribute_sets)
    check_allocation("components of the marginals", (total, 4 * len(sizes) + 16), 1)
    tables, values, row = [], [], []
    for number, (chosen, weight) in enumerate(zip(attribute_sets, weights, strict=True)):
        subsets = np.arange(1 << len(chosen))[:, None] >> np.arange(len(chosen)) & 1
        shares = np.array([1.0 / sizes[i] for i in chosen])
        factors = np.where(subsets == 1, shares * (1 - shares), shares**2)
        values.append(float(weight) ** 2 * factors.prod(axis=1))
        sets = np.zeros((len(subsets), len(sizes)), dtype=bool)
        sets[:, list(chosen)] = subsets == 1
        tables.append(sets)
        row.append(np.full(len(subsets), number))
    stacked = np.concatenate(tables)
    first, column = unique_rows(stacked)
    entries = (np.concatenate(values), (np.concatenate(row), column))
    energies = sparse.csr_array(entries, shape=(len(attribute_sets), len(first)))
    return Components(stacked[first], energies)
