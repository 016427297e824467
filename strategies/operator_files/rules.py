"""One rule for each structure: the fields of its node, in the order of its constructor.

Groups of paths are checked anew to be disjoint, which is quick for a tree's leaves and bounded for
anything else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strategies.operator_files.fields import (
    MAX_CELLS,
    REAL,
    WHOLE,
    Node,
    OperatorFileError,
    Reader,
    Writer,
    read_p_identity,
    read_sparse,
    write_p_identity,
    write_sparse,
)
from strategies.operators import (
    AllRanges,
    Dense,
    Gram,
    Grouping,
    Identity,
    JointMarginals,
    Kronecker,
    Marginals,
    ObliqueResiduals,
    Operator,
    PIdentity,
    PrefixSums,
    Product,
    ProductMarginals,
    Ranges,
    RowKronecker,
    RowScaled,
    Scaled,
    Semiseparable,
    Sparse,
    Stack,
    TableStack,
    Toeplitz,
    Transposed,
    WeightedKronecker,
)
from strategies.operators.base.arrays import Array, Longs
from strategies.operators.masks.heaviest_cell import search_seconds

SEARCHED = 2**32  # operations for each second of a search over all cells


def build_row_kronecker(
    reader: Reader, bits: NDArray[np.uint8], sizes: tuple[int, ...], groups: Longs | None
) -> RowKronecker:
    """Check masks; groups of rows anew to be disjoint, for sensitivities rest on it."""
    _check_bits(bits, sizes)
    operator = RowKronecker(bits, sizes)
    if operator.is_enumerable:  # then its rows may be counted over every cell
        counting = operator.shape[1] * min(len(bits), 64) + int(operator.halves.work)
        reader.spend(counting, "row_kronecker")
    if groups is None:
        return operator
    if len(groups) != len(bits):
        raise OperatorFileError("row_kronecker: groups: expected one number for each row.")
    return operator.with_groups(groups, lambda work: reader.spend(work, "row_kronecker: groups"))


def build_product(reader: Reader, left: Operator, right: Operator) -> Product:
    """Combine both factors; paths may be searched for their sensitivity over all cells."""
    product = Product(left, right)
    if isinstance(left, Dense) and isinstance(right, RowKronecker):
        reader.spend(int(SEARCHED * search_seconds(right.all_masks())), "product")
    return product


def _check_bits(bits: NDArray[np.uint8], sizes: tuple[int, ...]) -> None:
    """Refuse masks of another length than the sizes say, or with bits set behind their end."""
    width = sum(sizes)
    if not len(bits) or bits.shape[1] != -(-width // 8):
        raise OperatorFileError(
            f"row_kronecker: bits of shape {bits.shape}: expected rows of {-(-width // 8)} bytes "
            f"for {width} codes."
        )
    if width % 8 and (bits[:, -1] & (255 >> width % 8)).any():
        raise OperatorFileError("row_kronecker: bits: expected none set behind the last code.")


@dataclass(frozen=True)
class Field:
    """One value of a structure, which files keep as plain data."""

    # from a `Reader`, plain data and the place that messages name to the checked value
    read: Callable[[Reader, object, str], Any]
    attribute: str = ""  # the structure's own name of the value, where it is not the field's


@dataclass(frozen=True)
class Rule:
    """A pair of functions for one structure."""

    kind: str  # its name in files, never used again for another structure
    structure: type[Operator]
    write: Callable[[Any, Writer], Node]
    read: Callable[[Node, Reader], Operator]
    fields: tuple[str, ...]  # of its node

    @classmethod
    def from_fields(
        cls,
        kind: str,
        structure: type[Operator],
        fields: Mapping[str, Field],
        build: Callable[..., Operator] | None = None,
    ) -> "Rule":
        """Return the rule of a structure that is made from its fields' values, in their order.

        `build`: makes it from a `Reader` and those values, where they are not its arguments.
        """

        def write(operator: Operator, writer: Writer) -> Node:
            return {
                name: writer.value(getattr(operator, one.attribute or name))
                for name, one in fields.items()
            }

        def read(data: Node, reader: Reader) -> Operator:
            pairs = fields.items()
            values = [one.read(reader, data[name], f"{kind}: {name}") for name, one in pairs]
            return structure(*values) if build is None else build(reader, *values)

        return cls(kind, structure, write, read, tuple(fields))


def array_field(types: tuple[str, ...], ndim: int, attribute: str = "") -> Field:
    return Field(lambda reader, data, where: reader.array(data, where, types, ndim), attribute)


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


def read_groups(reader: Reader, data: object, where: str) -> Longs | None:
    return None if data is None else reader.array(data, where, WHOLE, 1)


SIZES = Field(Reader.sizes_or_none)
SETS, WEIGHTS = Field(read_sets), Field(read_numbers)
CELLS = Field(read_cells)
ANY_CELLS = Field(lambda reader, data, where: reader.integer(data, where, 1))
OPERATOR, OPERATORS = Field(Reader.operator), Field(Reader.operators)
REALS, WHOLES, FLOATS = array_field(REAL, 1), array_field(WHOLE, 1), array_field(("<f8",), 2)
TABLES = {"attribute_sets": SETS, "weights": WEIGHTS}
FRAMED = {"factors": OPERATORS, **TABLES}
CSR = ("values", "indices", "starts", "columns", "sizes")

RULES = (
    Rule.from_fields("dense", Dense, {"entries": array_field(REAL, 2, "array"), "sizes": SIZES}),
    Rule.from_fields("gram", Gram, {"entries": Field(read_gram, "array"), "sizes": SIZES}),
    Rule("sparse", Sparse, write_sparse, read_sparse, CSR),
    Rule.from_fields("identity", Identity, {"n": ANY_CELLS, "sizes": SIZES}),
    Rule.from_fields("grouping", Grouping, {"labels": Field(read_labels), "sizes": SIZES}),
    Rule.from_fields(
        "row_kronecker",
        RowKronecker,
        {
            "bits": array_field(("|u1",), 2),
            "sizes": Field(Reader.sizes),
            "groups": Field(read_groups),
        },
        build_row_kronecker,
    ),
    Rule.from_fields("marginals", Marginals, {"sizes": Field(Reader.sizes), **TABLES}),
    Rule.from_fields("oblique_residuals", ObliqueResiduals, FRAMED),
    Rule.from_fields("product_marginals", ProductMarginals, FRAMED),
    Rule.from_fields(
        "table_stack", TableStack, {"sizes": SIZES, "attribute_sets": SETS, "blocks": OPERATORS}
    ),
    Rule.from_fields("prefix_sums", PrefixSums, {"n": CELLS}),
    Rule.from_fields("all_ranges", AllRanges, {"n": CELLS}),
    Rule.from_fields(
        "ranges", Ranges, {"n": CELLS, "starts": WHOLES, "stops": WHOLES, "weights": REALS}
    ),
    Rule.from_fields("semiseparable", Semiseparable, {"outputs": FLOATS, "factors": FLOATS}),
    Rule.from_fields("toeplitz", Toeplitz, {"n": CELLS, "coefficients": REALS}),
    Rule("p_identity", PIdentity, write_p_identity, read_p_identity, ("diagonal", *CSR)),
    Rule.from_fields("scaled", Scaled, {"weight": Field(Reader.number), "inner": OPERATOR}),
    Rule.from_fields("row_scaled", RowScaled, {"weights": REALS, "inner": OPERATOR}),
    Rule.from_fields(
        "weighted_kronecker", WeightedKronecker, {"weights": REALS, "inner": OPERATOR}
    ),
    Rule.from_fields("stack", Stack, {"blocks": OPERATORS}),
    Rule.from_fields("joint_marginals", JointMarginals, {"blocks": OPERATORS}),
    Rule.from_fields("kronecker", Kronecker, {"factors": OPERATORS}),
    Rule.from_fields("product", Product, {"left": OPERATOR, "right": OPERATOR}, build_product),
    Rule.from_fields("transposed", Transposed, {"inner": OPERATOR}),
)
"""One rule for each structure."""
