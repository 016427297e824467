"""Checks that every structure makes on the arrays it is given."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Real = NDArray[np.float64] | NDArray[np.int64]


def real_array(name: str, values: Any, ndim: int) -> Real:
    """Return a read-only view as int64 or float64, or refuse by name.

    Integers stay integers, so that exact strategies keep exact entries.
    """
    array = np.asarray(values)
    if array.ndim != ndim:
        raise ValueError(
            f"{name} has {array.ndim} dimensions (shape {array.shape}): expected {ndim}."
        )
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} has dtype {array.dtype}: expected real numbers (bool, integer or float)."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity: expected finite numbers only.")
    view: Real = (
        array.astype(np.float64, copy=False).view()
        if array.dtype.kind == "f"
        else array.astype(np.int64, copy=False).view()
    )
    view.flags.writeable = False
    return view


def real_sparse(name: str, matrix: Any) -> sparse.csr_array:
    """Return a CSR array of int64 or float64 with sorted, summed entries, or refuse by name."""
    form = sparse.csr_array(matrix)
    if form.ndim != 2:
        raise ValueError(f"{name} has {form.ndim} dimensions: expected 2.")
    data = real_array(f"{name}.data", form.data, 1)
    form = sparse.csr_array((data, form.indices, form.indptr), shape=form.shape)
    if not form.has_canonical_format:
        form = form.copy()
        form.sum_duplicates()
    return form


def is_sparse(matrix: Any) -> bool:
    """Tell whether this is a scipy sparse array or matrix."""
    return bool(sparse.issparse(matrix))


def checked_sizes(sizes: Sequence[int] | None, n: int) -> tuple[int, ...] | None:
    """Return attribute sizes as exact integers whose product is n, or refuse."""
    if sizes is None:
        return None
    exact = tuple(int(size) for size in sizes)
    if prod(exact) != n or min(exact, default=0) < 1:
        raise ValueError(f"sizes={exact}: expected positive sizes whose product is {n} columns.")
    return exact
