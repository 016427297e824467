"""How large the entries of an integer strategy can be, by its structure.

Sums of 64-bit integers wrap around without a word. A strategy that was rounded here is known not
to come near; one from a file may be made to, so that its sensitivity would be computed too small.
"""

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


def entry_bound(operator: Operator) -> int:
    """Return a number that no absolute entry of an integer strategy exceeds.

    Raises ValueError if a number that defines the strategy is no integer, or a structure has no
    rule.
    """
    match operator:
        case Dense():
            return largest_of(operator.array)
        case Sparse():
            return largest_of(operator.matrix.data)
        case Marginals():
            return largest_of(np.asarray(operator.weights))
        case ResidualMarginals():
            return operator.largest_entry()
        case Scaled():
            return largest_of(np.asarray([operator.weight])) * entry_bound(operator.inner)
        case RowScaled():
            return largest_of(operator.weights) * entry_bound(operator.inner)
        case Stack():
            return max(map(entry_bound, operator.blocks))
        case Kronecker():
            return prod(map(entry_bound, operator.factors))
        case Product():
            both = entry_bound(operator.left) * entry_bound(operator.right)
            summed = 1 if isinstance(operator.right, Grouping) else operator.left.shape[1]
            return both * summed
        case Transposed():
            return entry_bound(operator.inner)
        case _ if operator.is_binary:
            return 1
    raise ValueError(f"{operator!r} is no strategy of integers: expected a rounded one.")


def largest_of(numbers: Values) -> int:
    """Return the largest absolute value of integers, exact."""
    if numbers.dtype.kind != "i":
        raise ValueError(f"the strategy has entries of type {numbers.dtype}: expected integers.")
    if not numbers.size:
        return 0
    return max(int(numbers.max()), -int(numbers.min()))


def check_entries(operator: Operator) -> None:
    """Refuse a strategy whose entries are no integers, or might not be exact in 64 bits.

    Raises ValueError.
    """
    bound = entry_bound(operator)
    if bound >= LARGEST:
        raise ValueError(
            f"the strategy has entries of up to {bound:.3g}: expected less than 2**62."
            if bound < 10**300
            else "the strategy has endless entries: expected less than 2**62."
        )
