"""Checks on records that are about to be routed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Domain


def check_codes(codes: Any, domain: Domain) -> NDArray[np.integer[Any]]:
    """Return encoded records as an (N, d) integer array that lies within the domain.

    Parameters
    ----------
    codes : array_like of int, shape (N, d)
        Encoded records.
    domain : Domain
        The domain that encoded them.

    Raises
    ------
    ValueError
        If the shape or type is wrong, or a code is outside ``0..size-1``.
    """
    array = np.asarray(codes)
    d = domain.n_attributes
    if array.ndim != 2 or array.shape[1] != d:
        raise ValueError(
            f"codes has shape {array.shape}: expected (records, {d}), one column an attribute. "
            f"Encode records with domain.encode(X)."
        )
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"codes has type {array.dtype}: expected integers. Encode records with "
            f"domain.encode(X)."
        )
    if len(array):
        low, high = array.min(axis=0), array.max(axis=0)
        outside = np.flatnonzero((low < 0) | (high >= np.asarray(domain.sizes)))
        if len(outside):
            i = int(outside[0])
            raise ValueError(
                f"codes of attribute {domain.names[i]!r} run from {low[i]} to {high[i]}: "
                f"expected 0 to {domain.sizes[i] - 1}. Encode records with domain.encode(X)."
            )
    return array
