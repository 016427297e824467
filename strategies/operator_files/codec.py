"""Operators to plain values and back, by the rule of each structure."""

from collections.abc import Mapping

import numpy as np

from strategies.operator_files.reader import Fetch, Node, OperatorFileError, Reader
from strategies.operator_files.rules import RULES
from strategies.operator_files.writer import Writer
from strategies.operators import Operator
from strategies.operators.base.arrays import Numbers

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
