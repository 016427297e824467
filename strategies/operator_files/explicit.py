"""Rules for matrices that are given entry by entry, or cell by cell."""

import numpy as np
from scipy import sparse

from strategies.operator_files.reader import MAX_CELLS, Node, OperatorFileError, Reader
from strategies.operator_files.rule import Rule
from strategies.operator_files.writer import Writer
from strategies.operators import Dense, Gram, Grouping, Identity, Sparse
from strategies.operators.base.arrays import Longs

REAL = ("<i8", "<f8")
WHOLE = ("<i8",)


def write_dense(operator: Dense, writer: Writer) -> Node:
    """Write a matrix as it is."""
    return {"entries": writer.array(operator.array), "sizes": writer.sizes(operator.sizes)}


def read_dense(data: Node, reader: Reader) -> Dense:
    """Read finite real entries."""
    entries = reader.array(data["entries"], "dense", REAL, 2)
    return Dense(entries, reader.sizes_or_none(data["sizes"], "dense"))


def write_gram(operator: Gram, writer: Writer) -> Node:
    """Write ``WᵀW``."""
    return {"entries": writer.array(operator.array), "sizes": writer.sizes(operator.sizes)}


def read_gram(data: Node, reader: Reader) -> Gram:
    """Read a symmetric matrix, which the structure checks to be positive semidefinite."""
    entries = reader.array(data["entries"], "gram", ("<f8",), 2)
    reader.spend(10 * len(entries) ** 3, "gram")
    return Gram(entries, reader.sizes_or_none(data["sizes"], "gram"))


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


def write_identity(operator: Identity, writer: Writer) -> Node:
    """Write the number of cells."""
    return {"n": operator.n, "sizes": writer.sizes(operator.sizes)}


def read_identity(data: Node, reader: Reader) -> Identity:
    """Read a number of cells, of any size."""
    n = reader.integer(data["n"], "identity", 1)
    return Identity(n, reader.sizes_or_none(data["sizes"], "identity"))


def write_grouping(operator: Grouping, writer: Writer) -> Node:
    """Write every cell's group."""
    return {"labels": writer.array(operator.labels), "sizes": writer.sizes(operator.sizes)}


def read_grouping(data: Node, reader: Reader) -> Grouping:
    """Read groups that are numbered without gaps: no number exceeds the cells."""
    labels = reader.array(data["labels"], "grouping", WHOLE, 1)
    if not len(labels) or not 0 <= labels.min() <= labels.max() < len(labels):
        raise OperatorFileError("grouping: expected group numbers from 0, without gaps.")
    return Grouping(labels, reader.sizes_or_none(data["sizes"], "grouping"))


EXPLICIT = (
    Rule("dense", Dense, write_dense, read_dense, ("entries", "sizes")),
    Rule("gram", Gram, write_gram, read_gram, ("entries", "sizes")),
    Rule(
        "sparse",
        Sparse,
        write_sparse,
        read_sparse,
        ("values", "indices", "starts", "columns", "sizes"),
    ),
    Rule("identity", Identity, write_identity, read_identity, ("n", "sizes")),
    Rule("grouping", Grouping, write_grouping, read_grouping, ("labels", "sizes")),
)
