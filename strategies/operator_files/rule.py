"""One structure's way into a file and back."""

from collections.abc import Callable
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
