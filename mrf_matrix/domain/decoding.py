"""From codes back to values."""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Longs, Values
from mrf_matrix.base.shown import shown
from mrf_matrix.domain.attribute import Attribute
from mrf_matrix.domain.errors import DomainError


def checked_codes(codes: ArrayLike, sizes: Sequence[int], names: Sequence[str]) -> Values:
    """Return codes as an integer array (N, d) with every entry in ``0 .. size-1``."""
    array = np.asarray(codes)
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
    if attribute.is_numeric and numeric == "midpoint":
        middles = np.append(midpoints(attribute), np.nan)  # the appended one is the missing code
        return np.asarray(middles[codes])
    if isinstance(attribute.categories, range) and attribute.size == attribute.n_known:
        integers: Longs = codes.astype(np.int64) + attribute.categories.start
        return integers
    values: list[object] = list(attribute.labels)
    if attribute.missing_code is not None:
        values[-1] = None
    return np.asarray(value_array(values)[codes])


def midpoints(attribute: Attribute) -> Array:
    """Return a number inside every bin: its middle; an open bin counts as wide as its neighbour."""
    edges = np.asarray(attribute.edges, dtype=np.float64)
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
