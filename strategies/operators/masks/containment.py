"""Which attribute sets lie in which others."""

import numpy as np
from scipy import sparse

from strategies.operators.base.arrays import Bools
from strategies.operators.base.memory import check_allocation

MEETING = 4.0
"""Entries of a dense table that take as long as one attribute that two sets have in common."""


def contained(inner: Bools, outer: Bools) -> sparse.csc_array:
    """Return which sets of one table (u, d) lie in which of another (K, d), as ones (u, K).

    By the attributes that two sets have in common where most pairs have none; else by a product of
    float32 matrices, of shape (u, K).

    Examples
    --------
    >>> sets = np.array([[True, False], [True, True]])
    >>> contained(sets, sets).toarray()
    array([[1., 1.],
           [0., 1.]])
    """
    u, k = len(inner), len(outer)
    meetings = float(inner.sum(axis=0, dtype=np.float64) @ outer.sum(axis=0, dtype=np.float64))
    if MEETING * meetings > float(u) * k:
        check_allocation("containment of attribute sets", (k, u), 5)
        inside = (~outer).astype(np.float32) @ inner.T.astype(np.float32) == 0
        ends = np.concatenate([[0], np.cumsum(np.count_nonzero(inside, axis=1))])
        row = np.nonzero(inside)[1]
        return sparse.csc_array((np.ones(len(row)), row, ends), shape=(u, k))
    check_allocation("common attributes of sets", (int(meetings),), 16)
    tables = [sparse.csr_array(one.astype(np.int32)) for one in (inner, outer)]
    common = (tables[0] @ tables[1].T).tocoo()
    whole = common.data == inner.sum(axis=1)[common.coords[0]]
    empty = np.flatnonzero(~inner.any(axis=1))  # in every set, with nothing in common
    rows = np.concatenate([common.coords[0][whole], np.repeat(empty, k)])
    columns = np.concatenate([common.coords[1][whole], np.tile(np.arange(k), len(empty))])
    return sparse.csc_array((np.ones(len(rows)), (rows, columns)), shape=(u, k))
