"""Nodes of a forest's trees with optimised weights, consistent by least squares.

A tree's leaves are sums of cells, its inner nodes sums of leaves. Measuring inner nodes beside
the leaves serves queries that sum many leaves, and ``W A⁺ y`` makes the answers consistent. The
candidates are the paths behind the workload, their ancestors (paths with some of their
attributes set free), and the merged cells; `strategies.methods.descents.row_weights` weighs them
and leaves most out. `node_strategy` takes nodes that the user knows.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from strategies.methods.descents.descent import step_seconds
from strategies.methods.descents.error_norm import descended_rows
from strategies.methods.descents.row_weights import SHARPNESS, Candidates, weighted_rows
from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    Family,
    Search,
    enumerated,
    explicit_seconds,
    factory,
    is_unordered,
    largest_rank,
)
from strategies.operators import Array, Dense, Norm, Operator, RowKronecker, as_operator, fits
from strategies.operators.masks.attribute_sets import unique_rows
from strategies.operators.masks.components import mask_rows
from strategies.problem.merging import Merging
from strategies.problem.problem import Problem

LARGEST = 700  # merged cells up to which the family is worth its systems
MOST_NODES = 1200  # nodes that become candidates, those most used first
LARGEST_RANK = 200  # for Laplace noise, where nobody asks for it
ITERATIONS = 60
CELLS = 0.3  # weight of the merged cells to start from, relative to the nodes' 1


def weighted_tree_nodes(problem: Problem, search: Search) -> Operator:
    """Return weighted nodes of the trees behind a workload, over its merged cells.

    Raises ValueError if no paths show behind the workload.
    """
    nodes = path_nodes(problem.workload)
    if nodes is None or problem.merging is None:
        raise ValueError(
            f"workload {problem.workload!r} shows no paths: expected rows of masks over a domain "
            f"that can be enumerated. Give nodes to "
            f"strategies.methods.tree_hierarchy.node_strategy."
        )
    return weighted_nodes(problem, over_cells(nodes, problem.merging), search.work)


def node_strategy(
    workload: object, nodes: object, norm: Norm = "l1", work: float = 2.0
) -> Operator:
    """Return given nodes, and the cells, with weights optimised for a workload.

    `workload`: ndarray, scipy sparse or Operator (q, n); `nodes`: ndarray, scipy sparse or Operator
    (m, n), rows to choose from, such as indicators of inner nodes and leaves; `work`: seconds of
    the reference machine.

    >>> import numpy as np
    >>> node_strategy(np.ones((1, 4)), np.ones((1, 4))).shape[1]
    4
    """
    problem = Problem.of(workload, norm)
    rows = as_operator(nodes, "nodes").to_dense()
    if problem.merging is None or rows.shape[1] != problem.workload.shape[1]:
        raise ValueError(
            f"nodes has shape {rows.shape} for a workload of shape {problem.workload.shape}: "
            f"expected the same cells, few enough to enumerate."
        )
    over_groups = averaged_rows(rows, problem.merging)
    return problem.merging.invert(weighted_nodes(problem, over_groups, work))


def weighted_nodes(problem: Problem, nodes: Array, work: float) -> Operator:
    """Return nodes over the merged cells, and the merged cells, with optimised weights."""
    factor, errors = enumerated(descended_rows(problem))
    g = factor.shape[1]
    single = np.abs(nodes).astype(bool).sum(axis=1) == 1
    rows = np.concatenate([nodes[~single], np.eye(g)])
    scale = np.concatenate([np.full(len(rows) - g, 1.0 / max(len(rows) - g, 1)), np.ones(g)])
    start = np.where(np.arange(len(rows)) < len(rows) - g, scale * g, CELLS)
    m = len(rows)
    price = step_seconds(2.0 * m * g * g + g**3 + 2.0 * len(factor) * g * (g + m), m * g // 4)
    iterations = min(ITERATIONS, max(1, int(work / price / len(SHARPNESS))))
    candidates = Candidates(rows, factor, problem.norm, errors)
    return Dense(weighted_rows(candidates, start, iterations))


def path_nodes(workload: Operator) -> RowKronecker | None:
    """Return the paths behind a workload and all their ancestors, the most used first.

    None where the workload shows no paths.
    """
    found = mask_rows(workload)
    if found is None:
        return None
    table = np.concatenate([np.asarray(mask, dtype=bool) for mask in found.masks], axis=1)
    table, counts = most_used(table, np.ones(len(table)))
    ends = np.cumsum([0, *(mask.shape[1] for mask in found.masks)])
    for begin, end in pairwise(ends):
        freed = table.copy()
        freed[:, begin:end] = True
        table, counts = most_used(np.concatenate([table, freed]), np.concatenate([counts, counts]))
    table = table[:MOST_NODES]
    return RowKronecker.from_masks([table[:, a:b] for a, b in pairwise(ends)])


def most_used(table: NDArray[np.bool_], counts: Array) -> tuple[NDArray[np.bool_], Array]:
    """Return the distinct rows of a table with summed counts, the largest counts first."""
    first, inverse = unique_rows(table)
    totals = np.bincount(inverse, weights=counts).astype(np.float64)
    order = np.argsort(-totals, kind="stable")[: 8 * MOST_NODES]
    return table[first[order]], totals[order]


def over_cells(nodes: RowKronecker, merging: Merging) -> Array:
    """Return the nodes' distinct nonzero rows over the merged cells."""
    return averaged_rows(nodes.to_sparse().toarray().astype(np.float64), merging)


def averaged_rows(rows: Array, merging: Merging) -> Array:
    """Return distinct nonzero rows over the merged cells: the mean over each group's cells."""
    groups = merging.grouping.to_sparse()
    means = np.asarray((groups @ rows.T).T / np.asarray(groups.sum(axis=1)).ravel())
    distinct = means[unique_rows(means)[0]]
    return np.asarray(distinct[np.abs(distinct).max(axis=1) > 0])


def applies(problem: Problem) -> bool:
    """Tell whether paths show behind the workload, over few enough merged cells."""
    if problem.merging is None or problem.merging.n_groups > LARGEST:
        return False
    if not problem.is_total and problem.distinct_rows is None:
        return False
    n = problem.workload.shape[1]
    return fits((MOST_NODES, n), 16) and mask_rows(problem.workload) is not None


def is_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: for Laplace noise it seldom wins at high rank."""
    few = problem.norm == "l2" or largest_rank(problem) <= LARGEST_RANK
    return few and is_unordered(problem)


@factory
def tree_hierarchy() -> Family:
    """Measure inner nodes of a forest's trees beside its leaves and the cells, weighted."""
    return Family(
        "tree_hierarchy",
        "merged",
        BOTH_NORMS,
        applies,
        weighted_tree_nodes,
        share=0.3,
        least=explicit_seconds,
        worthwhile=is_worthwhile,
        objectives=BOTH_OBJECTIVES,
    )
