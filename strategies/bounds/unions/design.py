"""The frames of a problem's tables, searched for once for the strategy and for its certificate."""

from weakref import WeakKeyDictionary

from strategies.bounds.climbs import SPEED
from strategies.bounds.unions.pinched_union import union_bound
from strategies.bounds.unions.total_design import MOST_STEPS, TOLERANCE, Design, TotalClimb
from strategies.operators import fits
from strategies.problem.problem import Problem
from strategies.problem.table_union import TableUnion, table_union

FEWEST_STEPS = 12  # of a climb, however little work is allowed

_UNIONS: "WeakKeyDictionary[Problem, TableUnion | None]" = WeakKeyDictionary()
_TOTAL: "WeakKeyDictionary[Problem, TotalClimb]" = WeakKeyDictionary()


def problem_union(problem: Problem) -> TableUnion | None:
    """Return the workload as a union of several tables, None where it is none.

    None for plain tables too, and for ordered cells, which have closed forms or rules of their own.
    """
    if problem not in _UNIONS:
        union = None
        known = problem.energies
        if known is None or not known.is_invariant:
            union = table_union(problem.workload)
        several = union is not None and len(union.tables) > 1 and union.count > 1
        _UNIONS[problem] = union if several else None
    return _UNIONS[problem]


def table_design(problem: Problem, work: float) -> Design | None:
    """Return the frames that some seconds of the reference machine find, None without tables."""
    union = problem_union(problem)
    if union is None or not problem.is_total:
        return None
    if problem not in _TOTAL:
        _TOTAL[problem] = TotalClimb(union)
    steps = max(FEWEST_STEPS, int(work / step_seconds(union)))
    return _TOTAL[problem].to(TOLERANCE, min(MOST_STEPS, steps))


def tables_bound(problem: Problem, work: float) -> float:
    """Return the bound that the frames' weights prove, 0 without tables."""
    design = table_design(problem, work)
    return 0.0 if design is None else union_bound(design)


def step_seconds(union: TableUnion) -> float:
    """Return the seconds of one step: a spectrum and a few products an attribute."""
    own = set(union.twin) & set(union.moving)
    cubes = sum(60.0 * float(union.sizes[i]) ** 3 for i in own)
    return 1e-4 * (1 + len(own)) + 2e-7 * len(union.pairs[0]) + cubes / SPEED


def frames_fit(union: TableUnion) -> bool:
    """Tell whether the largest frame fits in memory a few times."""
    return fits((max(union.sizes),) * 2, 64)
