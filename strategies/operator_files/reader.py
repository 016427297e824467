"""What a structure's rule reads with: every value is checked before it is used."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strategies.operators import Operator
from strategies.operators.base.arrays import Numbers

MAX_OPERATORS = 3000
MAX_DEPTH = 40
MAX_SIZES = 100_000
"""Most attribute sizes in all nodes together."""

MAX_CELLS = 2**26  # most columns of a matrix whose cells are numbered one by one

MAX_WORK = 2**37  # most multiply-adds of the checks that are not linear in the file

ARRAY_FIELDS = {"array", "type", "shape", "order"}
Node = dict[str, object]
"""What JSON keeps of an operator."""
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
    """Reads an operator with bounded memory and work.

    Parameters
    ----------
    rules : mapping of str to fields and callable
    fetch : callable
        Returns the array of a name, type and shape, or raises.
    prefix : str
        What the arrays' names begin with.
    """

    def __init__(self, rules: ReadRules, fetch: Fetch, prefix: str) -> None:
        self._rules = rules
        self._fetch = fetch
        self._prefix = prefix
        self._nesting = Nesting()
        self._sizes = self._work = 0
        self.names: set[str] = set()

    def operator(self, data: object, where: str = "") -> Operator:
        """Return the operator of a node."""
        kind = data.get("kind") if isinstance(data, dict) else None
        if not isinstance(kind, str) or kind not in self._rules:
            raise OperatorFileError(
                f"kind={str(kind)[:40]!r}: expected one of {sorted(self._rules)}."
            )
        fields, read = self._rules[kind]
        with self._nesting:
            return read(self.fields(data, {"kind", *fields}, kind), self)

    def operators(self, data: object, where: str) -> list[Operator]:
        """Return the operators of a list of nodes, at least one."""
        return [self.operator(item) for item in self.items(data, where)]

    @staticmethod
    def fields(data: object, names: set[str], where: str) -> Node:
        """Return an object that has exactly these fields."""
        if not isinstance(data, dict) or set(data) != names:
            raise OperatorFileError(f"{where}: expected an object with the keys {sorted(names)}.")
        return data

    @staticmethod
    def items(data: object, where: str) -> list[object]:
        """Return a list that is not empty."""
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
        """Return a finite number."""
        if isinstance(data, bool) or not isinstance(data, int | float) or not isfinite(data):
            raise OperatorFileError(f"{where}: expected a finite number.")
        return data

    def sizes(self, data: object, where: str) -> tuple[int, ...]:
        """Return attribute sizes, at least one."""
        items = self.items(data, where)
        self._sizes += len(items)
        if self._sizes > MAX_SIZES:
            raise OperatorFileError(f"{where}: more than {MAX_SIZES} attribute sizes in all.")
        sizes = tuple(self.integer(item, where, 1) for item in items)
        if max(sizes) >= 2**31:
            raise OperatorFileError(f"{where}: expected sizes below 2**31.")
        return sizes

    def sizes_or_none(self, data: object, where: str) -> tuple[int, ...] | None:
        """Return attribute sizes or None."""
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
