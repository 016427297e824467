"""C = T D: class counts of every leaf, from the records themselves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.base.arrays import Longs, plain_array
from mrf_matrix.forests import Forest
from mrf_matrix.forests.codes import checked_codes
from strategies.operators import check_allocation, fits


def leaf_counts(
    forest: Forest,
    codes: NDArray[np.integer[Any]],
    labels: NDArray[np.integer[Any]],
    n_classes: int,
) -> Longs:
    """Count the records of each class in every leaf: C = T D without D.

    Parameters
    ----------
    forest : Forest
    codes : ndarray of int, shape (N, d)
        Encoded records.
    labels : ndarray of int, shape (N,)
        Class codes, 0 to ``n_classes - 1``.
    n_classes : int
        Number of classes k.

    Returns
    -------
    ndarray of int64, shape (n_leaves, n_classes)
        Exact counts; the rows of each tree add up to the class totals. **They are private**: see
        `mrf_matrix.mechanisms.measure` for their release.

    Raises
    ------
    ValueError
        If codes or labels do not fit.
    MemoryCapError
        If the result exceeds the memory cap.

    Notes
    -----
    Where the domain has no more cells than there are records, records are counted by cell first
    (one pass), and only the distinct cells are routed. Otherwise all records are, in blocks of at
    most 16384 (record, tree) states, counted as they arrive. Memory is the result plus, in the
    first case, n x k counts, 24 bytes a record and 12 bytes per distinct cell and tree, in the
    second about 1 MB; no array of N x trees is made.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=1).grow(Domain.from_sizes([2]))
    >>> leaf_counts(forest, np.array([[0], [1], [1]]), np.array([0, 0, 1]), 2)
    array([[1, 0],
           [1, 1]])
    """
    records = checked_codes(codes, forest.domain.sizes, forest.domain.names)
    classes = checked_labels(labels, len(records), n_classes)
    check_allocation("leaf counts", (forest.n_leaves, n_classes))
    cells = forest.domain.size
    if cells <= len(records) and fits((cells, n_classes)):
        return _by_cell(forest, records, classes, n_classes)
    return _by_record(forest, records, classes, n_classes)


def checked_labels(
    labels: NDArray[np.integer[Any]], n_records: int, n_classes: int
) -> NDArray[np.integer[Any]]:
    """Return class codes as integers, shape (N,), each from 0 to ``n_classes - 1``.

    Raises ValueError if there is no class, or the labels' shape, type or range is wrong.
    """
    if isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer) or n_classes < 1:
        raise ValueError(f"n_classes={n_classes!r}: expected a positive integer.")
    given = plain_array("labels", labels)
    if given.shape != (n_records,) or given.dtype.kind not in "iu":
        raise ValueError(
            f"labels has the wrong shape, or type {given.dtype}: expected integers, one class code "
            f"a record (domain.encode_target(y))."
        )
    if n_records and (given.min() < 0 or given.max() >= n_classes):
        raise ValueError(
            f"labels leave the classes: expected 0 to {n_classes - 1}. "
            f"Encode them with domain.encode_target(y)."
        )
    return given


def _by_cell(forest: Forest, codes: NDArray[Any], labels: NDArray[Any], n_classes: int) -> Longs:
    """Count by cell, then add the cells of each leaf: Cᵀ = Dᵀ Tᵀ over occupied cells."""
    sizes = forest.domain.sizes
    index = np.ravel_multi_index(tuple(codes.T), sizes) * n_classes + labels.astype(np.int64)
    table = np.bincount(index, minlength=forest.domain.size * n_classes)
    table = table.reshape(-1, n_classes)
    occupied = np.flatnonzero(table.any(axis=1))
    leaves = forest.apply(np.stack(np.unravel_index(occupied, sizes), axis=1))
    ends = np.arange(0, leaves.size + 1, forest.n_trees)
    reached = sparse.csr_array(
        (np.ones(leaves.size, dtype=np.int64), leaves.ravel(), ends),
        shape=(len(occupied), forest.n_leaves),
    )
    return np.asarray(reached.T @ table[occupied], dtype=np.int64)


def _by_record(forest: Forest, codes: NDArray[Any], labels: NDArray[Any], n_classes: int) -> Longs:
    """Route blocks of records and count their (leaf, class) pairs as they arrive."""
    counts = np.zeros(forest.n_leaves * n_classes, dtype=np.int64)
    first = forest.leaf_index.astype(np.int64) * n_classes
    for records, _, nodes in forest.router.blocks(codes):
        pairs = first[nodes] + labels[records].astype(np.int64)
        np.add.at(counts, pairs.ravel(), 1)
    return counts.reshape(-1, n_classes)
