"""The optimum for Gaussian noise over a domain of any size: combinations of a forest's paths.

``A = K P`` with P the distinct paths and ``K ≈ s M^(-1/4) B`` of integers, at the weights of
`strategies.bounds.path_climb`. It has one row for each dimension of the workload's row space, its
answers are K times the paths' counts, and its sensitivity is an exact integer over all cells.

A strategy of parts side by side has a squared sensitivity of at most the sum of theirs, and an
error of their sum. With weights α_j² = √(e_j / s_j²) of the parts, for errors e_j and squared
sensitivities s_j², the loss is ``(Σ_j √loss_j)²``: what each part gains is gained. So the trees of
a forest whose cells cannot be searched together go into parts whose cells can.

K is rounded here, so that what is assessed is what is measured: s leaves rows so long that the loss
changes by less than one part in 10⁵.
"""

from dataclasses import replace
from math import prod
from weakref import WeakKeyDictionary

import numpy as np
from scipy import linalg, sparse

from strategies.bounds.climbs import LARGEST
from strategies.bounds.path_climb import FIRST_CELLS, PathClimb, path_climb, round_seconds
from strategies.bounds.path_patterns import PatternRows
from strategies.methods.family import BEFORE, Family, Search, evaluation_seconds, factory
from strategies.operators import Array, Dense, Operator, Product, RowKronecker
from strategies.operators.base.arrays import Longs
from strategies.operators.masks.heaviest_cell import MOST_TOGETHER, search_seconds
from strategies.operators.masks.packed_masks import members, unique_rows
from strategies.problem.problem import Problem

TOLERANCE = 5e-3  # gap at which the climb ends
ROUNDS = 12  # that the default allows where a round is dear
LENGTH = 2.0**23  # of the longest column of integers
MOST_CELLS = 2 * 10**8  # cells of a part, codes that it does not tell apart counted once


def integer_combinations(problem: Problem, search: Search) -> Operator:
    """Return integer combinations of the distinct paths, one for each dimension."""
    climb = path_climb(problem)
    if climb is None:
        raise ValueError(
            f"workload {problem.workload!r} combines no paths, or too many: expected rows of masks."
        )
    parts = parts_of(climb)
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
    proof = climb.to(TOLERANCE, work)
    values, vectors = linalg.eigh(proof.inverse)
    kept = values > 0
    rows = (np.sqrt(values[kept])[:, None] * vectors[:, kept].T) @ climb.columns.basis
    return rows, proof.largest, proof.root


def side_by_side(climb: PathClimb, parts: list[Longs], work: float) -> tuple[Array, float]:
    """Return the best combinations of each part's paths, and the sum of the squared norms."""
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


def searchable_parts(paths: PatternRows) -> list[Longs]:
    """Return the paths of parts with few enough cells each: whole trees, alike ones together."""
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
    for i in paths.varied:
        patterns = paths.patterns[i][np.unique(paths.numbers[i][chosen])]
        counts.append(len(unique_rows(np.ascontiguousarray(patterns.T))[0]))
    return float(prod(counts))


def part_of(paths: PatternRows, chosen: Longs) -> PatternRows:
    """Return some paths, with the workload's rows over them."""
    mix = sparse.csr_array(paths.mix[:, chosen])
    return replace(
        paths,
        numbers=tuple(number[chosen] for number in paths.numbers),
        mix=sparse.csr_array(mix[np.diff(mix.indptr) > 0]),
        groups=None if paths.groups is None else paths.groups[chosen],
    )


_PARTS: "WeakKeyDictionary[PathClimb, list[Longs]]" = WeakKeyDictionary()


def parts_of(climb: PathClimb) -> list[Longs]:
    """Return the parts of a climb's paths that are searched together, found once."""
    if climb not in _PARTS:
        _PARTS[climb] = searchable_parts(climb.paths)
    return _PARTS[climb]


def sensitivity_seconds(climb: PathClimb) -> float:
    """Return the seconds that the sensitivity over all cells may take."""
    masks = climb.paths.masks()
    return sum(search_seconds([mask[one] for mask in masks]) for one in parts_of(climb))


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
    climb = path_climb(problem) if problem.is_total else None
    if climb is None:
        return 0.0
    q, p = climb.paths.mix.shape
    each = round_seconds(min(q, p), p, climb.paths.sizes, 2 * FIRST_CELLS)
    return BEFORE * (least_seconds(problem) + ROUNDS * each)


def evaluation_by_grams(problem: Problem, rows: int) -> float:
    """Return the seconds of an evaluation by inner products of paths, whatever the cells."""
    return evaluation_seconds(Problem(problem.workload, problem.norm, None), rows)


@factory
def path_optimal() -> Family:
    """Measure the optimum for Gaussian noise over paths: forests over domains of any size."""
    return Family(
        "path_optimal",
        "domain",
        frozenset({"l2"}),
        applies,
        integer_combinations,
        share=40.0,
        least=least_seconds,
        good=good_seconds,
    )
