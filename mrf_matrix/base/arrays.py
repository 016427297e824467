"""Arrays by what they hold: one name for each, everywhere."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Reals."""

Longs = NDArray[np.int64]  # counts, nodes and places

Ints = NDArray[np.int32]  # node and leaf numbers of forests, which are many

Codes = NDArray[np.int32]  # records as codes, (N, d), or classes, (N,)

Bools = NDArray[np.bool_]  # masks

AnyInts = NDArray[np.integer]  # integers of any width, as somebody gave them

Values = NDArray[Any]
"""Of a type that is known only when it runs: what records hold, numbers as somebody gave them."""

Words = NDArray[np.uint64]  # uniform random bits, 64 at a time

Seed = int | np.random.Generator | None  # what NumPy makes a generator of


def unmasked(name: str, values: object) -> object:
    """Return values as they are; refuse a masked array, whose hidden values would count.

    Raises TypeError.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array: what its mask hides would count as it is. Expected an "
            f"array without a mask; missing values have a code of their own where an attribute "
            f"says missing='category'."
        )
    return values
