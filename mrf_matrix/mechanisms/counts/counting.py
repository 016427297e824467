"""Records to exact counts, in one pass."""

from collections.abc import Sequence
from numbers import Integral

import numpy as np

from mrf_matrix.base.arrays import AnyInts
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

    Returns
    -------
    CellCounts

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
    if isinstance(n_classes, bool) or not isinstance(n_classes, Integral) or n_classes < 1:
        raise ValueError(f"n_classes={n_classes!r}: expected a positive integer.")
    k = int(n_classes)
    cells = checked_codes(codes, exact)
    classes = checked_labels(labels, len(cells), k)
    occupied, index = distinct_cells(cells, exact)
    check_allocation("counts of the occupied cells", (len(occupied), k))
    table = np.bincount(index * k + classes, minlength=len(occupied) * k)
    return CellCounts(occupied, table.reshape(-1, k), exact)
