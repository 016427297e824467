"""Branch tables of grown trees: thresholds, and one code against the rest."""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Ints
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import branch_pool


def code_pool(sizes: Sequence[int]) -> tuple[Ints, int]:
    """Return `branch_pool(sizes)` with tables "code c goes right" behind it, and their origin.

    The table of code c starts at ``origin - c``: a window over ``zeros (w) | 1 | zeros (w)``.

    >>> pool, origin = code_pool([3])
    >>> pool[origin - 1 : origin + 2]
    array([0, 1, 0], dtype=int32)
    """
    width = max(sizes)
    pool = branch_pool(sizes)
    single = np.zeros(2 * width + 1, dtype=np.int32)
    single[width] = 1
    return np.concatenate([pool, single]), len(pool) + width


def attribute_indices(domain: Domain, attributes: Sequence[str | int], argument: str) -> list[int]:
    """Return the indices of attributes given by name or index.

    Raises ValueError if one is unknown; TypeError if a single name is given where a sequence is
    expected.
    """
    if isinstance(attributes, str):
        raise TypeError(f"{argument}={attributes!r}: expected a sequence, [{attributes!r}].")
    names = list(domain.names)
    index = []
    for given in attributes:
        if isinstance(given, str) and given in names:
            index.append(names.index(given))
        elif not isinstance(given, str) and 0 <= given < len(names):
            index.append(int(given))
        else:
            raise ValueError(
                f"{argument} holds {given!r}: expected an attribute's name "
                f"({', '.join(map(repr, names[:8]))}{', ...' if len(names) > 8 else ''}) or an "
                f"index from 0 to {len(names) - 1}."
            )
    return index
