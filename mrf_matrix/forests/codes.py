"""The check that codes lie within a domain, before tables are read at them unchecked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def checked_codes(
    codes: object,
    sizes: Sequence[int],
    names: Sequence[str] | None = None,
    *,
    least: int = 0,
    argument: str = "codes",
) -> NDArray[np.integer[Any]]:
    """Return codes as an integer array (N, d), column i from `least` to ``sizes[i] - 1``.

    Parameters
    ----------
    codes : array_like of int, shape (N, d)
        Encoded records, or decision paths.
    sizes : sequence of int
        Attribute sizes.
    names : sequence of str, optional
        Attribute names, for the message.
    least : int, default=0
        Smallest code; -1 where it means "free".
    argument : str, default="codes"
        What the caller calls them.

    Raises
    ------
    ValueError
        If the shape or type is wrong, or a code is out of range.
    """
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(sizes) or array.dtype.kind not in "iu":
        raise ValueError(
            f"{argument} has the wrong shape, or type {array.dtype}: expected integers of "
            f"shape (rows, {len(sizes)}), one column an attribute. Encode records with "
            f"domain.encode(X)."
        )
    if len(array):
        low, high = array.min(axis=0), array.max(axis=0)
        outside = np.flatnonzero((low < least) | (high >= np.asarray(sizes)))
        if len(outside):
            i = int(outside[0])
            raise ValueError(
                f"{argument} of attribute {names[i] if names else i!r} leave the domain: "
                f"expected {least} to {sizes[i] - 1}. Encode records with "
                f"domain.encode(X)."
            )
    return array
