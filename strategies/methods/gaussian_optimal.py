"""The optimum for Gaussian noise over cells, leaves or paths, with its distance from optimal.

*Cells.* ``A = M^(-1/4) F`` at the best weights of `strategies.bounds.dual_ascent`: r rows, one per
dimension of the workload's row space. For "l2" its loss over the lower bound is the certified gap;
for "l1" it is a start for the families that descend.

*Leaves that test records visit.* For ``W = Q Tᵀ T`` the strategy A = T has ``W A⁺ = Q Tᵀ T T⁺``, so
every row's error is at most ``||q Tᵀ||²``, the number of trees τ, and its squared column norms are
at most τ. No row can have less than ``max_j W_ij² = τ²`` (`strategies.bounds.lower_bound`): T is
optimal for every query at once. Leaves that no query visits are left out, and a path in c trees is
one row of weight √c.

*Paths*, over a domain of any size. ``A = K P`` with P the distinct paths and ``K ≈ s M^(-1/4) B``
of integers, at the weights of `strategies.bounds.path_climb`. It has one row for each dimension of
the workload's row space, its answers are K times the paths' counts, and its sensitivity is an exact
integer over all cells.

A strategy of parts side by side has a squared sensitivity of at most the sum of theirs, and an
error of their sum. With weights α_j² = √(e_j / s_j²) of the parts, for errors e_j and squared
sensitivities s_j², the loss is ``(Σ_j √loss_j)²``: what each part gains is gained. So the trees of
a forest whose cells cannot be searched together go into parts whose cells can.

K is rounded here, so that what is assessed is what is measured: s leaves rows so long that the loss
changes by less than one part in 10⁵.
"""

from dataclasses import replace
from math import prod

import numpy as np
from scipy import linalg, sparse

from strategies.bounds.dual_ascent import (
    LARGEST,
    climbable_rows,
    factor_seconds,
    gaussian_strategy,
    joint_dual,
    joint_strategy,
    joint_update_seconds,
    moment_seconds,
    total_dual,
)
from strategies.bounds.lower_bound import has_weighable_cells
from strategies.bounds.ordered_dual import NODES, prefix_dual
from strategies.bounds.path_bounds import PatternRows
from strategies.bounds.path_climb import (
    FIRST_CELLS,
    PathClimb,
    path_climb,
    round_seconds,
)
from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    PATHS,
    SEARCH_PER_CLIMB,
    Family,
    Search,
    evaluation_seconds,
    factory,
    is_unordered,
    require,
)
from strategies.methods.ordered_cells import prefix_root
from strategies.operators import (
    Array,
    Dense,
    Operator,
    Product,
    RowKronecker,
    RowScaled,
    Scaled,
    fits,
)
from strategies.operators.base.arrays import Longs
from strategies.operators.base.operator import cached_per_value
from strategies.operators.masks.components import mask_rows
from strategies.operators.masks.heaviest_cell import MOST_TOGETHER, search_seconds
from strategies.operators.masks.packed_masks import members, unique_rows
from strategies.problem.problem import Problem

TOLERANCE = 1e-6
LARGEST_START = 500  # rank up to which it is a start for Laplace noise, seldom good above
MOST_OF_ALL = 0.7  # of the whole search's work for Gaussian noise, where nothing is better
WORST_UPDATES = 16  # of the weights of rows and cells, for the largest error
BRIEFLY = 0.6
"""Share of the prices of climbs, which are cautious, that the shortest one takes."""


def optimal_rows(problem: Problem, search: Search) -> Operator:
    prefix = problem.long_prefix_rows
    if prefix is not None:
        return prefix_root(prefix, prefix_dual(problem, prefix))
    work = search.work if problem.norm == "l1" else max(search.work, MOST_OF_ALL * search.limit)
    rows = climbable_rows(problem)
    if rows is not None:
        return Dense(joint_strategy(rows, joint_dual(problem, rows, work)))
    factor = require(problem.factor)
    return Dense(gaussian_strategy(factor, total_dual(problem, factor, TOLERANCE, work)))


def applies(problem: Problem) -> bool:
    """Tell whether cells are few, or many of few explicit rows, those for "l2" alone."""
    if problem.merging is None:
        return False
    if problem.long_prefix_rows is not None:
        return fits((problem.merging.n_groups, NODES), 32)
    if not problem.is_total and climbable_rows(problem) is None:
        return False
    few = problem.merging.n_groups <= LARGEST
    return (few or problem.norm == "l2") and has_weighable_cells(problem)


def least_seconds(problem: Problem) -> float:
    """Return the seconds of two updates of the weights and of one evaluation."""
    if problem.long_prefix_rows is not None:
        return 0.0
    rows = climbable_rows(problem)
    if rows is not None:
        return 3.0 * joint_update_seconds(rows)
    if problem.merging is None:
        return 0.0
    g = problem.merging.n_groups
    r = min(problem.workload.shape[0], g)
    begin = factor_seconds(r, g) + 2.0 * moment_seconds(r, g)
    return BRIEFLY * begin + evaluation_seconds(problem, r)


def good_seconds(problem: Problem) -> float:
    """Return the seconds of a search for Gaussian noise that ends near the optimum.

    Some updates of both weights for the largest error, more than the shortest climb for the total.
    """
    known = problem.ordered_gram is not None or problem.long_prefix_rows is not None
    if problem.norm == "l1" or known:
        return 0.0
    rows = climbable_rows(problem)
    if rows is not None:
        return WORST_UPDATES * joint_update_seconds(rows)
    return SEARCH_PER_CLIMB * least_seconds(problem) if problem.is_total else 0.0


@factory
def gaussian_optimal() -> Family:
    """Measure the certified optimum for Gaussian noise: few enough cells for a spectrum."""
    return Family(
        "gaussian_optimal",
        "merged",
        BOTH_NORMS,
        applies,
        optimal_rows,
        share=0.5,
        least=least_seconds,
        good=good_seconds,
        worthwhile=lambda problem: is_unordered(problem, rank=LARGEST_START),
        objectives=BOTH_OBJECTIVES,
    )


MOST_LEAVES = 3000
"""Distinct visited leaves up to which the errors are computed from their inner products."""


EQUAL = 1e-12  # difference of weights that is rounding


def combined_paths(workload: Operator) -> RowKronecker | None:
    combined = False
    while isinstance(workload, Scaled | RowScaled | Product):
        combined = combined or isinstance(workload, Product)
        workload = workload.right if isinstance(workload, Product) else workload.inner
    return workload if combined and isinstance(workload, RowKronecker) else None


def visited_leaves(problem: Problem, search: Search) -> Operator:
    """Return the visited leaves, each with the root of its number of trees as weight."""
    paths = require(combined_paths(problem.workload), PATHS)
    mix = require(require(mask_rows(problem.workload), PATHS).mix, PATHS)
    trees = multiplicities(sparse.csr_array(abs(mix)))
    visited = np.flatnonzero(trees)
    kept = paths.take_rows(visited)
    weights = np.sqrt(trees[visited] / trees[visited].min())
    return kept if np.ptp(weights) < EQUAL else RowScaled(weights, kept)


def multiplicities(mix: sparse.csr_array) -> Array:
    """Return every path's share of the trees, zero where no row uses it, shape (o,).

    A record is in one leaf of every tree, so each row sums to its own scale times τ.
    """
    sums = np.asarray(mix.sum(axis=1)).ravel()
    scales = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    shares = sparse.csc_array(sparse.diags_array(scales) @ mix)
    return np.asarray(shares.max(axis=0).todense(), dtype=np.float64).ravel()


def leaves_apply(problem: Problem) -> bool:
    paths = combined_paths(problem.workload)
    return paths is not None and paths.shape[0] <= MOST_LEAVES


def leaf_seconds(problem: Problem) -> float:
    return evaluation_seconds(problem, require(combined_paths(problem.workload), PATHS).shape[0])


@factory
def leaves() -> Family:
    """Measure the leaves that test records visit: batch prediction, Gaussian noise."""
    return Family(
        "leaves",
        "domain",
        frozenset({"l2"}),
        leaves_apply,
        visited_leaves,
        share=0.0,
        least=leaf_seconds,
    )


PATH_GAP = 5e-3  # gap at which the climb ends
ROUNDS = 12  # that the default allows where a round is dear
LENGTH = 2.0**23  # of the longest column of integers
MOST_CELLS = 2 * 10**8  # cells of a part, codes that it does not tell apart counted once


def integer_combinations(problem: Problem, search: Search) -> Operator:
    """Return integer combinations of the distinct paths, one for each dimension."""
    climb = require(path_climb(problem), PATHS)
    parts = searchable_parts(climb)
    work = search.work - sensitivity_seconds(climb)
    if len(parts) == 1:
        rows, square, _ = combinations(climb, work)
    else:
        rows, square = side_by_side(climb, parts, work)
    whole = np.rint(rows * (LENGTH / np.sqrt(square))).astype(np.int64)
    paths = climb.paths
    operator = RowKronecker.from_masks(paths.masks())
    if paths.groups is not None:
        operator = operator.with_groups(paths.groups)
    return Product(Dense(whole), operator)


def combinations(climb: PathClimb, work: float) -> tuple[Array, float, float]:
    """Return ``M^(-1/4) B`` at the best weights, the largest squared norm and the error."""
    proof = climb.run(PATH_GAP, work)
    values, vectors = linalg.eigh(proof.inverse, driver="evd")
    kept = values > 0
    rows = (np.sqrt(values[kept])[:, None] * vectors[:, kept].T) @ climb.columns.basis
    return rows, proof.largest, proof.root


def side_by_side(climb: PathClimb, parts: list[Longs], work: float) -> tuple[Array, float]:
    blocks, square = [], 0.0
    for number, chosen in enumerate(parts):
        one = PathClimb(part_of(climb.paths, chosen), np.random.default_rng(number))
        rows, largest, error = combinations(one, work / len(parts))
        weight = np.sqrt(error / largest)
        block = np.zeros((len(rows), climb.paths.n_paths))
        block[:, chosen] = np.sqrt(weight) * rows
        blocks.append(block)
        square += weight * largest
    return np.concatenate(blocks), square


@cached_per_value
def searchable_parts(climb: PathClimb) -> list[Longs]:
    """Return the paths of parts with few enough cells each: whole trees, alike ones together."""
    paths = climb.paths
    whole = [np.arange(paths.n_paths)]
    if paths.groups is None or np.diff(paths.mix.indptr).max(initial=0) > 1:
        return whole
    if distinct_cells(paths, whole[0]) <= MOST_TOGETHER:
        return whole
    trees = members(np.unique(paths.groups, return_inverse=True)[1].astype(np.int64))
    parts = []
    while trees:
        part = trees.pop()
        while trees:
            cells = [distinct_cells(paths, np.concatenate([part, tree])) for tree in trees]
            nearest = int(np.argmin(cells))
            if cells[nearest] > MOST_CELLS:
                break
            part = np.concatenate([part, trees.pop(nearest)])
        parts.append(np.sort(part))
    return parts


def distinct_cells(paths: PatternRows, chosen: Longs) -> float:
    """Return the number of cells, codes that some paths do not tell apart counted once."""
    counts = []
    for i in paths.varying_attributes:
        patterns = paths.patterns[i][np.unique(paths.numbers[i][chosen])]
        counts.append(len(unique_rows(np.ascontiguousarray(patterns.T))[0]))
    return float(prod(counts))


def part_of(paths: PatternRows, chosen: Longs) -> PatternRows:
    mix = sparse.csr_array(paths.mix[:, chosen])
    return replace(
        paths,
        numbers=tuple(number[chosen] for number in paths.numbers),
        mix=sparse.csr_array(mix[np.diff(mix.indptr) > 0]),
        groups=None if paths.groups is None else paths.groups[chosen],
    )


def sensitivity_seconds(climb: PathClimb) -> float:
    masks = climb.paths.masks()
    return sum(search_seconds([mask[one] for mask in masks]) for one in searchable_parts(climb))


def paths_apply(problem: Problem) -> bool:
    """Tell whether a workload combines paths over more cells than are weighted one by one."""
    merging = problem.merging
    if merging is not None and merging.n_groups <= LARGEST:
        return False
    return path_climb(problem) is not None


def path_seconds(problem: Problem) -> float:
    """Return the seconds of the shortest climb, the sensitivity and one evaluation."""
    climb = path_climb(problem)
    if climb is None:
        return 0.0
    rows = min(climb.paths.mix.shape)
    own = climb.least_seconds + sensitivity_seconds(climb)
    by_grams = Problem(problem.workload, problem.norm, None)  # whatever the cells
    return own + min(evaluation_seconds(one, rows) for one in (problem, by_grams))


def path_good_seconds(problem: Problem) -> float:
    """Return the seconds in which a climb comes within some three hundredths of the optimum."""
    climb = path_climb(problem) if problem.is_total else None
    if climb is None:
        return 0.0
    q, p = climb.paths.mix.shape
    each = round_seconds(min(q, p), p, climb.paths.sizes, 2 * FIRST_CELLS)
    return SEARCH_PER_CLIMB * (path_seconds(problem) + ROUNDS * each)


@factory
def path_optimal() -> Family:
    """Measure the optimum for Gaussian noise over paths: forests over domains of any size."""
    return Family(
        "path_optimal",
        "domain",
        frozenset({"l2"}),
        paths_apply,
        integer_combinations,
        share=40.0,
        least=path_seconds,
        good=path_good_seconds,
    )
