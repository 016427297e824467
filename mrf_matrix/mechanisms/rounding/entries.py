"""What the numbers that define a structured strategy prove about all of its entries.

A structure is built from arrays of numbers: weights, factors, explicit entries. Where all of
them are integers so is every entry, and where none is negative none of the entries is. The
converse does not hold, and need not: both are proofs, not decisions.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from mrf_matrix.base.arrays import Values
from strategies.operators import (
    Dense,
    Kronecker,
    Marginals,
    Operator,
    Product,
    ResidualMarginals,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
    Transposed,
)


def defining_numbers(operator: Operator) -> Iterator[Values]:
    """Yield the arrays of numbers that a strategy is made of; zeros and ones may be left out."""
    match operator:
        case Dense():
            yield operator.array
        case Sparse():
            yield operator.matrix.data
        case Marginals():
            yield np.asarray(operator.weights)
        case ResidualMarginals():
            yield np.asarray(operator.weights)
            if any(operator.attribute_sets):
                yield np.array([-1])  # differences of codes
        case Scaled():
            yield np.asarray([operator.weight])
            yield from defining_numbers(operator.inner)
        case RowScaled():
            yield operator.weights
            yield from defining_numbers(operator.inner)
        case Stack():
            yield from _all_numbers(operator.blocks)
        case Kronecker():
            yield from _all_numbers(operator.factors)
        case Product():
            yield from _all_numbers((operator.left, operator.right))
        case Transposed():
            yield from defining_numbers(operator.inner)
        case _ if not operator.is_binary:
            form = operator.compact()
            yield form if isinstance(form, np.ndarray) else form.data


def _all_numbers(parts: Iterable[Operator]) -> Iterator[Values]:
    for part in parts:
        yield from defining_numbers(part)


def is_integral(operator: Operator) -> bool:
    """Tell whether the structure proves that every entry is an integer."""
    return all(np.array_equal(part, np.rint(part)) for part in defining_numbers(operator))


def is_nonnegative(operator: Operator) -> bool:
    """Tell whether the structure proves that no entry is negative."""
    return all(bool((part >= 0).all()) for part in defining_numbers(operator))
