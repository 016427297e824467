"""Arrays by what they hold: one name for each, everywhere."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Reals."""

Longs = NDArray[np.int64]  # counts, nodes and places

Ints = NDArray[np.int32]  # node and leaf numbers of forests, which are many

Codes = NDArray[np.int32]  # records as codes, (N, d), or classes, (N,)

Bools = NDArray[np.bool_]  # masks

AnyInts = NDArray[np.integer]  # integers of any width, as somebody gave them

Values = NDArray[Any]
"""Of a type that is known only when it runs: what records hold, numbers as somebody gave them."""

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
