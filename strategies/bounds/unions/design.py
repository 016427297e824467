"""The frames of a problem's tables, searched for once for the strategy and for its certificate."""

from weakref import WeakKeyDictionary

from strategies.bounds.climbs import SPEED
from strategies.bounds.unions.largest_design import MOST_ROWS, LargestClimb, rows_of_tables
from strategies.bounds.unions.largest_design import TOLERANCE as LARGEST_TOLERANCE
from strategies.bounds.unions.pinched_union import union_bound
from strategies.bounds.unions.total_design import MOST_STEPS, TOLERANCE, Design, TotalClimb
from strategies.operators import fits
from strategies.problem.problem import Problem
from strategies.problem.table_union import TableUnion, table_union

FEWEST_STEPS = 12  # of a climb, however little work is allowed

_UNIONS: "WeakKeyDictionary[Problem, TableUnion | None]" = WeakKeyDictionary()
_CLIMBS: "WeakKeyDictionary[Problem, TotalClimb | LargestClimb]" = WeakKeyDictionary()
_BOUNDS: "WeakKeyDictionary[Problem, tuple[int, float]]" = WeakKeyDictionary()
"""The bound of every climb, and the step at which it was taken."""


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
    if union is None or not (problem.is_total or rows_fit(problem, union)):
        return None
    if problem not in _CLIMBS:
        _CLIMBS[problem] = TotalClimb(union) if problem.is_total else LargestClimb(union)
    climb = _CLIMBS[problem]
    tolerance = TOLERANCE if problem.is_total else LARGEST_TOLERANCE
    fewest = 1 if climb.is_warm else FEWEST_STEPS
    steps = max(fewest, int(work / step_seconds(union, problem.is_total)))
    return climb.to(tolerance, min(MOST_STEPS, steps))


def rows_fit(problem: Problem, union: TableUnion) -> bool:
    """Tell whether the largest error is one of single rows that are few enough to list."""
    rows = sum(kind.rows.shape[0] for kinds in union.kinds for kind in kinds)
    return problem.aim.groups is None and fits((rows, max(union.sizes)), 64)


def tables_bound(problem: Problem, work: float) -> float:
    """Return the bound that the frames' weights prove, 0 without tables."""
    design = table_design(problem, work)
    if design is None:
        return 0.0
    step, known = _CLIMBS[problem].step, _BOUNDS.get(problem)
    if known is None or known[0] != step:
        known = _BOUNDS[problem] = step, union_bound(design)
    return known[1]


def step_seconds(union: TableUnion, is_total: bool = True) -> float:
    """Return the seconds of one step: a spectrum and a few products an attribute, and the rows."""
    own = set(union.twin) & set(union.moving)
    cubes = sum(60.0 * float(union.sizes[i]) ** 3 for i in own)
    seconds = 1e-4 * (1 + len(own)) + 2e-7 * len(union.pairs[0]) + cubes / SPEED
    if is_total:
        return seconds
    listed = min(rows_of_tables(union), MOST_ROWS) * 2.0 ** max(map(len, union.tables))
    return seconds + 2e-5 * len(union.pairs[0]) + 1e-8 * listed


def frames_fit(union: TableUnion) -> bool:
    """Tell whether the largest frame fits in memory a few times."""
    return fits((max(union.sizes),) * 2, 64)
