"""Codes for public records without a domain: one code per distinct value.

Cuts between codes are then cuts between values, so a forest grown on the codes is the forest
grown on the raw values. A value that was not among the records gets the code of the nearest one:
code boundaries lie halfway between neighbouring values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array, Values
from mrf_matrix.domain import Attribute, Domain


@dataclass(frozen=True, eq=False)
class ValueCoding:
    """A domain read off public records, and what its codes stand for."""

    domain: Domain
    centres: tuple[Array | None, ...]  # raw value of each code of a numeric column; None for text
    text: tuple[int, ...]  # columns of text: they have no order


def code_values(X: Values, y: Values, names: Sequence[str] | None) -> ValueCoding:
    """Return the coding of a table of numbers and texts, and of its classes."""
    names = list(names) if names is not None else [f"x{i}" for i in range(X.shape[1])]
    attributes: list[Attribute] = []
    centres: list[Array | None] = []
    for i, name in enumerate(names):
        numbers = as_numbers(X[:, i])
        if numbers is None:
            values = sorted({str(value) for value in X[:, i]})
            attributes.append(Attribute(name, categories=values, unknown="other"))
            centres.append(None)
        else:
            attribute, centre = numeric_attribute(name, np.unique(numbers))
            attributes.append(attribute)
            centres.append(centre)
    target = "class" if "class" not in names else "target of the records"
    classes = Attribute(target, categories=np.unique(y).tolist())
    domain = Domain([one.read_off() for one in attributes], classes.read_off())
    text = tuple(i for i, centre in enumerate(centres) if centre is None)
    return ValueCoding(domain, tuple(centres), text)


def numeric_attribute(name: str, values: Array) -> tuple[Attribute, Array]:
    """Return bins with one of the sorted distinct values each, and the values.

    An attribute needs two edges: one or two values get a last bin that no record is in.
    """
    middle = values[:-1] + np.diff(values) / 2
    edges = np.where(middle > values[:-1], middle, values[1:])  # neighbours have nothing between
    centres = values
    while len(edges) < 2:
        last = max(centres[-1], values[-1])
        edges = np.append(edges, last + max(1.0, abs(last)))
        centres = np.append(centres, edges[-1])
    return Attribute(name, edges=edges.tolist(), outside="open"), centres


def as_numbers(column: Values) -> Array | None:
    """Return a column as floats, or None where it holds texts."""
    if column.dtype.kind in "iufb":
        return column.astype(np.float64)
    if any(isinstance(value, str) for value in column):
        return None
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        return None


def ready_to_encode(coding: ValueCoding, X: Values) -> dict[str, Values]:
    """Return the columns by name, texts as texts and numbers as floats."""
    return {
        name: X[:, i].astype(str).astype(object)
        if coding.centres[i] is None
        else X[:, i].astype(np.float64)
        for i, name in enumerate(coding.domain.names)
    }
