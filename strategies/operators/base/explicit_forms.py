"""Explicit matrices, dense or CSR, treated alike: as floats, as a Gram, as a shape."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def gram(form: Any) -> Any:
    """Return ``X.T @ X`` of an ndarray or a CSR array, as floats."""
    form = form.astype(np.float64)
    return form.T @ form


def densified(form: Any) -> Array:
    """Return an ndarray of floats from either explicit form."""
    explicit = form.toarray() if hasattr(form, "toarray") else form
    return np.asarray(explicit, dtype=np.float64)


def as_shape(rows: int, columns: int) -> tuple[int, int]:
    """Return a shape as exact Python integers."""
    return int(rows), int(columns)
