"""What the numbers that define a strategy prove about all of its entries: kind, sign and size.

A structure is built from arrays of numbers: weights, factors, explicit entries. Where all of
them are integers so is every entry, and where none is negative none of the entries is. The
converse does not hold, and need not: both are proofs, not decisions.

Sums of 64-bit integers wrap around without a word. A strategy that was rounded here is known not
to come near; one from a file may be made to, so that its sensitivity would be computed too small.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from mrf_matrix.base.arrays import Longs, Values
from strategies.operators import (
    Dense,
    Grouping,
    Kronecker,
    Marginals,
    ObliqueResiduals,
    Operator,
    Product,
    ProductMarginals,
    RowScaled,
    Scaled,
    Semiseparable,
    Sparse,
    Stack,
    TableStack,
    Toeplitz,
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
        case ObliqueResiduals() | ProductMarginals():
            yield np.asarray(operator.weights)
            yield from _all_numbers(operator.factors)
        case Toeplitz():
            yield operator.coefficients
        case Semiseparable():  # entries are sums of products of these
            yield operator.outputs
            yield operator.factors
        case Scaled():
            yield np.asarray([operator.weight])
            yield from defining_numbers(operator.inner)
        case RowScaled():
            yield operator.weights
            yield from defining_numbers(operator.inner)
        case Stack() | TableStack():
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


def is_ours(operator: Operator) -> bool:
    """Tell whether a strategy and all that it is made of are of `strategies`' own classes.

    A stranger's class may answer anything where it is asked for its sensitivity or its columns.
    """
    kind, home = type(operator), sys.modules.get(type(operator).__module__)
    is_known = kind.__module__.startswith("strategies.") and vars(home).get(kind.__name__) is kind
    if not is_known or any(callable(getattr(kind, name, None)) for name in vars(operator)):
        return False  # another's class, or a method that was put over ours
    held = (
        part
        for value in vars(operator).values()
        for part in (value if isinstance(value, list | tuple) else (value,))
        if isinstance(part, Operator) and part is not operator
    )
    return all(map(is_ours, held))


def is_integral(operator: Operator) -> bool:
    """Tell whether the structure proves that every entry is an integer."""
    return all(np.array_equal(part, np.rint(part)) for part in defining_numbers(operator))


def is_nonnegative(operator: Operator) -> bool:
    """Tell whether the structure proves that no entry is negative."""
    return all(bool((part >= 0).all()) for part in defining_numbers(operator))


LARGEST = 2**62  # entries and partial sums of entries stay below this


def entry_bound(operator: Operator) -> int:
    """Return a number that no absolute entry of an integer strategy exceeds.

    Raises ValueError if a number that defines the strategy is no integer, or a structure has no
    rule.
    """
    match operator:
        case Dense() | Sparse() | Marginals() | Toeplitz():
            return largest_magnitude(next(defining_numbers(operator)))
        case ObliqueResiduals() | ProductMarginals():
            return operator.largest_entry()
        case Scaled() | RowScaled():
            weights = next(defining_numbers(operator))
            return largest_magnitude(weights) * entry_bound(operator.inner)
        case Stack() | TableStack():
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


def largest_magnitude(numbers: Values) -> int:
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


@dataclass(frozen=True, eq=False)
class IntegerForm:
    """An integer matrix close to ``factor * A``."""

    matrix: Operator  # its entries are exact integers
    is_exact: bool  # whether it is ``factor * A`` itself
    is_tilted: bool = False
    """Whether its row space may be slightly off that of A, because an explicit matrix without full
    column rank was rounded entry by entry."""
    is_lossy: bool = False
    """Whether a weight or a row was rounded to zero, so that it is no longer measured."""


def rounded_product(values: Values, factor: float) -> tuple[Longs, bool]:
    """Return ``round(factor * values)`` and whether nothing was lost."""
    product = factor * values
    nearest = np.rint(product)
    return nearest.astype(np.int64), bool(np.array_equal(nearest, product))


def loses_weights(weights: object, values: Longs) -> bool:
    """Tell whether a weight was rounded to zero."""
    return bool(((np.asarray(weights) != 0) & (values == 0)).any())
