"""Records -> Q: every test record is one indicator row over the cells of the domain."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation.path_matrix import domain_sizes
from mrf_matrix.domain import Domain
from mrf_matrix.forests.codes import checked_codes
from strategies.operators import RowKronecker, check_allocation


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
