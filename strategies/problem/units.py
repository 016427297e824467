"""Matrices in a unit of their own, in which squares and their sums are floats.

The loss of a strategy is the same for every multiple of it, and that of a workload is a square.
Yet a float has no square below 1e-308 or above 1e308. So a matrix of very small or very large
entries is divided by a power of two, which is exact, before anything is squared.
"""

from dataclasses import replace
from functools import partial, singledispatch
from math import frexp, inf

import numpy as np

from strategies.operators import (
    Array,
    Dense,
    Gram,
    Kronecker,
    Operator,
    Product,
    Ranges,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
)
from strategies.operators.ordered.p_identity import PIdentity
from strategies.operators.tables.weighted_tables import WeightedTables
from strategies.operators.wrappers import Weighted
from strategies.problem.strategy import Strategy

USUAL = 128
"""Largest entries from 2**-128 to 2**128 stay as they are: fourth powers are floats."""


@singledispatch
def in_unit(matrix: Operator) -> tuple[Operator, int]:
    """Return a matrix over 2**k whose largest entry is near 1, and k; k is 0 for usual ones.

    Structures without numbers of their own are as they are.

    >>> unit, power = in_unit(Dense([[2.0**-600, 0.0]]))
    >>> unit.to_dense(), power
    (array([[0.5, 0. ]]), -599)
    """
    return matrix, 0


@in_unit.register
def _(matrix: Dense) -> tuple[Operator, int]:
    power = exponent(matrix.array)
    return (Dense(over(matrix.array, power), matrix.sizes), power) if power else (matrix, 0)


@in_unit.register
def _(matrix: Sparse) -> tuple[Operator, int]:
    power = exponent(matrix.matrix.data)
    if not power:
        return matrix, 0
    form = matrix.matrix.astype(np.float64)
    form.data = over(form.data, power)
    return Sparse(form, matrix.sizes), power


@in_unit.register
def _(matrix: Weighted) -> tuple[Operator, int]:
    inner, power = in_unit(matrix.inner)
    own = exponent(matrix.row_weights)
    if not (own or power):
        return matrix, 0
    weights = over(matrix.row_weights, own)
    scaled = Scaled(weights.item(), inner) if len(weights) == 1 else RowScaled(weights, inner)
    return scaled, own + power


@in_unit.register
def _(matrix: WeightedTables) -> tuple[Operator, int]:
    power = exponent(matrix.weights)
    if not power:
        return matrix, 0
    weights = over(matrix.weights, power).tolist()
    return matrix.with_weights(weights), power


@in_unit.register
def _(matrix: Gram) -> tuple[Operator, int]:
    power = exponent(matrix.array) // 2  # of the rows, of which it holds products
    return (Gram(over(matrix.array, 2 * power), matrix.sizes), power) if power else (matrix, 0)


@in_unit.register
def _(matrix: PIdentity) -> tuple[Operator, int]:
    power = exponent(np.concatenate([matrix.diagonal, matrix.rows.data]))
    if not power:
        return matrix, 0
    rows = matrix.rows.astype(np.float64)
    rows.data = over(rows.data, power)
    return PIdentity(over(matrix.diagonal, power), rows, matrix.sizes), power


@in_unit.register
def _(matrix: Ranges) -> tuple[Operator, int]:
    power = exponent(matrix.weights)
    if not power:
        return matrix, 0
    return Ranges(matrix.n, matrix.starts, matrix.stops, over(matrix.weights, power)), power


@in_unit.register
def _(matrix: Kronecker) -> tuple[Operator, int]:
    parts = [in_unit(factor) for factor in matrix.factors]
    power = sum(one for _, one in parts)
    return (Kronecker([factor for factor, _ in parts]), power) if any_power(parts) else (matrix, 0)


@in_unit.register
def _(matrix: Product) -> tuple[Operator, int]:
    parts = [in_unit(matrix.left), in_unit(matrix.right)]
    (left, first), (right, second) = parts
    return (Product(left, right), first + second) if any_power(parts) else (matrix, 0)


@in_unit.register
def _(matrix: Stack) -> tuple[Operator, int]:
    parts = [in_unit(block) for block in matrix.blocks]
    if not any_power(parts):
        return matrix, 0
    power = max(one for _, one in parts)
    blocks = [Scaled(2.0 ** (one - power), block) for block, one in parts]
    return type(matrix)(blocks), power


def any_power(parts: list[tuple[Operator, int]]) -> bool:
    """Tell whether one of several parts has a unit of its own."""
    return any(power for _, power in parts)


def exponent(numbers: object) -> int:
    """Return the power of two above the largest number in size; 0 where it is usual."""
    largest = float(np.abs(np.asarray(numbers, dtype=np.float64)).max(initial=0.0))
    power = frexp(largest)[1]
    return power if largest and abs(power) > USUAL else 0


def over(numbers: object, power: int) -> Array:
    """Return numbers over 2**power."""
    return np.asarray(np.ldexp(np.asarray(numbers, dtype=np.float64), -power))


def times(number: float, power: int) -> float:
    """Return a number times 2**power: 0 or infinite where no float holds it."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(number, power))


def out_of_unit(strategy: Strategy, power: int) -> Strategy:
    """Return a strategy for a workload over 2**power as one for the workload."""
    if not power:
        return strategy
    return replace(
        strategy,
        loss=times(strategy.loss, 2 * power),
        certificate=partial(bound_out_of_unit, strategy, power),
        candidates=tuple(
            replace(one, loss=times(one.loss, 2 * power)) for one in strategy.candidates
        ),
    )


def bound_out_of_unit(strategy: Strategy, power: int) -> float:
    """Return a strategy's lower bound for a workload over 2**power as that of the workload."""
    return times(strategy.lower_bound, 2 * power)


def is_float(number: float) -> bool:
    """Tell whether a number is positive, and a float of full precision."""
    return bool(np.finfo(np.float64).tiny <= number < inf)
