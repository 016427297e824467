"""Counts of disjoint data sets add: A (D + D') = A D + A D'."""

from collections.abc import Iterable

from mrf_matrix.mechanisms.counts.counts import CellCounts


def merge_counts(*parts: CellCounts | Iterable[CellCounts]) -> CellCounts:
    """Return the counts of all parts together.

    The same, bit for bit, as counting all records at once, however they were divided and in
    whatever order the parts come; empty parts change nothing.

    Parameters
    ----------
    *parts : CellCounts, or one iterable of them
        At least one, all counted over the same domain.

    Raises
    ------
    TypeError
        If something else is among the parts.
    ValueError
        If there is no part, or parts were counted over different domains.
    OverflowError
        If the total might exceed 63 bits.

    Examples
    --------
    >>> import numpy as np
    >>> from mrf_matrix.mechanisms.counts.counting import count_cells
    >>> labels = np.zeros(2, dtype=int)
    >>> one = count_cells(np.array([[0], [1]]), labels, sizes=(3,), n_classes=1)
    >>> two = count_cells(np.array([[2], [1]]), labels, sizes=(3,), n_classes=1)
    >>> merge_counts(one, two).counts.ravel()
    array([1, 2, 1])
    >>> (one + two).codes.ravel()
    array([0, 1, 2], dtype=int32)
    """
    listed: list[CellCounts] = []
    for part in parts:
        if isinstance(part, Iterable):
            listed.extend(part)
        else:
            listed.append(part)
    if not listed:
        raise ValueError("parts is empty: expected at least one CellCounts.")
    for number, part in enumerate(listed):
        if not isinstance(part, CellCounts):
            raise TypeError(
                f"parts[{number}] is of type {type(part).__name__}: expected CellCounts, from "
                f"count_stream or count_cells."
            )
    first: CellCounts = listed[0]
    return first.merged(listed[1:])
