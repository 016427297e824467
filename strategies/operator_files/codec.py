"""Operators to plain values and back, by the rule of each structure, and as one file.

A rule says the fields of a structure's node, in the order of its constructor. Groups of paths are
checked anew to be disjoint, which is quick for a tree's leaves and bounded for anything else.
"""

import json
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from strategies.operator_files.fields import (
    MAX_CELLS,
    REAL,
    WHOLE,
    Fetch,
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
    MemoryCapError,
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
    check_allocation,
)
from strategies.operators.base.arrays import Array, Longs, Numbers
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


_BY_TYPE = {rule.structure: (rule.kind, rule.write) for rule in RULES}
_BY_KIND = {rule.kind: (rule.fields, rule.read) for rule in RULES}


def encode(operator: Operator, prefix: str = "") -> tuple[Node, dict[str, Numbers]]:
    """Return an operator as a tree of plain values, ready for JSON, and a table of arrays.

    Parameters
    ----------
    operator : Operator
    prefix : str, default=""
        What the arrays' names begin with.

    Raises
    ------
    OperatorFileError
        If a structure has no rule; it is named.

    Examples
    --------
    >>> from strategies.operators import Identity, Scaled
    >>> encode(Scaled(2, Identity(3)))
    ({'kind': 'scaled', 'weight': 2, 'inner': {'kind': 'identity', 'n': 3, 'sizes': None}}, {})
    """
    writer = Writer(_BY_TYPE, prefix)
    tree = writer.operator(operator)
    return tree, writer.arrays


def decode(
    tree: object, arrays: Mapping[str, Numbers] | Fetch, prefix: str = ""
) -> tuple[Operator, set[str]]:
    """Return the operator of a tree, and the names of the arrays that it took.

    The operator has the same structure, entries and memory layout as the one that was encoded,
    and so computes the same to the last bit.

    Parameters
    ----------
    tree : dict
        From `encode`, or from anyone.
    arrays : mapping of str to ndarray, or callable
        The arrays; a callable returns the array of a name, type and shape, or raises.
    prefix : str, default=""
        What the arrays' names begin with.

    Raises
    ------
    ValueError, TypeError, ArithmeticError
        If the tree is no operator, or would take too much memory or work to check. Values out of
        a structure's range are refused by the structure.

    Examples
    --------
    >>> from strategies.operators import Grouping
    >>> decode(*encode(Grouping([0, 1, 0])))[0]
    Grouping(2 x 3)
    """
    fetch = _fetch_from(arrays) if isinstance(arrays, Mapping) else arrays
    reader = Reader(_BY_KIND, fetch, prefix)
    operator = reader.operator(tree)
    return operator, reader.names


def _fetch_from(arrays: Mapping[str, Numbers]) -> Fetch:
    def fetch(name: str, dtype: str, shape: tuple[int, ...]) -> Numbers:
        array = arrays.get(name)
        if array is None or array.dtype != np.dtype(dtype) or array.shape != shape:
            raise OperatorFileError(f"array {name!r}: expected {dtype} of shape {shape}.")
        return array

    return fetch


VALUES = "values.json"
MOST_TEXT = 2**24
"""Bytes of the plain values and the operator's tree."""

MOST_SAID = 1000  # characters of what was wrong


def write_operator(
    operator: Operator, values: Mapping[str, object], path: "str | os.PathLike[str]"
) -> None:
    """Write an operator and plain values as a zip of JSON and ``.npy`` arrays, whole or not."""
    tree, arrays = encode(operator)
    text = json.dumps({"operator": tree, **values})
    place = Path(path)
    with NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}.", delete=False) as draft:
        try:
            np.savez(draft, allow_pickle=False, **{VALUES: np.frombuffer(text.encode(), np.uint8)})
            with zipfile.ZipFile(draft, "a") as archive:
                for name, array in arrays.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            draft.close()
            os.replace(draft.name, place)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise


def read_operator(path: "str | os.PathLike[str]") -> tuple[Operator, dict[str, object]]:
    """Return the operator and the plain values of a file, which may come from anyone."""
    try:
        with _open_file(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            sizes = {one.filename: one.file_size for one in members}
            check_allocation(f"arrays of {path}", (sum(one.file_size for one in members),), 1)
            if len(sizes) < len(members) or sizes.get(f"{VALUES}.npy", MOST_TEXT) >= MOST_TEXT:
                raise OperatorFileError(f"{path} holds no operator, or one of too many parts.")
            arrays = {one.filename.removesuffix(".npy"): _array(archive, one) for one in members}
        values = json.loads(arrays.pop(VALUES).tobytes(), object_pairs_hook=_refuse_repeats)
        operator, _ = decode(values.pop("operator"), arrays)
    except (FileNotFoundError, PermissionError, MemoryError, MemoryCapError, OperatorFileError):
        raise
    except (OSError, zipfile.BadZipFile, ValueError, TypeError, KeyError, ArithmeticError,
            AttributeError, RecursionError) as error:  # fmt: skip
        said = str(error)[:MOST_SAID]
        raise OperatorFileError(f"{path} is no operator's file: {said}") from error
    return operator, values


@contextmanager
def _open_file(path: "str | os.PathLike[str]") -> Iterator[BinaryIO]:
    """Give a regular file to read, no larger than the memory cap: no pipe, which has no end."""
    waits_for_nobody = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OperatorFileError(f"{os.fspath(path)} is no regular file: expected one.")
    with os.fdopen(os.open(path, os.O_RDONLY | waits_for_nobody), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OperatorFileError(f"{os.fspath(path)} is no regular file: expected one.")
        check_allocation(f"the file {os.fspath(path)}", (found.st_size,), 1)
        yield file


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Return a member as an array whose header says as many bytes as there are."""
    with archive.open(info) as member:
        content = member.read(info.file_size)
    file = BytesIO(content)
    form = np.lib.format
    version = form.read_magic(file)
    read = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"the array {info.filename[:50]!r} has an unknown format.")
    shape, in_columns, dtype = read[version](file)
    if dtype.hasobject or prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"the array {info.filename[:50]!r} is not as long as it declares.")
    flat = np.frombuffer(content, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if in_columns else "C")


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated.")
    return found
