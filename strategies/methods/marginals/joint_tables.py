"""Any rows over overlapping tables: dense rows on each, and answers by least squares on all.

Where a few rows are asked of each table, splitting them into totals and residuals wastes budget:
the sum form measures what they have in common (`strategies.bounds.unions.joint_tables`).
"""

from strategies.bounds.climbs import LARGEST
from strategies.bounds.unions.joint_tables import joint_design, least_seconds, problem_tables
from strategies.bounds.unions.pinched_union import problem_union
from strategies.methods.family import Family, Search, factory
from strategies.operators import Operator, TableStack
from strategies.problem.problem import Problem


def dense_tables(problem: Problem, search: Search) -> Operator:
    """Return dense rows for every table that lies below no other.

    Raises ValueError if the workload is no stack of several tables, or those are too large.
    """
    climb = joint_design(problem, search.limit)
    if climb is None:
        raise ValueError(
            f"workload {problem.workload!r} is no stack of several tables of moderate size: "
            f"expected a TableStack, or a Stack of Kronecker."
        )
    return TableStack(climb.shared.sizes, climb.shared.tables, climb.matrices())


def applies(problem: Problem) -> bool:
    """Tell whether the workload is of several tables of moderate size."""
    return problem_tables(problem) is not None


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
        applies,
        dense_tables,
        share=4.0,
        least=least_seconds,
        good=least_seconds,
        worthwhile=is_worthwhile,
    )
