"""Families for unions of tables and Gaussian noise: oblique residuals and joint tables.

The search and its closed forms are those of `strategies.bounds.pinched_union`. The rows of a frame
may be turned at will; here they are a trapezoid, and plain attributes keep the integer differences
of codes, which no frame is better than.

Where a few rows are asked of each table, splitting them into totals and residuals wastes budget:
the sum form measures what they have in common (`strategies.bounds.sum_form`).
"""

import numpy as np
from scipy import linalg

from strategies.bounds.dual_ascent import LARGEST
from strategies.bounds.pinched_union import frames_fit, rows_fit, table_design
from strategies.bounds.sum_form import joint_design, least_seconds, problem_tables
from strategies.bounds.total_design import Frame
from strategies.methods.family import BOTH_OBJECTIVES, UNIONS, Family, Search, factory, required
from strategies.operators import Dense, ObliqueResiduals, Operator, TableStack
from strategies.operators.tables.oblique_residuals import differences
from strategies.problem.problem import Problem
from strategies.problem.table_union import problem_union


def oblique_sets(problem: Problem, search: Search) -> Operator:
    """Return all sets below a table, with the frames and weights of a search."""
    union = required(problem_union(problem), UNIONS)
    design = required(table_design(problem, search.limit), UNIONS)
    factors = [Dense(np.zeros((1, size), dtype=np.int64)) for size in union.domain_sizes]
    scales = np.ones(union.count)
    known: dict[int, Dense] = {}
    for i, frame in enumerate(design.frames):
        if id(frame) not in known:
            known[id(frame)] = frame_rows(frame, i in union.moving)
        factors[union.attributes[i]] = known[id(frame)]
        scales[i] = known[id(frame)].sensitivity("l2")
    sets = [tuple(union.attributes[i] for i in chosen) for chosen in union.sets]
    weights = np.sqrt(design.shares) / np.where(union.in_set, scales, 1.0).prod(axis=1)
    return ObliqueResiduals(factors, sets, weights.tolist())


def frame_rows(frame: Frame, is_moving: bool) -> Dense:
    """Return the residual rows of a frame, differences of codes where all codes are alike."""
    if not is_moving:
        return Dense(differences(len(frame.weights)))
    rows = frame.rows()
    triangle = linalg.qr(rows, mode="r", check_finite=False)[0][: len(rows)]
    return Dense(np.asarray(triangle, dtype=np.float64))


def frames_apply(problem: Problem) -> bool:
    """Tell whether the workload is a union of products that are not all plain tables."""
    union = problem_union(problem)
    return union is not None and frames_fit(union) and rows_fit(problem, union)


@factory
def oblique_residuals() -> Family:
    """Measure the parts of tables along the best directions: unions of products, Gaussian noise."""
    return Family(
        "oblique_residuals",
        "domain",
        frozenset({"l2"}),
        frames_apply,
        oblique_sets,
        share=4.0,
        objectives=BOTH_OBJECTIVES,
    )


def dense_tables(problem: Problem, search: Search) -> Operator:
    """Return dense rows for every table that lies below no other."""
    climb = required(joint_design(problem, search.limit), "several tables of moderate size")
    return TableStack(climb.shared.sizes, climb.shared.tables, climb.matrices())


def is_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: not on products over few cells.

    The optimum itself, and oblique residuals, serve those.
    """
    merging = problem.merging
    few = merging is not None and merging.n_groups <= LARGEST
    return not few or problem_union(problem) is None


@factory
def joint_tables() -> Family:
    """Measure overlapping tables by dense rows and answer on all together: Gaussian noise."""
    return Family(
        "joint_tables",
        "domain",
        frozenset({"l2"}),
        lambda problem: problem_tables(problem) is not None,
        dense_tables,
        share=4.0,
        least=least_seconds,
        good=least_seconds,
        worthwhile=is_worthwhile,
    )
