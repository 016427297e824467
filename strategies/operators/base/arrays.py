"""Arrays by what they hold: one name for each, everywhere."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

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
