"""How large the entries of an integer strategy can be, by its structure.

Sums of 64-bit integers wrap around without a word. A strategy that was rounded here is known not
to come near; one from a file may be made to, so that its sensitivity would be computed too small.
"""

from functools import singledispatch
from math import prod

import numpy as np

from mrf_matrix.base.arrays import Values
from strategies.operators import (
    Dense,
    Grouping,
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

LARGEST = 2**62
"""Entries and partial sums of entries stay below this."""


@singledispatch
def entry_bound(operator: Operator) -> int:
    """Return a number that no absolute entry of an integer strategy exceeds.

    Raises
    ------
    ValueError
        If a number that defines the strategy is no integer, or a structure has no rule.
    """
    if operator.is_binary:
        return 1
    raise ValueError(f"{operator!r} is no strategy of integers: expected a rounded one.")


@entry_bound.register
def _(operator: Dense) -> int:
    return largest_of(operator.array)


@entry_bound.register
def _(operator: Sparse) -> int:
    return largest_of(operator.matrix.data)


@entry_bound.register
def _(operator: Marginals) -> int:
    return largest_of(np.asarray(operator.weights))


@entry_bound.register
def _(operator: ResidualMarginals) -> int:
    return operator.largest_entry()


@entry_bound.register
def _(operator: Scaled) -> int:
    return largest_of(np.asarray([operator.weight])) * entry_bound(operator.inner)


@entry_bound.register
def _(operator: RowScaled) -> int:
    return largest_of(operator.weights) * entry_bound(operator.inner)


@entry_bound.register
def _(operator: Stack) -> int:
    return max(entry_bound(block) for block in operator.blocks)


@entry_bound.register
def _(operator: Kronecker) -> int:
    return prod(entry_bound(factor) for factor in operator.factors)


@entry_bound.register
def _(operator: Transposed) -> int:
    return entry_bound(operator.inner)


@entry_bound.register
def _(operator: Product) -> int:
    both = entry_bound(operator.left) * entry_bound(operator.right)
    return both if isinstance(operator.right, Grouping) else both * operator.left.shape[1]


def largest_of(numbers: Values) -> int:
    """Return the largest absolute value of integers, exact."""
    if numbers.dtype.kind != "i":
        raise ValueError(f"the strategy has entries of type {numbers.dtype}: expected integers.")
    if not numbers.size:
        return 0
    return max(int(numbers.max()), -int(numbers.min()))


def check_entries(operator: Operator) -> None:
    """Refuse a strategy whose entries are no integers, or might not be exact in 64 bits.

    Raises
    ------
    ValueError
    """
    bound = entry_bound(operator)
    if bound >= LARGEST:
        raise ValueError(
            f"the strategy has entries of up to {bound:.3g}: expected less than 2**62."
            if bound < 10**300
            else "the strategy has endless entries: expected less than 2**62."
        )
