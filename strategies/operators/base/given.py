"""What somebody gave for a matrix: checked before any routine trusts it.

NumPy drops the mask of a masked array, SciPy reads where the indices of a sparse one point to, and
both convert in silence what they cannot hold. Whatever enters as an array or a sparse matrix comes
through `plain_array` or `checked_form`, so that each is refused by name instead.
"""

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

MOST_NESTED = 3
"""Lists within lists that are looked through for masked arrays: more than a matrix has."""


def plain_array(name: str, values: object) -> NDArray[Any]:
    """Return what was given as an ndarray, or refuse what has another meaning than its memory.

    Raises TypeError naming the argument if it is masked, sparse, or a list of such.

    >>> plain_array("answers", [1, 2])
    array([1, 2])
    """
    layer: list[object] = [values]
    for _ in range(MOST_NESTED):
        for one in layer:
            _check_plain(name, one)
        layer = list(chain.from_iterable(one for one in layer if isinstance(one, list | tuple)))
        if not layer:
            break
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of several lengths
        raise ValueError(f"{name} is no array: {error}") from None


def _check_plain(name: str, values: object) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array: its masked entries have no value here. Expected a plain "
            f"array: fill it, {name}.filled(0) say, or leave these entries out."
        )
    if sparse.issparse(values):
        raise TypeError(f"{name} is sparse: expected a dense array; give {name}.toarray().")


def checked_form(name: str, matrix: object) -> sparse.csr_array:
    """Return a sparse matrix of any format in CSR form, its own copy, or refuse by name.

    Whoever wrote its arrays may have written anything: where they point is checked first.

    Raises ValueError if an index, a pointer or a length is not what the shape allows; TypeError if
    it is not sparse, or its entries are no real numbers.
    """
    if not sparse.issparse(matrix):
        return sparse.csr_array(plain_array(name, matrix))
    form: Any = matrix
    if form.ndim != 2:
        raise ValueError(f"{name} has {form.ndim} dimensions: expected 2.")
    if form.format in ("csr", "csc", "bsr"):
        _check_compressed(name, form)
    elif form.format == "lil":
        _check_lists(name, form)
    elif form.format == "dia":
        _check_diagonals(name, form)
    if np.dtype(form.dtype).kind not in "biuf":
        raise TypeError(
            f"{name} has dtype {form.dtype}: expected real numbers (bool, integer or float)."
        )
    if form.format not in ("csr", "csc", "bsr"):
        form = form.tocoo()
        _check_places(name, form.coords, form.shape)
        _check_lengths(name, *map(len, form.coords), len(plain_array(f"{name}.data", form.data)))
    return sparse.csr_array(form, copy=True)


def _check_compressed(name: str, form: Any) -> None:
    """Check pointers, indices and entries of a CSR, CSC or BSR form against its shape."""
    starts, places = plain_array(f"{name}.indptr", form.indptr), plain_array(name, form.indices)
    entries = plain_array(f"{name}.data", form.data)
    high, wide = form.shape
    if form.format == "bsr":
        rows, columns = entries.shape[1:] if entries.ndim == 3 else (0, 0)
        if not (rows and columns) or high % rows or wide % columns:
            raise ValueError(f"{name}: its blocks do not divide its shape {form.shape}.")
        high, wide = high // rows, wide // columns
    elif entries.ndim != 1:
        raise ValueError(f"{name}.data has {entries.ndim} dimensions: expected 1.")
    if form.format == "csc":
        high, wide = wide, high
    if starts.ndim != 1 or starts.dtype.kind not in "iu" or len(starts) != high + 1:
        raise ValueError(f"{name}.indptr: expected {high + 1} integers, for shape {form.shape}.")
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"{name}.indptr: expected numbers that begin with 0 and never fall.")
    if len(places) != len(entries) or len(places) < int(starts[-1]):
        raise ValueError(
            f"{name} has {len(places)} indices and {len(entries)} entries: expected as many as "
            f"indptr ends with."
        )
    _check_places(name, (places[: int(starts[-1])],), (wide,))


def _check_lists(name: str, form: Any) -> None:
    """Check that a list of lists has a value for each column that it names."""
    columns, values = form.rows, form.data
    _check_lengths(name, form.shape[0], len(columns), len(values))
    for named, held in zip(columns, values, strict=True):
        _check_lengths(name, len(named), len(held))


def _check_diagonals(name: str, form: Any) -> None:
    offsets = plain_array(f"{name}.offsets", form.offsets)
    entries = plain_array(f"{name}.data", form.data)
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or entries.ndim != 2:
        raise ValueError(f"{name}: expected an integer offset and a row of data a diagonal.")
    _check_lengths(name, len(offsets), len(entries), len(np.unique(offsets)))


def _check_places(name: str, axes: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    for axis, length in zip(axes, shape, strict=True):
        places = plain_array(f"{name}.indices", axis)
        if places.ndim != 1 or places.dtype.kind not in "iu":
            raise ValueError(f"{name}.indices: expected one dimension of integers.")
        if len(places) and (places.min() < 0 or places.max() >= length):
            raise ValueError(
                f"{name} has an index outside of its shape: expected 0 to {length - 1}. Build the "
                f"matrix anew, with scipy.sparse.csr_array((data, (rows, columns)), shape) say."
            )


def _check_lengths(name: str, *lengths: int) -> None:
    if len(set(lengths)) > 1:
        raise ValueError(f"{name}: its arrays have lengths {list(lengths)}: expected equal ones.")
