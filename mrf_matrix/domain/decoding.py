"""From codes back to what they stand for: values, intervals, middles of bins, classes."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Longs, Values, plain_array
from mrf_matrix.base.checks import shown
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.attribute_parts import dates_of_days
from mrf_matrix.domain.errors import DomainError


def decode_records(
    attributes: Sequence[Attribute], codes: ArrayLike, numeric: str, native: Any
) -> Any:
    """Return what codes of shape (N, d) stand for: a dict of columns, or a frame of a library.

    Raises DomainError if the codes are not integers of this shape, each among its attribute's
    codes.
    """
    sizes = tuple(attribute.size for attribute in attributes)
    names = tuple(attribute.name for attribute in attributes)
    checked = checked_codes(codes, sizes, names)
    columns = {
        attribute.name: decode_column(attribute, checked[:, i], numeric)
        for i, attribute in enumerate(attributes)
    }
    if native is None:
        return columns
    import narwhals as nw

    lists = {name: values.tolist() for name, values in columns.items()}
    return nw.from_dict(lists, backend=native).to_native()


def decode_labels(target: Attribute, codes: ArrayLike) -> Values:
    """Return the class of every class code, shape (N,)."""
    column = plain_array("codes", codes).reshape(-1, 1)
    checked = checked_codes(column, [target.size], [target.name])
    return np.asarray(value_array(target.labels)[checked[:, 0]])


def checked_codes(codes: ArrayLike, sizes: Sequence[int], names: Sequence[str]) -> Values:
    """Return codes as an integer array (N, d) with every entry in ``0 .. size-1``."""
    array = plain_array("codes", codes)
    if array.ndim != 2 or array.shape[1] != len(sizes):
        raise DomainError(
            f"codes of {array.ndim} dimensions or of the wrong width; expected (records, "
            f"{len(sizes)})."
        )
    if array.dtype.kind not in "iu":
        raise DomainError(f"codes of type {array.dtype}; expected integers.")
    for i, size in enumerate(sizes):
        wrong = (array[:, i] < 0) | (array[:, i] >= size)
        if wrong.any():
            raise DomainError(
                f"codes of {shown(names[i])} are out of range; expected 0 .. {size - 1}.",
                values=array[wrong, i].tolist(),
            )
    return array


def decode_column(attribute: Attribute, codes: Values, numeric: str) -> Values:
    """Return what the codes of one attribute stand for, shape (N,)."""
    if numeric not in ("interval", "midpoint"):
        raise DomainError(f"numeric={numeric!r}; expected 'interval' or 'midpoint'.")
    if attribute.is_binned and numeric == "midpoint":
        middles = np.append(midpoints(attribute), np.nan)  # the appended one is the missing code
        return np.asarray((dates_of_days(middles) if attribute.is_date else middles)[codes])
    if isinstance(attribute.categories, range) and attribute.size == attribute.n_known:
        integers: Longs = codes.astype(np.int64) + attribute.categories.start
        return integers
    values: list[object] = list(attribute.labels)
    if attribute.missing_code is not None:
        values[-1] = None
    return np.asarray(value_array(values)[codes])


def midpoints(attribute: Attribute) -> Array:
    """Return a number inside every bin: its middle; an open bin counts as wide as its neighbour."""
    edges = np.asarray(attribute.numeric_edges, dtype=np.float64)
    bins = np.array(attribute.bins)
    widths = np.diff(edges) if len(edges) > 1 else np.ones(1)
    low = np.where(bins[:, 0] == -inf, edges[0] - widths[0], bins[:, 0])
    high = np.where(bins[:, 1] == inf, edges[-1] + widths[-1], bins[:, 1])
    return low + (high - low) / 2


def value_array(values: Sequence[object]) -> Values:
    """Return values as an array of their own type; mixed ones stay objects."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {int, float, bool}:
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
