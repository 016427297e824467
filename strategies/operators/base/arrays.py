"""Arrays by what they hold: one name for each, everywhere."""

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators.base.memory import check_allocation

Array: TypeAlias = NDArray[np.float64]
"""Reals."""

Longs: TypeAlias = NDArray[np.int64]  # counts, labels and places

Integers: TypeAlias = NDArray[np.integer]
"""Whole numbers of any width, as users give codes and cells."""

Bools: TypeAlias = NDArray[np.bool_]  # Masks

Numbers: TypeAlias = NDArray[np.number | np.bool_]  # anything that can be added up

Real: TypeAlias = Array | Longs  # checked entries: integers stay exact

Form: TypeAlias = Real | sparse.csr_array | sparse.csc_array
"""A matrix given entry by entry, dense or sparse."""


def as_columns(values: Array) -> Array:
    """Return a vector as one column, and columns, none of them included, as they are."""
    return values[:, None] if values.ndim == 1 else values


Entries = TypeVar("Entries", Array, Real)


def cut(rows: Entries, counts: Iterable[int]) -> list[Entries]:
    """Cut an array with one entry a row into parts of so many rows."""
    return [rows[start:stop] for start, stop in pairwise(accumulate(counts, initial=0))]


def over_cells(
    sizes: Sequence[int], tables: Iterable[tuple[Sequence[int], Array]], k: int
) -> Array:
    """Return the sum of tables' values (cells, k) at every cell of the domain, (n, k)."""
    check_allocation("a vector over the cells", (prod(sizes), max(k, 1)))
    result = np.zeros((*sizes, k))
    for chosen, table in tables:
        result += table.reshape(*(size if i in chosen else 1 for i, size in enumerate(sizes)), k)
    return result.reshape(prod(sizes), k)
