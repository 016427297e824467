"""Explicit matrices, dense or sparse, treated alike: as floats, as integers, as a shape."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from strategies.operators.base.arrays import Array


def densified(form: ArrayLike | sparse.sparray | sparse.spmatrix) -> Array:
    """Return an ndarray of floats from either explicit form."""
    explicit = form.toarray() if sparse.issparse(form) else form
    return np.asarray(explicit, dtype=np.float64)


def as_shape(rows: int, columns: int) -> tuple[int, int]:
    """Return a shape as exact Python integers."""
    return int(rows), int(columns)
