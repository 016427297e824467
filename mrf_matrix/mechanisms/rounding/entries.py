"""What the numbers that define a structured strategy prove about all of its entries.

A structure is built from arrays of numbers: weights, factors, explicit entries. Where all of
them are integers so is every entry, and where none is negative none of the entries is. The
converse does not hold, and need not: both are proofs, not decisions.
"""

from collections.abc import Iterator
from functools import singledispatch

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


@singledispatch
def defining_numbers(operator: Operator) -> Iterator[Values]:
    """Yield the arrays of numbers that a strategy is made of; zeros and ones may be left out."""
    if not operator.is_binary:
        form = operator.compact()
        yield form if isinstance(form, np.ndarray) else form.data


@defining_numbers.register
def _(operator: Dense) -> Iterator[Values]:
    yield operator.array


@defining_numbers.register
def _(operator: Sparse) -> Iterator[Values]:
    yield operator.matrix.data


@defining_numbers.register
def _(operator: Marginals) -> Iterator[Values]:
    yield np.asarray(operator.weights)


@defining_numbers.register
def _(operator: ResidualMarginals) -> Iterator[Values]:
    yield np.asarray(operator.weights)
    if any(operator.attribute_sets):
        yield np.array([-1])  # differences of codes


@defining_numbers.register
def _(operator: Scaled) -> Iterator[Values]:
    yield np.asarray([operator.weight])
    yield from defining_numbers(operator.inner)


@defining_numbers.register
def _(operator: RowScaled) -> Iterator[Values]:
    yield operator.weights
    yield from defining_numbers(operator.inner)


@defining_numbers.register
def _(operator: Stack) -> Iterator[Values]:
    for block in operator.blocks:
        yield from defining_numbers(block)


@defining_numbers.register
def _(operator: Kronecker) -> Iterator[Values]:
    for factor in operator.factors:
        yield from defining_numbers(factor)


@defining_numbers.register
def _(operator: Product) -> Iterator[Values]:
    yield from defining_numbers(operator.left)
    yield from defining_numbers(operator.right)


@defining_numbers.register
def _(operator: Transposed) -> Iterator[Values]:
    yield from defining_numbers(operator.inner)


def is_integral(operator: Operator) -> bool:
    """Tell whether the structure proves that every entry is an integer."""
    return all(np.array_equal(part, np.rint(part)) for part in defining_numbers(operator))


def is_nonnegative(operator: Operator) -> bool:
    """Tell whether the structure proves that no entry is negative."""
    return all(bool((part >= 0).all()) for part in defining_numbers(operator))
