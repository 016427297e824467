"""One rule for each structure: what stands in files, in the order in which it is made from it."""

from strategies.operator_files.paths import read_row_kronecker, write_row_kronecker
from strategies.operator_files.reader import MAX_CELLS, OperatorFileError, Reader
from strategies.operator_files.rule import Field, Rule, array_field
from strategies.operator_files.sparse_rows import (
    REAL,
    WHOLE,
    read_p_identity,
    read_sparse,
    write_p_identity,
    write_sparse,
)
from strategies.operator_files.writer import Writer
from strategies.operators import (
    AllRanges,
    Dense,
    Gram,
    Grouping,
    Identity,
    Kronecker,
    Marginals,
    ObliqueResiduals,
    Partition,
    PIdentity,
    PrefixSums,
    Product,
    Ranges,
    ResidualMarginals,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
    TableStack,
    Transposed,
)
from strategies.operators.base.arrays import Array, Longs

MAX_SET_MEMBERS = 2**20


def read_gram(reader: Reader, data: object, where: str) -> Array:
    """Read a symmetric matrix, which the structure checks to be positive semidefinite."""
    entries: Array = reader.array(data, where, ("<f8",), 2)
    reader.spend(10 * len(entries) ** 3, where)
    return entries


def read_labels(reader: Reader, data: object, where: str) -> Longs:
    """Read groups that are numbered without gaps: no number exceeds the cells."""
    labels: Longs = reader.array(data, where, WHOLE, 1)
    if not len(labels) or not 0 <= labels.min() <= labels.max() < len(labels):
        raise OperatorFileError(f"{where}: expected group numbers from 0, without gaps.")
    return labels


def read_cells(reader: Reader, data: object, where: str) -> int:
    """Read a number of cells that are built one by one."""
    n = reader.integer(data, where, 1)
    if n > MAX_CELLS:
        raise OperatorFileError(f"{where}: {n} cells: expected at most {MAX_CELLS}.")
    return n


def read_sets(reader: Reader, data: object, where: str) -> list[list[int]]:
    """Read attribute sets, which the structure checks against its attributes."""
    sets = reader.items(data, where)
    if not all(isinstance(one, list) for one in sets):
        raise OperatorFileError(f"{where}: expected lists of attribute numbers.")
    members = [[reader.integer(i, where) for i in one] for one in sets if isinstance(one, list)]
    if sum(map(len, members)) > MAX_SET_MEMBERS:
        raise OperatorFileError(f"{where}: more than {MAX_SET_MEMBERS} members of sets.")
    return members


def read_numbers(reader: Reader, data: object, where: str) -> list[float]:
    """Read finite numbers; whole ones stay whole."""
    return [reader.number(item, where) for item in reader.items(data, where)]


def plain(_: Writer, value: object) -> object:
    """Return a number as it is."""
    return value


def plain_list(_: Writer, values: tuple[object, ...]) -> list[object]:
    """Return numbers, or tuples of them, as JSON has them."""
    return [list(one) if isinstance(one, tuple) else one for one in values]


SIZES = Field(Writer.sizes, Reader.sizes_or_none)
ATTRIBUTES = Field(plain_list, Reader.sizes, "domain_sizes")
SETS = Field(plain_list, read_sets)
WEIGHTS = Field(plain_list, read_numbers)
CELLS = Field(plain, read_cells)
ANY_CELLS = Field(plain, lambda reader, data, where: reader.integer(data, where, 1))
NUMBER = Field(plain, Reader.number)
OPERATOR = Field(Writer.operator, Reader.operator)
OPERATORS = Field(Writer.operators, Reader.operators)
TABLES = {"sizes": ATTRIBUTES, "attribute_sets": SETS, "weights": WEIGHTS}
CSR = ("values", "indices", "starts", "columns", "sizes")

RULES = (
    Rule.by_fields("dense", Dense, {"entries": array_field(REAL, 2, "array"), "sizes": SIZES}),
    Rule.by_fields(
        "gram", Gram, {"entries": Field(Writer.array, read_gram, "array"), "sizes": SIZES}
    ),
    Rule("sparse", Sparse, write_sparse, read_sparse, CSR),
    Rule.by_fields("identity", Identity, {"n": ANY_CELLS, "sizes": SIZES}),
    Rule.by_fields(
        "grouping", Grouping, {"labels": Field(Writer.array, read_labels), "sizes": SIZES}
    ),
    Rule(
        "row_kronecker",
        RowKronecker,
        write_row_kronecker,
        read_row_kronecker,
        ("bits", "sizes", "groups"),
    ),
    Rule.by_fields("marginals", Marginals, TABLES),
    Rule.by_fields("residual_marginals", ResidualMarginals, TABLES),
    Rule.by_fields(
        "oblique_residuals",
        ObliqueResiduals,
        {"factors": OPERATORS, "attribute_sets": SETS, "weights": WEIGHTS},
    ),
    Rule.by_fields(
        "table_stack",
        TableStack,
        {"sizes": SIZES, "attribute_sets": SETS, "blocks": OPERATORS},
    ),
    Rule.by_fields("prefix_sums", PrefixSums, {"n": CELLS}),
    Rule.by_fields("all_ranges", AllRanges, {"n": CELLS}),
    Rule.by_fields(
        "ranges",
        Ranges,
        {
            "n": CELLS,
            "starts": array_field(WHOLE, 1),
            "stops": array_field(WHOLE, 1),
            "weights": array_field(REAL, 1),
        },
    ),
    Rule("p_identity", PIdentity, write_p_identity, read_p_identity, ("diagonal", *CSR)),
    Rule.by_fields("scaled", Scaled, {"weight": NUMBER, "inner": OPERATOR}),
    Rule.by_fields("row_scaled", RowScaled, {"weights": array_field(REAL, 1), "inner": OPERATOR}),
    Rule.by_fields("stack", Stack, {"blocks": OPERATORS}),
    Rule.by_fields("partition", Partition, {"blocks": OPERATORS}),
    Rule.by_fields("kronecker", Kronecker, {"factors": OPERATORS}),
    Rule.by_fields("product", Product, {"left": OPERATOR, "right": OPERATOR}),
    Rule.by_fields("transposed", Transposed, {"inner": OPERATOR}),
)
"""One rule for each structure."""
