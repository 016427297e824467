"""Reader and writer of structures' values: every value is checked before it is used."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from strategies.operators import Operator, PIdentity, Sparse
from strategies.operators.base.arrays import Longs, Numbers

MAX_OPERATORS = 3000
MAX_DEPTH = 40
MAX_SIZES = 100_000
"""Most attribute sizes in all nodes together."""

MAX_CELLS = 2**26  # most columns of a matrix whose cells are numbered one by one

MAX_WORK = 2**37  # most multiply-adds of the checks that are not linear in the file

ARRAY_FIELDS = {"array", "type", "shape", "order"}
Node = dict[str, object]
"""An operator's plain values, as JSON keeps them."""
Fetch = Callable[[str, str, tuple[int, ...]], Numbers]


class OperatorFileError(ValueError):
    """An operator that has no form in files, or a form that is no operator."""


class Nesting:
    """Counts operators, and how deep they stand within each other."""

    def __init__(self) -> None:
        self._operators = self._depth = 0

    def __enter__(self) -> None:
        self._operators += 1
        self._depth += 1
        if self._operators > MAX_OPERATORS or self._depth > MAX_DEPTH:
            raise OperatorFileError(
                f"more than {MAX_OPERATORS} operators, or {MAX_DEPTH} within each other."
            )

    def __exit__(self, *raised: object) -> None:
        self._depth -= 1


ReadRules = Mapping[str, tuple[tuple[str, ...], "Callable[[Node, Reader], Operator]"]]
"""By kind: the fields of a node, and what makes an operator of them."""


class Reader:
    """Reads an operator with bounded memory and work; names of arrays begin with `prefix`."""

    def __init__(self, rules: ReadRules, fetch: Fetch, prefix: str) -> None:
        self._rules = rules
        self._fetch = fetch
        self._prefix = prefix
        self._nesting = Nesting()
        self._sizes = self._work = 0
        self.names: set[str] = set()

    def operator(self, data: object, where: str = "") -> Operator:
        kind = data.get("kind") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind not in self._rules:
            raise OperatorFileError(
                f"kind={str(kind)[:40]!r}: expected one of {sorted(self._rules)}."
            )
        fields, read = self._rules[kind]
        with self._nesting:
            return read(self.fields(data, {"kind", *fields}, kind), self)

    def operators(self, data: object, where: str) -> list[Operator]:
        return [self.operator(item) for item in self.items(data, where)]

    @staticmethod
    def fields(data: object, names: set[str], where: str) -> Node:
        """Return an object that has exactly these fields."""
        if not isinstance(data, dict) or set(data) != names:
            raise OperatorFileError(f"{where}: expected an object with the keys {sorted(names)}.")
        return data

    @staticmethod
    def items(data: object, where: str) -> list[object]:
        if not isinstance(data, list) or not data:
            raise OperatorFileError(f"{where}: expected a list that is not empty.")
        return data

    @staticmethod
    def integer(data: object, where: str, least: int = 0) -> int:
        """Return a whole number of at least ``least``; no bool, no float."""
        if not isinstance(data, int) or isinstance(data, bool) or data < least:
            raise OperatorFileError(f"{where}: expected a whole number of at least {least}.")
        return data

    def number(self, data: object, where: str) -> int | float:
        if isinstance(data, bool) or not isinstance(data, int | float) or not isfinite(data):
            raise OperatorFileError(f"{where}: expected a finite number.")
        return data

    def sizes(self, data: object, where: str) -> tuple[int, ...]:
        items = self.items(data, where)
        self._sizes += len(items)
        if self._sizes > MAX_SIZES:
            raise OperatorFileError(f"{where}: more than {MAX_SIZES} attribute sizes in all.")
        sizes = tuple(self.integer(item, where, 1) for item in items)
        if max(sizes) >= 2**31:
            raise OperatorFileError(f"{where}: expected sizes below 2**31.")
        return sizes

    def sizes_or_none(self, data: object, where: str) -> tuple[int, ...] | None:
        return None if data is None else self.sizes(data, where)

    def array(self, data: object, where: str, types: tuple[str, ...], ndim: int) -> NDArray[Any]:
        """Return an array of one of some types, once: no array stands in two places."""
        entry = self.fields(data, ARRAY_FIELDS, where)
        name = f"{self._prefix}{self.integer(entry['array'], where)}"
        shape = tuple(self.integer(n, where) for n in self.items(entry["shape"], where)[:3])
        kind, order = entry["type"], entry["order"]
        if (
            not isinstance(kind, str)
            or kind not in types
            or len(shape) != ndim
            or name in self.names
        ):
            raise OperatorFileError(
                f"{where}: expected an array of its own, of {ndim} dimensions and type "
                f"{' or '.join(types)}."
            )
        if order not in ("C", "F") or (order == "F" and ndim != 2):
            raise OperatorFileError(f"{where}: expected the order 'C' or 'F'.")
        self.names.add(name)
        stored = self._fetch(name, kind, shape[:: -1 if order == "F" else 1])
        native = np.array(stored, dtype=np.dtype(kind).newbyteorder("="), order="C")
        return native.T if order == "F" else native

    def spend(self, work: int, where: str) -> None:
        """Refuse a check that would take more work than all checks together may."""
        self._work += work
        if self._work > MAX_WORK:
            raise OperatorFileError(
                f"{where}: checking it takes more than {MAX_WORK} operations, the most that a "
                f"file may cause."
            )


TYPES = {"i": "<i8", "f": "<f8", "u": "|u1"}


WriteRules = Mapping[type[Operator], tuple[str, "Callable[[Any, Writer], Node]"]]
"""By structure: its kind, and what makes the fields of a node of it."""


class Writer:
    """Collects the arrays of an operator under consecutive names, which begin with `prefix`."""

    def __init__(self, rules: WriteRules, prefix: str) -> None:
        self._rules = rules
        self._prefix = prefix
        self._nesting = Nesting()
        self.arrays: dict[str, Numbers] = {}

    def operator(self, operator: Operator) -> Node:
        """Return the node of an operator, or refuse a structure without a rule by name."""
        rule = self._rules.get(type(operator))
        if rule is None:
            known = ", ".join(sorted(structure.__name__ for structure in self._rules))
            raise OperatorFileError(
                f"{operator!r} is a {type(operator).__name__}, a structure without a rule for "
                f"files: expected one of {known}. Wrap it as Sparse(operator.to_sparse()) if it "
                f"is small enough."
            )
        with self._nesting:  # what is written is not more than is read
            kind, write = rule
            return {"kind": kind, **write(operator, self)}

    def value(self, value: object) -> object:
        """Return plain data for a value of a structure; what is plain stays as it is."""
        if isinstance(value, Operator):
            return self.operator(value)
        if isinstance(value, np.ndarray):
            return self.array(value)
        return [self.value(one) for one in value] if isinstance(value, tuple) else value

    def array(self, values: Numbers) -> Node:
        """Keep an array in a plain type; return where it is and how it is laid out.

        The layout in memory is kept: linear algebra may round differently in another.
        """
        array = np.asarray(values)
        plain = array.astype(TYPES[array.dtype.kind], copy=False)
        by_column = plain.ndim == 2 and plain.flags.f_contiguous and not plain.flags.c_contiguous
        name = f"{self._prefix}{len(self.arrays)}"
        self.arrays[name] = plain.T if by_column else plain
        return {
            "array": len(self.arrays) - 1,
            "type": plain.dtype.str,
            "shape": list(plain.shape),
            "order": "F" if by_column else "C",
        }


REAL = ("<i8", "<f8")
WHOLE = ("<i8",)


def write_sparse(operator: Sparse, writer: Writer) -> Node:
    form = operator.matrix
    _check_columns(int(form.shape[1]))
    return {
        "values": writer.array(form.data),
        "indices": writer.array(form.indices),
        "starts": writer.array(form.indptr),
        "columns": int(form.shape[1]),
        "sizes": writer.value(operator.sizes),
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
    rows = write_sparse(Sparse(operator.rows, operator.sizes), writer)
    return {"diagonal": writer.array(operator.diagonal), **rows}


def read_p_identity(data: Node, reader: Reader) -> PIdentity:
    """Read a diagonal, which the structure checks to have no zeros, and rows in CSR form."""
    diagonal = reader.array(data["diagonal"], "p_identity", REAL, 1)
    rows = read_sparse(data, reader)
    return PIdentity(diagonal, rows.matrix, rows.sizes)
