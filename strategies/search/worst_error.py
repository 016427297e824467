"""The largest error of a row, or of a group of rows, recomputed from the matrix itself."""

from strategies.operators import (
    Array,
    Identity,
    Kronecker,
    Marginals,
    Operator,
    Partition,
    row_errors,
)
from strategies.operators.dense import Dense
from strategies.operators.masks.components import mask_rows, table_components
from strategies.operators.product import Product
from strategies.operators.tables.product_tables import ProductTables
from strategies.operators.tables.weighted_tables import WeightedTables
from strategies.problem.problem import Problem


def worst_error(problem: Problem, matrix: Operator) -> float:
    """Return the largest ``Σ_{i in G} ||(W A⁺)_i||²`` over the groups G of rows.

    Raises RowSpaceError if the matrix does not determine a row.
    """
    tables = table_errors(problem, matrix)
    if tables is not None:
        return float(tables.max())
    merging, distinct = problem.merging, None
    lifted = matrix_over_groups(problem, matrix)
    if merging is not None and lifted is not None:
        distinct = problem.distinct_rows
    if distinct is not None and lifted is not None:
        return distinct.value(row_errors(Dense(distinct.rows), lifted))
    return problem.aim.value(row_errors(problem.workload, matrix))


def matrix_over_groups(problem: Problem, matrix: Operator) -> Operator | None:
    """Return a matrix over the merged cells where that is what it is, else None."""
    merging = problem.merging
    if merging is None:
        return None
    if merging.is_trivial:
        by_rules = isinstance(matrix, WeightedTables | Partition | Kronecker | Identity)
        return None if by_rules else matrix
    if matrix is merging.grouping or (
        isinstance(matrix, Product) and matrix.right is merging.grouping
    ):
        return merging.average(matrix)
    return None


def table_errors(problem: Problem, matrix: Operator) -> Array | None:
    """Return one row's error of every table of a workload of marginals too large to list.

    All rows of a table have the same error under marginals. None where rows can be listed, or are
    grouped by the user.
    """
    workload = problem.workload
    if not isinstance(workload, Marginals) or not isinstance(matrix, ProductTables):
        return None
    if problem.aim.groups is not None or mask_rows(workload) is not None:
        return None
    if workload.sizes != matrix.sizes:
        return None
    parts = table_components(workload.domain_sizes, workload.attribute_sets, workload.weights)
    return matrix.errors_of(parts)
