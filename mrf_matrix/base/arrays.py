"""Names for the types of arrays."""

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
"""Arrays of a type known only at run time: values of records, numbers that a caller gave."""

Words = NDArray[np.uint64]  # uniform random bits, 64 at a time

Seed = int | np.random.Generator | None  # what NumPy makes a generator of
