"""Explicit matrices, dense or sparse, treated alike: as floats, as exact integers, as a shape.

Integer entries and their column sums stay exact in 64 bits, or are refused.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from strategies.operators.base.arrays import Array, Form, Longs, Real
from strategies.operators.base.validation import plain_array


def densified(form: ArrayLike | sparse.sparray | sparse.spmatrix) -> Array:
    """Return an ndarray of floats from either explicit form."""
    if sparse.issparse(form):
        return np.asarray(form.toarray(), dtype=np.float64)
    return np.asarray(plain_array("matrix", form), dtype=np.float64)


def as_shape(rows: int, columns: int) -> tuple[int, int]:
    """Return a shape as exact Python integers."""
    return int(rows), int(columns)


def integer_form(form: Form) -> sparse.csr_array:
    """Return a CSR array with every entry rounded to the nearest integer, zeros dropped."""
    matrix = sparse.csr_array(form)
    check_range(float(np.abs(matrix.data).max(initial=0.0)))
    data = np.rint(matrix.data).astype(np.int64)
    rounded = sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    rounded.eliminate_zeros()
    return rounded


def exact_column_sums(form: sparse.csr_array, power: int) -> Longs:
    """Return the column sums of ``|a| ** power`` of integer entries, power 1 or 2, shape (n,)."""
    matrix = abs(form).astype(np.int64)
    check_range(float(abs(matrix).max()) ** power * form.shape[0])
    if power == 2:
        matrix = matrix * matrix
    return np.asarray(matrix.sum(axis=0), dtype=np.int64)


def check_range(largest: float) -> None:
    """Refuse integers that would not stay exact in 64 bits."""
    if largest >= 2.0**62:
        raise OverflowError(
            f"integer entries or their column sums reach {largest:.3g}: expected less than 2**62. "
            f"Round with a smaller scale."
        )


def exact_entries(array: Real) -> Real:
    """Return absolute entries whose sums of squares are exact: as Python integers if need be."""
    sizes = np.abs(array)
    if sizes.dtype.kind == "f" or int(sizes.max(initial=0)) ** 2 * max(len(sizes), 1) < 2**63:
        return sizes
    return sizes.astype(object)
