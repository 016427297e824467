"""Names for the types of arrays, and checks of arrays that callers give."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.checks import DomainError

Array = NDArray[np.float64]
"""Reals."""

Longs = NDArray[np.int64]  # counts, nodes and places

Ints = NDArray[np.int32]  # node and leaf numbers of forests, which are many

Codes = NDArray[np.int32]  # records as codes, (N, d), or classes, (N,)

Bools = NDArray[np.bool_]  # masks

AnyInts = NDArray[np.integer]  # integers of any width, as somebody gave them

Values = NDArray[Any]
"""Arrays of a type known only at run time: values of records, numbers that a caller gave."""

Words = NDArray[np.uint64]  # uniform random bits, 64 at a time

Seed = int | np.random.Generator | None  # what NumPy makes a generator of


def plain_array(name: str, values: object) -> Values:
    """Return what was given as an ndarray, or refuse by name what is masked or sparse.

    The one rule of both packages: `strategies.operators.base.validation.plain_array`.
    """
    if type(values) is np.ndarray:  # what it is already, and needs no SciPy to be told from others
        return values
    from strategies.operators.base.validation import plain_array as checked  # loads SciPy

    return checked(name, values)


def checked_codes(
    codes: object,
    sizes: Sequence[int],
    names: Sequence[str] | None = None,
    *,
    least: int = 0,
    argument: str = "codes",
) -> AnyInts:
    """Return codes as an integer array (N, d), column i from `least` to ``sizes[i] - 1``.

    `codes`: encoded records, or decision paths, where -1 means "free"; `names`: of the attributes,
    for the message; `argument`: what the caller calls the codes.

    Raises DomainError if the shape or type is wrong, or a code is out of range.
    """
    array = plain_array(argument, codes)
    if array.ndim != 2 or array.shape[1] != len(sizes) or array.dtype.kind not in "iu":
        raise DomainError(
            f"{argument} has the wrong shape, or type {array.dtype}: expected integers of shape "
            f"(rows, {len(sizes)}), one column an attribute. Encode records with domain.encode(X)."
        )
    if len(array):
        outside = (array.min(axis=0) < least) | (array.max(axis=0) >= np.asarray(sizes))
        if outside.any():
            i = int(outside.argmax())
            column = array[:, i]
            raise DomainError(
                f"{argument} of attribute {names[i] if names else i!r} leave the domain: expected "
                f"{least} to {sizes[i] - 1}. Encode records with domain.encode(X).",
                values=column[(column < least) | (column >= sizes[i])].tolist(),
            )
    return array


def read_only_array(array: Values) -> Values:
    """Return an array in memory that nobody can write to, also not through a copy's pickle.

    The one rule of both packages: `strategies.operators.base.validation.read_only`.
    """
    from strategies.operators.base.validation import read_only as kept  # loads SciPy

    return kept(array)


def plain_floats(name: str, values: object) -> Array:
    """Return an array of real numbers as floats, or refuse by name what is masked, or no numbers.

    >>> plain_floats("targets", [1, 2])
    array([1., 2.])
    """
    given = plain_array(name, values)
    try:
        if given.dtype.kind in "biufO":
            return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        pass  # objects that are no numbers
    raise TypeError(f"{name} has dtype {given.dtype}: expected real numbers.")
