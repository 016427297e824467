"""The optimum for Gaussian noise over a domain of any size: combinations of a forest's paths.

``A = K P`` with P the distinct paths and ``K ≈ s M^(-1/4) B`` of integers, at the weights of
`strategies.bounds.path_climb`. It has one row for each dimension of the workload's row space, its
answers are K times the paths' counts, and its sensitivity is an exact integer over all cells.

K is rounded here, so that what is assessed is what is measured: s leaves rows so long that the loss
changes by less than one part in 10⁵.
"""

import numpy as np
from scipy import linalg

from strategies.bounds.climbs import LARGEST
from strategies.bounds.path_climb import FIRST_CELLS, PathClimb, path_climb, round_seconds
from strategies.methods.family import Family, Search, evaluation_seconds
from strategies.operators import Dense, Operator, Product, RowKronecker
from strategies.operators.masks.heaviest_cell import search_seconds
from strategies.problem.problem import Problem

TOLERANCE = 5e-3  # gap at which the climb ends
ROUNDS = 12  # that the default allows where a round is dear
LENGTH = 2.0**23  # of the longest column of integers


def path_optimal(problem: Problem, search: Search) -> Operator:
    """Return integer combinations of the distinct paths, one for each dimension."""
    climb = path_climb(problem)
    if climb is None:
        raise ValueError(
            f"workload {problem.workload!r} combines no paths, or too many: expected rows of masks."
        )
    proof = climb.to(TOLERANCE, search.work - sensitivity_seconds(climb))
    values, vectors = linalg.eigh(proof.inverse)
    kept = values > 0
    rows = (np.sqrt(values[kept])[:, None] * vectors[:, kept].T) @ climb.columns.basis
    whole = np.rint(rows * (LENGTH / np.sqrt(proof.largest))).astype(np.int64)
    paths = climb.paths
    operator = RowKronecker.from_masks(paths.masks())
    if paths.groups is not None:
        operator = operator.with_groups(paths.groups)
    return Product(Dense(whole), operator)


def sensitivity_seconds(climb: PathClimb) -> float:
    """Return the seconds that the sensitivity over all cells may take."""
    return search_seconds(climb.paths.masks())


def applies(problem: Problem) -> bool:
    """Tell whether a workload combines paths over more cells than are weighted one by one."""
    merging = problem.merging
    if merging is not None and merging.n_groups <= LARGEST:
        return False
    return path_climb(problem) is not None


def least_seconds(problem: Problem) -> float:
    """Return the seconds of the shortest climb, the sensitivity and one evaluation."""
    climb = path_climb(problem)
    if climb is None:
        return 0.0
    rows = min(climb.paths.mix.shape)
    own = climb.least_seconds + sensitivity_seconds(climb)
    return own + min(evaluation_seconds(problem, rows), evaluation_by_grams(problem, rows))


def good_seconds(problem: Problem) -> float:
    """Return the seconds in which a climb comes within some three hundredths of the optimum."""
    if not FAMILY.serves(problem):
        return 0.0
    climb = path_climb(problem)
    if climb is None:
        return 0.0
    q, p = climb.paths.mix.shape
    each = round_seconds(min(q, p), p, climb.paths.sizes, 2 * FIRST_CELLS)
    return least_seconds(problem) + ROUNDS * each


def evaluation_by_grams(problem: Problem, rows: int) -> float:
    """Return the seconds of an evaluation by inner products of paths, whatever the cells."""
    return evaluation_seconds(Problem(problem.workload, problem.norm, None), rows)


FAMILY = Family(
    "path_optimal",
    "domain",
    frozenset({"l2"}),
    applies,
    path_optimal,
    share=0.0,
    share_for_l2=40.0,
    least=least_seconds,
)
