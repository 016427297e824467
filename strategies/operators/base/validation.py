"""Checks that every structure makes on the arrays it is given."""

from collections.abc import Sequence
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators.base.arrays import Array, Numbers, Real
from strategies.operators.base.given import checked_form, plain_array

LARGEST_INTEGER = np.iinfo(np.int64).max


def real_array(name: str, values: object, ndim: int) -> Real:
    """Return a read-only view as int64 or float64, or refuse by name.

    Integers stay integers, so that exact strategies keep exact entries.
    """
    array = plain_array(name, values)
    if array.ndim != ndim:
        raise ValueError(
            f"{name} has {array.ndim} dimensions (shape {array.shape}): expected {ndim}."
        )
    _check_real(name, array)
    if array.dtype.kind == "u" and array.max(initial=0) > LARGEST_INTEGER:
        raise ValueError(f"{name} has integers of 2**63 or more: expected smaller ones, or floats.")
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):  # of longer floats: found by the next line
            array = array.astype(np.float64, copy=False)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} contains NaN or infinity: expected finite numbers only.")
    view: Real = (array if array.dtype.kind == "f" else array.astype(np.int64, copy=False)).view()
    view.flags.writeable = False
    return view


def _check_real(name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} has dtype {array.dtype}: expected real numbers (bool, integer or float)."
        )


def real_sparse(name: str, matrix: object) -> sparse.csr_array:
    """Return a CSR array of int64 or float64 with sorted, summed entries, or refuse by name.

    Nobody else holds its arrays, and nobody can write to them.
    """
    given = checked_form(name, matrix)
    data = real_array(f"{name}.data", given.data, 1)
    form = sparse.csr_array((data, given.indices, given.indptr), shape=given.shape)
    if not form.has_canonical_format:
        form = form.copy()
        form.sum_duplicates()
        real_array(f"{name}.data", form.data, 1)  # sums may be infinite
    for part in (form.data, form.indices, form.indptr):
        part.flags.writeable = False
    return form


def checked_sizes(sizes: Sequence[int] | None, n: int) -> tuple[int, ...] | None:
    """Return attribute sizes as exact integers whose product is n, or refuse."""
    if sizes is None:
        return None
    exact = tuple(int(size) for size in sizes)
    if prod(exact) != n or min(exact, default=0) < 1:
        raise ValueError(f"sizes={exact}: expected positive sizes whose product is {n} columns.")
    return exact


def attribute_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a product domain's attributes as exact integers, or refuse."""
    if not sizes or any(not isinstance(size, Integral) or size < 1 for size in sizes):
        raise ValueError(f"sizes={sizes!r}: expected one positive integer for each attribute.")
    return tuple(int(size) for size in sizes)


def attribute_set(chosen: Sequence[int], d: int) -> tuple[int, ...]:
    """Return distinct attribute numbers below d in order, or refuse."""
    ordered = tuple(sorted(int(i) for i in chosen))
    if len(set(ordered)) != len(ordered) or any(not 0 <= i < d for i in ordered):
        raise ValueError(
            f"attribute set {tuple(chosen)!r}: expected distinct attribute numbers from 0 to "
            f"{d - 1}."
        )
    return ordered


def set_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Return one finite weight, none negative, for each attribute set; integers stay exact."""
    exact = tuple(int(w) if isinstance(w, Integral) else float(w) for w in weights)
    if len(exact) != count or not all(np.isfinite(float(w)) and w >= 0 for w in exact):
        raise ValueError(
            f"weights={weights!r}: expected {count} finite numbers, one for each attribute set, "
            f"none negative."
        )
    return exact


def of_length(length: int, name: str, values: Numbers, shape: tuple[int, int]) -> Array:
    """Return values as floats, shape (length,) or (length, j), or refuse by name.

    `shape`: of the operator that they go with.
    """
    array = plain_array(name, values)
    _check_real(name, array)
    if array.ndim not in (1, 2) or array.shape[0] != length:
        raise ValueError(
            f"{name} has shape {array.shape}: expected ({length},) or ({length}, j) to match an "
            f"operator of shape {shape}."
        )
    return array.astype(np.float64, copy=False)
