"""Forest -> T, one row a root-to-leaf path; records -> C = T D, class counts of every leaf."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.base.arrays import Bools, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_codes, plain_array
from mrf_matrix.forests import Forest, leaf_masks
from mrf_matrix.forests.export import describe_codes
from mrf_matrix.forests.growth.records import checked_labels
from strategies.operators import RowKronecker, check_allocation, fits


def path_matrix(forest: Forest) -> RowKronecker:
    """Compile a forest into its decision-path matrix T.

    ``T[r, cell]`` is 1 where the cell reaches leaf r: the row is the Kronecker product over
    attributes of the 0/1 vector of codes that lead there.

    Parameters
    ----------
    forest : Forest

    Returns
    -------
    RowKronecker of shape (n_leaves, domain.size)
        Row r is leaf r of ``forest.apply``; `groups` holds the tree of every row, whose leaves
        partition the domain, so the L1 sensitivity is the number of trees.

    Raises
    ------
    MemoryCapError
        If the unpacked masks (n_leaves x sum of sizes bytes, the largest array) exceed the
        memory cap. The result takes an eighth of that.

    References
    ----------
    Tajima, Wu, Houmansadr (2025), "Matrix Representation of Random Forests".

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> forest = RandomTrees(n_trees=1, max_depth=1, attributes=[1]).grow(
    ...     Domain.from_sizes([2, 3])
    ... )
    >>> path_matrix(forest).to_dense()
    array([[1., 0., 0., 1., 0., 0.],
           [0., 1., 0., 0., 1., 0.],
           [0., 0., 1., 0., 0., 1.]])
    """
    if not isinstance(forest, Forest):
        raise TypeError(f"forest is {type(forest).__name__}: expected a Forest.")
    check_allocation("masks of the paths", (forest.n_leaves, sum(forest.domain.sizes)), 1)
    matrix = RowKronecker.from_masks(leaf_masks(forest))
    # A validated forest's trees partition the domain: their rows need no check for overlaps.
    trees, words = forest.leaf_tree.astype(np.int64), partial(describe_path, forest.domain)
    return replace(matrix, groups=trees, in_words=words)


def describe_path(domain: Domain, masks: Sequence[Bools]) -> str:
    """Return which codes a path leaves of each attribute that it restricts.

    >>> describe_path(Domain.from_sizes([2, 3]), [np.array([1, 1]), np.array([0, 1, 0])])
    'x1 = 1'
    """
    pairs = zip(domain.attributes, masks, strict=True)
    said = [describe_codes(one, np.flatnonzero(mask)) for one, mask in pairs if not np.all(mask)]
    return " & ".join(said) or "all"


def path_matrix_from_codes(
    paths: NDArray[np.integer[Any]],
    sizes: Sequence[int] | Domain,
    tree_id: NDArray[np.integer[Any]] | None = None,
) -> RowKronecker:
    """Compile decision paths, given as one code an attribute, into T.

    Parameters
    ----------
    paths : ndarray of int, shape (o, d)
        The code that each path fixes per attribute, -1 where the attribute is free.
    sizes : sequence of int, or Domain
        The attributes' sizes.
    tree_id : ndarray of int, shape (o,), optional
        The tree of each path. Paths of one tree must not share a cell (checked); with it the
        sensitivity is known even where the cells cannot be enumerated.

    Returns
    -------
    RowKronecker of shape (o, product of the sizes)
        Row r is path r.

    Raises
    ------
    ValueError
        If shapes or codes do not fit, or two paths of a tree overlap.
    MemoryCapError
        If the unpacked masks (o x sum of sizes bytes) exceed the memory cap.

    Examples
    --------
    >>> T = path_matrix_from_codes(np.array([[0, -1], [1, 0], [1, 1]]), [2, 2])
    >>> T.to_dense()
    array([[1., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """
    widths = domain_sizes(sizes)
    given = checked_codes(paths, widths, least=-1, argument="paths")
    check_allocation("masks of the paths", (len(given), sum(widths)), 1)
    masks = [
        (column[:, np.newaxis] < 0) | (column[:, np.newaxis] == np.arange(width))
        for column, width in zip(given.T, widths, strict=True)
    ]
    trees = None if tree_id is None else plain_array("tree_id", tree_id)
    return RowKronecker.from_masks(masks, trees)


def domain_sizes(domain: Sequence[int] | Domain) -> tuple[int, ...]:
    """Return the attributes' sizes of a domain, or of a sequence of positive integers.

    Raises ValueError if there are no sizes, or one is not positive.
    """
    if isinstance(domain, Domain):
        return domain.sizes
    sizes = tuple(int(size) for size in domain)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes={sizes}: expected positive sizes, one an attribute.")
    return sizes


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
    if isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer) or n_classes < 1:
        raise ValueError(f"n_classes={n_classes!r}: expected a positive integer.")
    records = checked_codes(codes, forest.domain.sizes, forest.domain.names)
    classes = checked_labels(labels, len(records), n_classes)
    check_allocation("leaf counts", (forest.n_leaves, n_classes))
    cells = forest.domain.size
    if cells <= len(records) and fits((cells, n_classes)):
        return _count_by_cell(forest, records, classes, n_classes)
    return _count_by_record(forest, records, classes, n_classes)


def _count_by_cell(
    forest: Forest, codes: NDArray[Any], labels: NDArray[Any], n_classes: int
) -> Longs:
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


def _count_by_record(
    forest: Forest, codes: NDArray[Any], labels: NDArray[Any], n_classes: int
) -> Longs:
    """Route blocks of records and count their (leaf, class) pairs as they arrive."""
    counts = np.zeros(forest.n_leaves * n_classes, dtype=np.int64)
    first = forest.leaf_index.astype(np.int64) * n_classes
    for records, _, nodes in forest.router.blocks(codes):
        pairs = first[nodes] + labels[records].astype(np.int64)
        np.add.at(counts, pairs.ravel(), 1)
    return counts.reshape(-1, n_classes)
