"""Strategies over a domain as strategies over its merged cells."""

from collections.abc import Iterable

from strategies.operators import Dense, Operator, Product, fits
from strategies.problem.problem import Problem

LARGEST_DENSE = 4000
"""Merged cells up to which a strategy is handled as an explicit matrix."""
MOST_AVERAGED = 2 * 10**7
"""Entries of a strategy whose columns are averaged over merged cells."""


def averaged(problem: Problem, matrices: Iterable[Operator]) -> tuple[Operator, ...]:
    """Return those strategies whose columns can be averaged, over the merged cells."""
    merging = problem.merging
    if merging is None:
        return tuple(matrices)
    return tuple(merging.average(matrix) for matrix in matrices if can_average(problem, matrix))


def can_average(problem: Problem, matrix: Operator) -> bool:
    """Tell whether a matrix's columns can be averaged over merged cells, and solved with."""
    if problem.merging is None:
        return False
    few = matrix.entries <= MOST_AVERAGED and fits((matrix.entries,), 32)
    return few and problem.merging.n_groups <= LARGEST_DENSE


def is_dense(matrix: Operator) -> bool:
    """Tell whether a strategy is an explicit array, over the cells or over groups of them."""
    while isinstance(matrix, Product):
        matrix = matrix.left
    return isinstance(matrix, Dense)
