"""One structure's way into a file and back, written field by field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from strategies.operator_files.reader import Node, Reader
from strategies.operator_files.writer import Writer
from strategies.operators import Operator


@dataclass(frozen=True)
class Rule:
    """A pair of functions for one structure.

    Attributes
    ----------
    kind : str
        The structure's name in files. It is never used again for another structure.
    structure : type of Operator
    write : callable
        From an operator and a `Writer` to the fields of its node.
    read : callable
        From the fields of a node and a `Reader` to the operator, or an error.
    fields : tuple of str
        The fields of its node.
    """

    kind: str
    structure: type[Operator]
    write: Callable[[Any, Writer], Node]
    read: Callable[[Node, Reader], Operator]
    fields: tuple[str, ...]

    @classmethod
    def by_fields(
        cls, kind: str, structure: type[Operator], fields: "Mapping[str, Field]"
    ) -> "Rule":
        """Return the rule of a structure that is made from its fields' values, in their order."""

        def write(operator: Operator, writer: Writer) -> Node:
            return {
                name: one.write(writer, getattr(operator, one.attribute or name))
                for name, one in fields.items()
            }

        def read(data: Node, reader: Reader) -> Operator:
            values = [
                one.read(reader, data[name], f"{kind}: {name}") for name, one in fields.items()
            ]
            return structure(*values)

        return cls(kind, structure, write, read, tuple(fields))


@dataclass(frozen=True)
class Field:
    """One value of a structure: to plain data, and back with every check."""

    write: Callable[[Writer, Any], object]  # from a `Writer` and the value to plain data
    # from a `Reader`, plain data and the place that messages name to the value
    read: Callable[[Reader, object, str], Any]
    attribute: str = ""  # the structure's own name of the value, where it is not the field's


def array_field(types: tuple[str, ...], ndim: int, attribute: str = "") -> Field:
    """Return the field of an array of one of some types."""
    return Field(
        Writer.array, lambda reader, data, where: reader.array(data, where, types, ndim), attribute
    )
