"""Rules for workloads over ordered cells, and strategies for them."""

from strategies.operator_files.explicit import read_sparse, write_sparse
from strategies.operator_files.reader import MAX_CELLS, Node, OperatorFileError, Reader
from strategies.operator_files.rule import Rule
from strategies.operator_files.writer import Writer
from strategies.operators import Sparse
from strategies.operators.ordered.all_ranges import AllRanges
from strategies.operators.ordered.p_identity import PIdentity
from strategies.operators.ordered.prefix_sums import PrefixSums


def write_cells(operator: PrefixSums | AllRanges, writer: Writer) -> Node:
    """Write the number of cells."""
    return {"n": operator.n}


def read_prefix_sums(data: Node, reader: Reader) -> PrefixSums:
    """Read a number of cells."""
    return PrefixSums(_cells(data, reader, "prefix_sums"))


def read_all_ranges(data: Node, reader: Reader) -> AllRanges:
    """Read a number of cells."""
    return AllRanges(_cells(data, reader, "all_ranges"))


def _cells(data: Node, reader: Reader, kind: str) -> int:
    n = reader.integer(data["n"], kind, 1)
    if n > MAX_CELLS:
        raise OperatorFileError(f"{kind}: {n} cells: expected at most {MAX_CELLS}.")
    return n


def write_p_identity(operator: PIdentity, writer: Writer) -> Node:
    """Write the diagonal and the rows beside it."""
    rows = write_sparse(Sparse(operator.rows, operator.sizes), writer)
    return {"diagonal": writer.array(operator.diagonal), **rows}


def read_p_identity(data: Node, reader: Reader) -> PIdentity:
    """Read a diagonal, which the structure checks to have no zeros, and rows in CSR form."""
    diagonal = reader.array(data["diagonal"], "p_identity", ("<i8", "<f8"), 1)
    rows = read_sparse(data, reader)
    return PIdentity(diagonal, rows.matrix, rows.sizes)


ORDERED = (
    Rule("prefix_sums", PrefixSums, write_cells, read_prefix_sums, ("n",)),
    Rule("all_ranges", AllRanges, write_cells, read_all_ranges, ("n",)),
    Rule(
        "p_identity",
        PIdentity,
        write_p_identity,
        read_p_identity,
        ("diagonal", "values", "indices", "starts", "columns", "sizes"),
    ),
)
