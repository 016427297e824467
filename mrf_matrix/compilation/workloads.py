"""T and Q -> the workloads of batch prediction and of subsample-and-aggregate."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mrf_matrix.compilation.path_matrix import path_matrix
from mrf_matrix.compilation.queries import query_codes
from mrf_matrix.forests import Forest
from strategies.operators import Product, RowKronecker, Sparse


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
    ValueError
        If the two are not over the same attributes.

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
    sizes = paths.domain.sizes if isinstance(paths, Forest) else paths.sizes
    if sizes != queries.sizes:
        raise ValueError(
            f"queries is over attributes of sizes {queries.sizes} and paths over {sizes}: "
            f"expected the same. Compile both from one domain."
        )
    distinct, inverse, _ = queries.unique_rows()
    codes = query_codes(distinct)
    if isinstance(paths, Forest):
        incidence = _routed(paths, codes)
    else:
        incidence = sparse.csr_array(paths.columns(codes).T)
    return sparse.csr_array(incidence[inverse])


def _routed(forest: Forest, codes: NDArray[Any]) -> sparse.csr_array:
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
    ValueError
        If the two are not over the same attributes.

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
