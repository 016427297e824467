"""Records -> Q, and T and Q -> the workloads of prediction."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.compilation.paths import domain_sizes, path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_codes
from mrf_matrix.forests import Forest
from strategies.operators import Product, RowKronecker, Sparse, check_allocation


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
