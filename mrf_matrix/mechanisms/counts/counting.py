"""Records to exact counts, in one pass; counts of disjoint data sets add."""

from collections.abc import Iterable, Sequence

import numpy as np

from mrf_matrix.base.arrays import AnyInts
from mrf_matrix.base.checks import whole_number
from mrf_matrix.mechanisms.counts.cells import (
    checked_codes,
    checked_labels,
    checked_sizes,
    distinct_cells,
)
from mrf_matrix.mechanisms.counts.counts import CellCounts
from strategies.operators import check_allocation


def count_cells(
    codes: AnyInts, labels: AnyInts, sizes: Sequence[int], n_classes: int
) -> CellCounts:
    """Count the records of each class in each occupied cell, exactly.

    Parameters
    ----------
    codes : ndarray of int, shape (N, d)
        Records as codes, ``0 <= codes[:, i] < sizes[i]``.
    labels : ndarray of int, shape (N,)
        Class codes, ``0 <= labels < n_classes``.
    sizes : sequence of int
        Attribute sizes of the public domain; their product may exceed 2**63.
    n_classes : int
        Number of classes k.

    Raises
    ------
    ValueError
        If shapes disagree or a code or label lies outside the domain.
    TypeError
        If codes or labels are not integers.

    Examples
    --------
    >>> codes = np.array([[0, 1], [1, 0], [0, 1]])
    >>> counts = count_cells(codes, np.array([0, 1, 1]), sizes=(2, 2), n_classes=2)
    >>> counts
    CellCounts(private, 2 attributes, 2 classes)
    >>> counts.counts
    array([[1, 1],
           [0, 1]])
    """
    exact = checked_sizes(sizes)
    k = whole_number("n_classes", n_classes)
    cells = checked_codes(codes, exact)
    classes = checked_labels(labels, len(cells), k)
    occupied, index = distinct_cells(cells, exact)
    check_allocation("counts of the occupied cells", (len(occupied), k))
    table = np.bincount(index * k + classes, minlength=len(occupied) * k)
    return CellCounts(occupied, table.reshape(-1, k), exact)


def merge_counts(*parts: CellCounts | Iterable[CellCounts]) -> CellCounts:
    """Return the counts of all parts together.

    The same, bit for bit, as counting all records at once, however they were divided and in
    whatever order the parts come; empty parts change nothing.

    Raises
    ------
    TypeError, ValueError
        If there is no part, something else is among them, or they are over different domains.
    OverflowError
        If the total might exceed 63 bits.

    Examples
    --------
    >>> labels = np.zeros(2, dtype=int)
    >>> one = count_cells(np.array([[0], [1]]), labels, sizes=(3,), n_classes=1)
    >>> two = count_cells(np.array([[2], [1]]), labels, sizes=(3,), n_classes=1)
    >>> merge_counts(one, two).counts.ravel()
    array([1, 2, 1])
    >>> (one + two).codes.ravel()
    array([0, 1, 2], dtype=int32)
    """
    listed = [one for part in parts for one in (part if isinstance(part, Iterable) else [part])]
    if not listed:
        raise ValueError("parts is empty: expected at least one CellCounts.")
    for number, part in enumerate(listed):
        if not isinstance(part, CellCounts):
            raise TypeError(
                f"parts[{number}] is of type {type(part).__name__}: expected CellCounts, from "
                f"count_stream or count_cells."
            )
    return listed[0].merged(listed[1:])
