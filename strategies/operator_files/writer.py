"""What a structure's rule writes with: arrays under numbers, operators within operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from strategies.operator_files.reader import Nesting, Node, OperatorFileError
from strategies.operators import Operator
from strategies.operators.base.arrays import Numbers

TYPES = {"i": "<i8", "f": "<f8", "u": "|u1"}


WriteRules = Mapping[type[Operator], tuple[str, "Callable[[Any, Writer], Node]"]]
"""By structure: its kind, and what makes the fields of a node of it."""


class Writer:
    """Collects the arrays of an operator under consecutive names.

    Parameters
    ----------
    rules : mapping of type to kind and callable
    prefix : str
        What the arrays' names begin with.
    """

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

    def operators(self, operators: Sequence[Operator]) -> list[Node]:
        """Return the nodes of several operators, in order."""
        return [self.operator(one) for one in operators]

    def sizes(self, sizes: tuple[int, ...] | None) -> list[int] | None:
        """Return attribute sizes as a list."""
        return None if sizes is None else list(sizes)
