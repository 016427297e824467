"""Forest -> T, a row a root-to-leaf path; records -> Q, and C = T D; T, Q -> workloads of votes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mrf_matrix.base.arrays import Codes, Longs
from mrf_matrix.base.checks import short_repr, whole_number
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_codes, plain_array
from mrf_matrix.forests import Forest, leaf_masks
from mrf_matrix.forests.ensembles import Ensemble
from mrf_matrix.forests.export import describe_path
from mrf_matrix.forests.growth.records import checked_labels
from strategies.operators import Product, RowKronecker, Sparse, check_allocation, fits


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
    reached = _route_queries(forest, np.stack(np.unravel_index(occupied, sizes), axis=1))
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


def query_matrix(codes: NDArray[np.integer[Any]], domain: Domain | Sequence[int]) -> RowKronecker:
    """Compile test records into the query matrix Q.

    Row r is 1 at the cell of record r and 0 elsewhere; it is kept as one unit vector per
    attribute, so Q takes b x sum of sizes bits whatever the number of cells.

    Parameters
    ----------
    codes : ndarray of int, shape (b, d)
        Encoded records (``domain.encode(X)``). Repeated records are repeated rows.
    domain : Domain or sequence of int
        The domain, or its attributes' sizes.

    Returns
    -------
    RowKronecker of shape (b, product of the sizes)

    Raises
    ------
    ValueError
        If the codes do not fit the sizes.
    MemoryCapError
        If the unpacked unit vectors (b x sum of sizes bytes) exceed the memory cap.

    Examples
    --------
    >>> query_matrix(np.array([[1, 0], [0, 1]]), [2, 2]).to_dense()
    array([[0., 0., 1., 0.],
           [0., 1., 0., 0.]])
    """
    sizes = domain_sizes(domain)
    given = checked_codes(codes, sizes)
    check_allocation("unit vectors of the queries", (len(given), sum(sizes)), 1)
    return RowKronecker.from_masks(
        [
            column[:, np.newaxis] == np.arange(size)
            for column, size in zip(given.T, sizes, strict=True)
        ]
    )


def query_codes(queries: RowKronecker) -> NDArray[np.int32]:
    """Return the records of a query matrix as codes, shape (b, d): `query_matrix` undone.

    Raises
    ------
    ValueError
        If some row is not the indicator of one cell.

    Examples
    --------
    >>> query_codes(query_matrix(np.array([[1, 0], [0, 1]]), [2, 2]))
    array([[1, 0],
           [0, 1]], dtype=int32)
    """
    if not isinstance(queries, RowKronecker):
        raise TypeError(
            f"queries is {type(queries).__name__}: expected query_matrix(codes, domain)."
        )
    wrong = np.flatnonzero((queries.widths != 1).any(axis=1))
    if len(wrong):
        raise ValueError(
            f"row {wrong[0]} of queries does not hold exactly one cell: expected "
            f"query_matrix(codes, domain)."
        )
    codes = np.empty((queries.shape[0], len(queries.sizes)), dtype=np.int32)
    for i in range(codes.shape[1]):
        codes[:, i] = queries.masks(i).argmax(axis=1)
    return codes


def leaf_incidence(paths: RowKronecker | Forest, queries: RowKronecker) -> sparse.csr_array:
    """Return Q Tᵀ: which leaves each test record reaches.

    Row r has a 1 at every path that holds the cell of record r: one a tree. It is the workload
    over leaves of subsample-and-aggregate, and Q Tᵀ C are the weight votes.

    Parameters
    ----------
    paths : RowKronecker of shape (o, n), or Forest
        The path matrix T; a Forest is routed, which is faster, and means the same.
    queries : RowKronecker of shape (b, n)
        `query_matrix` of the test records.

    Returns
    -------
    csr_array of int64, shape (b, o)

    Raises
    ------
    TypeError, ValueError
        If one is something else, or the two are not over the same attributes.

    Notes
    -----
    Equal records are looked up once. The largest array is that of the nonzeros, one a record
    and tree; with a path matrix also 8 MB of packed sets of paths at a time.

    Examples
    --------
    >>> from mrf_matrix.compilation import path_matrix_from_codes, query_matrix
    >>> T = path_matrix_from_codes(np.array([[0, -1], [1, -1]]), [2, 3])
    >>> leaf_incidence(T, query_matrix(np.array([[1, 2], [1, 0]]), [2, 3])).toarray()
    array([[0, 1],
           [0, 1]])
    """
    for name, given, source in (
        ("paths", paths, "path_matrix(forest)"), ("queries", queries, "query_matrix(codes, domain)")
    ):  # fmt: skip
        if not isinstance(given, RowKronecker | Forest if name == "paths" else RowKronecker):
            raise TypeError(f"{name} is of type {type(given).__name__}: expected {source}.")
    sizes = paths.domain.sizes if isinstance(paths, Forest) else paths.sizes
    if sizes != queries.sizes:
        raise ValueError(
            f"queries is over attributes of sizes {queries.sizes} and paths over {sizes}: "
            f"expected the same. Compile both from one domain."
        )
    distinct, inverse, _ = queries.unique_rows()
    codes = query_codes(distinct)
    if isinstance(paths, Forest):
        incidence = _route_queries(paths, codes)
    else:
        incidence = sparse.csr_array(paths.columns(codes).T)
    return sparse.csr_array(incidence[inverse])


def _route_queries(forest: Forest, codes: NDArray[Any]) -> sparse.csr_array:
    leaves = forest.apply(codes)
    ends = np.arange(0, leaves.size + 1, forest.n_trees)
    ones = np.ones(leaves.size, dtype=np.int64)
    return sparse.csr_array((ones, leaves.ravel(), ends), shape=(len(codes), forest.n_leaves))


def prediction_workload(paths: RowKronecker | Forest, queries: RowKronecker) -> Product:
    """Return W = Q Tᵀ T, the weight votes of every test record as sums of cells.

    Row r of W counts, for every cell, the trees in which the cell and record r share a leaf:
    ``W D`` are the class counts that the record's leaves add up to.

    Parameters
    ----------
    paths : RowKronecker of shape (o, n), or Forest
        The path matrix T.
    queries : RowKronecker of shape (b, n)
        `query_matrix` of the test records. Repeated records are repeated rows of W.

    Returns
    -------
    Product of shape (b, n)
        A sparse (b, o') matrix times the o' *distinct paths that some record reaches*: paths
        that occur in several trees are counted once with their number, unreached paths
        are left out. Both change nothing in W, make every product with it cheaper, and leave
        fewer distinct columns to `strategies.problem.merging`.

    Raises
    ------
    TypeError, ValueError
        If one is something else, or the two are not over the same attributes.

    References
    ----------
    Tajima, Wu, Houmansadr (2025), Algorithm 2.

    Examples
    --------
    >>> from mrf_matrix.compilation import path_matrix_from_codes, query_matrix
    >>> T = path_matrix_from_codes(np.array([[0, -1], [1, -1]]), [2, 2])
    >>> prediction_workload(T, query_matrix(np.array([[1, 1]]), [2, 2])).to_dense()
    array([[0., 0., 1., 1.]])
    """
    incidence = leaf_incidence(paths, queries)
    matrix = path_matrix(paths) if isinstance(paths, Forest) else paths
    distinct, number, _ = matrix.unique_rows()
    merged = sparse.csr_array(
        (incidence.data, number[incidence.indices], incidence.indptr),
        shape=(incidence.shape[0], distinct.shape[0]),
    )
    merged.sum_duplicates()
    reached, columns = np.unique(merged.indices, return_inverse=True)
    left = sparse.csr_array(
        (merged.data, columns.ravel(), merged.indptr), shape=(merged.shape[0], len(reached))
    )
    return Product(Sparse(left), distinct.take_rows(reached))


DRAWN_QUERIES = 128  # queries that stand for those to come, where none are given
MOST_CODES = 2**27  # of drawn queries: half a gigabyte


def public_queries(domain: Domain, queries: ArrayLike | None) -> Codes:
    """Return the codes of public queries, shape (b, d).

    `queries` (b, d): codes of queries, or how many to draw uniformly from the domain, always the
    same.
    """
    if queries is None or np.ndim(queries) == 0:
        count = DRAWN_QUERIES if queries is None else whole_number("queries", queries)
        if count * domain.n_attributes > MOST_CODES:
            raise ValueError(
                f"queries={short_repr(count)}: expected at most "
                f"{MOST_CODES // domain.n_attributes}, whose codes of {domain.n_attributes} "
                f"attributes fit in memory."
            )
        generator = np.random.default_rng(0)
        drawn = [generator.integers(0, size, count) for size in domain.sizes]
        return np.stack(drawn, axis=1).astype(np.int32)
    codes = np.asarray(checked_codes(queries, domain.sizes, domain.names), dtype=np.int32)
    if not len(codes):
        raise ValueError("queries is empty: expected at least one query, or their number.")
    return codes


def query_keys(ensembles: Sequence[Ensemble], codes: Codes) -> Codes:
    """Return the codes of queries in the attributes that some ensemble sees."""
    seen = sorted(set().union(*(ensemble.features for ensemble in ensembles)))
    return np.ascontiguousarray(codes[:, seen])


def distinct_queries(ensembles: Sequence[Ensemble], codes: Codes) -> tuple[Codes, Longs, Longs]:
    """Return the queries that differ to some ensemble, as first asked, and how often each is.

    Last comes which of them each of the queries is, shape (b,).
    """
    keys = query_keys(ensembles, codes)
    _, first, which, counts = np.unique(
        keys, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    return codes[first[order]], counts[order].astype(np.int64), np.argsort(order)[which.ravel()]
