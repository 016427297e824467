"""Arrays by what they hold: one name for each, everywhere."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Reals."""

Longs = NDArray[np.int64]
"""Counts, nodes and places."""

Ints = NDArray[np.int32]
"""Node and leaf numbers of forests, which are many."""

Codes = NDArray[np.int32]
"""Records as codes, (N, d), or classes, (N,)."""

Bools = NDArray[np.bool_]
"""Masks."""
