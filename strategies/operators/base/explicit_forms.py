"""Explicit matrices, dense or sparse, treated alike: as floats, as integers, as a shape."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from strategies.operators.base.arrays import Array
from strategies.operators.base.validation import plain_array


def densified(form: ArrayLike | sparse.sparray | sparse.spmatrix) -> Array:
    """Return an ndarray of floats from either explicit form."""
    if sparse.issparse(form):
        return np.asarray(form.toarray(), dtype=np.float64)
    return np.asarray(plain_array("matrix", form), dtype=np.float64)


def as_shape(rows: int, columns: int) -> tuple[int, int]:
    """Return a shape as exact Python integers."""
    return int(rows), int(columns)
