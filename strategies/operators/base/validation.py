"""Checks that every structure makes on the arrays it is given."""

from collections.abc import Sequence
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Array, Form, Numbers, Real


def real_array(name: str, values: object, ndim: int) -> Real:
    """Return a read-only view as int64 or float64, or refuse by name.

    Integers stay integers, so that exact strategies keep exact entries.
    """
    array = np.asarray(unmasked(name, values))
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


def real_sparse(name: str, matrix: Form) -> sparse.csr_array:
    """Return a CSR array of int64 or float64 with sorted, summed entries, or refuse by name."""
    check_places(name, matrix)
    form = sparse.csr_array(matrix)
    if form.ndim != 2:
        raise ValueError(f"{name} has {form.ndim} dimensions: expected 2.")
    data = real_array(f"{name}.data", form.data, 1)
    form = sparse.csr_array((data, form.indices, form.indptr), shape=form.shape)
    if not form.has_canonical_format:
        form = form.copy()
        form.sum_duplicates()
    return form


def unmasked(name: str, values: object) -> object:
    """Return an array as it is; refuse a masked one, whose hidden values would count.

    Raises TypeError.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array: what its mask hides would count as it is. Expected an "
            f"array without a mask: {name}.filled(value), or rows and columns left out."
        )
    return values


def check_places(name: str, matrix: Any) -> None:
    """Refuse a sparse matrix whose index arrays lead outside of it: SciPy would follow them.

    Raises ValueError, TypeError.
    """
    if not sparse.issparse(matrix):
        return
    form: Any = matrix
    unmasked(f"{name}.data", getattr(form, "data", None))
    pointers, places = (getattr(form, part, None) for part in ("indptr", "indices"))
    if pointers is None or places is None:
        coordinates = getattr(form, "coords", ())
        if not all(map(_lie_within, coordinates, form.shape)):
            raise _astray(name)
        return
    block = form.blocksize if form.format == "bsr" else (1, 1)
    major, minor = (size // width for size, width in zip(form.shape, block, strict=True))
    if form.format == "csc":
        major, minor = minor, major
    ends = np.asarray(pointers)
    rising = ends.shape == (major + 1,) and ends[0] == 0 and bool((np.diff(ends) >= 0).all())
    if not rising or ends[-1] > min(len(places), len(form.data)):
        raise _astray(name)
    if not _lie_within(places, minor):
        raise _astray(name)


def _lie_within(places: object, size: int) -> bool:
    array = np.asarray(places)
    return not array.size or (int(array.min()) >= 0 and int(array.max()) < size)


def _astray(name: str) -> ValueError:
    return ValueError(
        f"{name} is a sparse matrix whose indices or index pointers lead outside of its shape: "
        f"expected one as SciPy makes it, such as csr_array((data, (rows, columns)), shape=...)."
    )


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
    array = np.asarray(unmasked(name, values))
    if array.ndim not in (1, 2) or array.shape[0] != length:
        raise ValueError(
            f"{name} has shape {array.shape}: expected ({length},) or ({length}, j) to match an "
            f"operator of shape {shape}."
        )
    return array.astype(np.float64, copy=False)
