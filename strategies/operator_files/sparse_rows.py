"""Sparse rows in files: the three arrays of the CSR form, and every cell's own beside them."""

import numpy as np
from scipy import sparse

from strategies.operator_files.reader import MAX_CELLS, Node, OperatorFileError, Reader
from strategies.operator_files.writer import Writer
from strategies.operators import PIdentity, Sparse
from strategies.operators.base.arrays import Longs

REAL = ("<i8", "<f8")
WHOLE = ("<i8",)


def write_sparse(operator: Sparse, writer: Writer) -> Node:
    """Write the three arrays of the CSR form."""
    form = operator.matrix
    _check_columns(int(form.shape[1]))
    return {
        "values": writer.array(form.data),
        "indices": writer.array(form.indices.astype(np.int64)),
        "starts": writer.array(form.indptr.astype(np.int64)),
        "columns": int(form.shape[1]),
        "sizes": writer.sizes(operator.sizes),
    }


def read_sparse(data: Node, reader: Reader) -> Sparse:
    """Read a CSR form whose indices are in order and within the matrix."""
    values = reader.array(data["values"], "sparse: values", REAL, 1)
    indices = reader.array(data["indices"], "sparse: indices", WHOLE, 1)
    starts = reader.array(data["starts"], "sparse: starts", WHOLE, 1)
    n = reader.integer(data["columns"], "sparse: columns", 1)
    _check_csr(indices, starts, len(values), n)
    form = sparse.csr_array((values, indices, starts), shape=(len(starts) - 1, n))
    return Sparse(form, reader.sizes_or_none(data["sizes"], "sparse"))


def _check_csr(indices: Longs, starts: Longs, count: int, columns: int) -> None:
    _check_columns(columns)
    if len(starts) < 2 or starts[0] != 0 or starts[-1] != count or (np.diff(starts) < 0).any():
        raise OperatorFileError(f"sparse: starts: expected numbers rising from 0 to {count}.")
    if len(indices) != count or (count and not 0 <= indices.min() <= indices.max() < columns):
        raise OperatorFileError(f"sparse: indices: expected {count} numbers below {columns}.")
    if count > 1:
        rising = np.diff(indices) > 0
        rising[starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < count)] - 1] = True
        if not rising.all():
            raise OperatorFileError("sparse: indices: expected them to rise within each row.")


def _check_columns(columns: int) -> None:
    if columns > MAX_CELLS:
        raise OperatorFileError(f"sparse: {columns} columns: expected at most {MAX_CELLS}.")


def write_p_identity(operator: PIdentity, writer: Writer) -> Node:
    """Write the diagonal and the rows beside it."""
    rows = write_sparse(Sparse(operator.rows, operator.sizes), writer)
    return {"diagonal": writer.array(operator.diagonal), **rows}


def read_p_identity(data: Node, reader: Reader) -> PIdentity:
    """Read a diagonal, which the structure checks to have no zeros, and rows in CSR form."""
    diagonal = reader.array(data["diagonal"], "p_identity", REAL, 1)
    rows = read_sparse(data, reader)
    return PIdentity(diagonal, rows.matrix, rows.sizes)
