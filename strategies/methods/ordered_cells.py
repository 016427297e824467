"""Workloads over ordered cells, at sizes up to many thousands, and triangles that stream.

Workloads are known by their Gram (`strategies.operators.ordered_sums`), not by how they
were given; or by their rows, where these are ranges in some order
(`strategies.problem.merging`). For Laplace noise: the better of a windowed p-Identity and a
weighted b-ary hierarchy, which is never above the best equally weighted one. For Gaussian noise:
the certified optimum, a triangle of few terms, and for ranges that of the nearest ordered Gram, or
the hierarchy beyond `LARGEST_DENSE`.

*Streams.* With P the prefix sums and A a lower triangle, row i of ``P A⁻¹`` needs no answer after
the i-th: prefix sums are released as their cells come. Two forms keep little in memory meanwhile,
and both serve as factors of products:

- `prefix_factorisation`: the optimum among all strategies over ordered cells, of either objective.
  It is a sum of `bands` inverses of matrices of two bands, each with one number to keep.
- `toeplitz`: alike along every diagonal. For the largest error the best of them is the root of
  P, ``c_k = binom(2k, k) / 4^k``, with the error ``(Σ_k c_k²)²``. With few bands, and for the
  total, coefficients are descended on:

      loss = ‖c‖² Σ_k ω_k b_k²,    b = 1 / ((1 - x) c(x)),    ∂b/∂c_j = -x^j b / c,

  ω_k the rows from k on, or 1.

Why few terms are enough
------------------------
``K^(-1/2)`` is a sum of inverses of matrices of three diagonals (`strategies.bounds.ordered_dual`).
Below its diagonal such an inverse is known by one number a cell and one factor between neighbours:

    X_ij = sum_m t_(i-1),m ... t_j,m x_j,m    for i > j.

So is the Cholesky factor of the sum, with the same factors t: where P holds what the columns before
j add to products of two rows from j on,

    l_j = (x_j - P 1) / L_jj,    L_jj² = 1ᵀ (x_j - P 1),    P <- diag(t_j) (P + l_j l_jᵀ) diag(t_j).

That takes n small steps. Over the cells in reversed order ``LLᵀ`` becomes ``AᵀA`` with A a lower
triangle of the same terms: row i asks for no cell after i, as a stream must. There are as many
terms as nodes of the root. Its error falls geometrically with them, at a rate that depends on the
logarithm of K's condition alone (Hale, Higham, Trefethen 2008).

References
----------
Fichtenberger, Henzinger, Upadhyay: Constant matters: fine-grained error bound on differentially
private continual observation (2023), the square root. Choquette-Choo et al.: (Amplified) banded
matrix factorization (2023). Dvijotham, McMahan, Pillutla, Steinke, Thakurta: Efficient and
near-optimal noise generation for streaming differential privacy (2024), streams of few buffers.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from strategies.bounds.dual_ascent import JointDual
from strategies.bounds.ordered_dual import (
    NODES,
    bands,
    climb_either_way,
    fitted_dual,
    prefix_bands,
    prefix_dual,
    root_nodes,
    shifted_inverse,
    steps_within,
)
from strategies.methods.descents import minimise
from strategies.methods.family import (
    BOTH_NORMS,
    BOTH_OBJECTIVES,
    Family,
    Parts,
    Search,
    checked_count,
    factory,
    has_many_ranges,
    never,
    require,
)
from strategies.methods.trees import Hierarchy, best_hierarchy, level_weights, trees
from strategies.methods.windows import best_windowed_rows
from strategies.operators import (
    Array,
    Dense,
    Identity,
    Kronecker,
    Norm,
    Operator,
    Ranges,
    Semiseparable,
    Toeplitz,
    check_allocation,
    fits,
)
from strategies.operators.base.recovery import factorise
from strategies.operators.identity import PIdentity
from strategies.operators.kronecker import kronecker_blocks
from strategies.operators.ordered_sums import OrderedGram
from strategies.operators.ranges import ranges_error
from strategies.operators.triangles import convolve
from strategies.problem.determining_rows import PrefixRows
from strategies.problem.problem import Problem

TOLERANCE = 1e-5
LARGEST_DENSE = 8192
"""Cells up to which a strategy for ranges and Gaussian noise may be a dense matrix."""
DENSE_SECONDS = 1.5e-11
"""Seconds of the reference machine for each of n³ to make a dense strategy and to evaluate it."""
CELL_SECONDS = 4e-3
"""Seconds of a good search for rows over windows, for every cell; half as many for ranges."""
TRACE_SECONDS = 1.5e-8
"""Seconds of the reference machine for each of n² to evaluate rows over windows."""
ENTRY_SECONDS = 1e-8
"""The same for every entry of rows that are read one by one."""
FEWEST_BLOCKS = 8
"""Cells of a block, or children of a node, of strategies that have the most rows."""
MOST_CUT = 128
"""Cells up to which a tree cut off at the last cell may be much better than its closed form."""
FEWEST_WINDOWED = 8
"""Cells from which rows over windows are tried."""


def ordered_strategy(problem: Problem, search: Search) -> Operator:
    if problem.ordered_gram is None and problem.ranges is not None:
        return range_strategy(problem, problem.ranges, search)
    gram = require(problem.ordered_gram, "ordered cells")
    flipped = gram.is_flipped
    worked = gram.reversal if flipped else gram
    tree = best_hierarchy(worked, problem.norm)
    if problem.norm == "l2" and fits((gram.n, NODES), 32):
        dual = climb_either_way(gram, TOLERANCE, steps_within(gram.n, search.work))
        if dual.root**2 * (1.0 + dual.gap) < tree.loss:
            return ordered_root(*bands(gram, dual.weights))
    found = best_rows(worked, tree, problem.norm, search)
    return found.flip() if flipped and isinstance(found, PIdentity) else found


def range_strategy(problem: Problem, ranges: Ranges, search: Search) -> Operator:
    tree = best_hierarchy(ranges, problem.norm)
    if problem.norm == "l2" and fits((ranges.n, ranges.n), 24) and ranges.n <= LARGEST_DENSE:
        dual = fitted_dual(problem)
        if dual is not None:
            diagonal, side = bands(dual.gram, dual.weights)
            upper = ordered_root(diagonal[::-1], side[::-1]).to_dense()[::-1, ::-1]
            root = Dense(upper)
            if ranges_error(factorise(root), ranges) < tree.loss:
                return root
    return best_rows(ranges, tree, problem.norm, search)


def best_rows(gram: OrderedGram | Ranges, tree: Hierarchy, norm: Norm, search: Search) -> Operator:
    """Return the best of the Identity, a tree, and for Laplace noise rows over windows."""
    n, whole = gram.n, float(gram.diagonal.sum())
    best = tree.matrix(n) if tree.loss < whole else Identity(n)
    if norm == "l2" or n < FEWEST_WINDOWED:
        return best
    work = search.work - 3.0 * TRACE_SECONDS * n * n
    if isinstance(gram, Ranges) and not fits((n, n // FEWEST_BLOCKS), 32):
        return best
    rows = best_windowed_rows(gram, search.generator, work)
    cut = sorted(trees(n)) if n <= MOST_CUT else []
    equal = [level_weights(sizes, "l1").matrix(n) for sizes in cut]
    known = [one for one in (best, rows, *equal) if isinstance(one, PIdentity)]
    found = min(known, key=lambda one: real_loss(one, gram), default=None)
    return found if found is not None and real_loss(found, gram) < whole else Identity(n)


def real_loss(matrix: PIdentity, gram: OrderedGram | Ranges) -> float:
    """Return the loss for Laplace noise; that of a tree cut off is below its closed form."""
    if isinstance(gram, Ranges):
        return matrix.sensitivity("l1") ** 2 * matrix.error_trace(gram)
    return matrix.sensitivity("l1") ** 2 * matrix.ordered_trace(gram)


def applies(problem: Problem) -> bool:
    """Tell whether the merged cells are ordered, or rows are ranges of them in some order.

    For the worst row, those of the total error.
    """
    total = problem if problem.is_total else problem.as_total()
    return total.ordered_gram is not None or total.ranges is not None


def is_worthwhile(problem: Problem) -> bool:
    """Tell whether to run unasked: few ranges, or of few cells, have better families."""
    total = problem if problem.is_total else problem.as_total()
    return total.ordered_gram is not None or has_many_ranges(total)


def least_seconds(problem: Problem) -> float:
    """Return the seconds of an evaluation on ranges of so many cells that it reads every entry."""
    ranges = problem.ranges
    if ranges is None or fits((ranges.n, ranges.n // FEWEST_BLOCKS), 32):
        return 0.0
    return ENTRY_SECONDS * float(ranges.n) * ranges.shape[0]


def good_seconds(problem: Problem) -> float:
    """Return the seconds of a search that ends near the best: more for more cells."""
    known = problem.ordered_gram or problem.ranges
    if known is None:
        return 0.0
    n = min(known.n, LARGEST_DENSE)
    if problem.norm == "l2":
        return DENSE_SECONDS * float(n) ** 3
    return (CELL_SECONDS if problem.ordered_gram else CELL_SECONDS / 2) * n


@factory
def ordered_cells() -> Family:
    """Measure blocks of ordered cells, or their optimum: prefix sums and ranges."""
    return Family(
        "ordered_cells",
        "merged",
        BOTH_NORMS,
        applies,
        ordered_strategy,
        share=4.0,
        least=least_seconds,
        good=good_seconds,
        worthwhile=is_worthwhile,
    )


BANDS = 16
DESCENT_SECONDS = 2e-6  # for each cell, of a Toeplitz matrix and its gradient
MOST_EVALUATIONS = 100


@factory
def prefix_factorisation(bands: int = BANDS) -> Family:
    """Measure the optimum of ordered cells by sums that stream in few numbers: Gaussian noise.

    Parameters
    ----------
    bands : int, default=16
        Numbers that a stream keeps between cells. The error falls geometrically to the optimum of
        all strategies: 8 are within 2e-3 of it for a thousand cells, 16 within 1e-6.

    Examples
    --------
    >>> import strategies
    >>> found = strategies.select(
    ...     strategies.examples.prefix_sums(64), "l2", strategies.prefix_factorisation(bands=8)
    ... )
    >>> found.matrix, round(found.certified_ratio, 3)
    (Semiseparable(64 x 64), 1.0)
    """
    checked_count("bands", bands, 1, "numbers that a stream keeps")
    return _family("prefix_factorisation", is_ordered, partial(optimum, terms=bands))


@factory
def toeplitz(bands: int | None = None) -> Family:
    """Measure Toeplitz rows of few bands, which stream: prefix sums, Gaussian noise.

    Parameters
    ----------
    bands : int, optional
        Bands, the numbers that a stream keeps; all of them when not given.

    Examples
    --------
    >>> import strategies
    >>> found = strategies.select(
    ...     strategies.examples.prefix_sums(64), "l2", strategies.toeplitz(), objective="max"
    ... )
    >>> round(found.loss, 4)
    5.7066
    """
    checked_count("bands", bands, 1, "numbers that a stream keeps")
    return _family(
        "toeplitz", lambda one: importance(one) is not None, partial(best_toeplitz, bands=bands)
    )


def _family(
    name: str, serves: Callable[[Problem], bool], find: Callable[[Problem, float], Operator]
) -> Family:
    """Return a family that finds a strategy for ordered cells, alone or as a factor of products."""

    def search(problem: Problem, search: Search) -> Operator:
        if serves(problem):
            return lift_to_domain(problem, find(problem, search.work))
        factors = factor_problems(problem)
        require(any(map(serves, factors)) or None, "prefix sums, nor a factor of such")
        parts = Parts(search, search.work / len(factors))
        return Kronecker(
            [
                lift_to_domain(one, find(one, parts.work))
                if serves(one)
                else parts.best(one.workload)
                for one in factors
            ]
        )

    def applies(problem: Problem) -> bool:
        return serves(problem) or any(map(serves, factor_problems(problem)))

    return Family(
        name,
        "domain",
        frozenset({"l2"}),
        applies,
        search,
        worthwhile=never,
        objectives=BOTH_OBJECTIVES,
    )


def factor_problems(problem: Problem) -> list[Problem]:
    """Return the problems of a Kronecker product's factors, none where the workload is no product.

    The largest errors of the factors multiply, as their totals do; those of groups do not.
    """
    blocks = kronecker_blocks(problem.workload) or []
    if len(blocks) != 1 or problem.aim.groups is not None:
        return []
    objective = problem.aim.objective
    return [Problem.of(factor, problem.norm, objective) for factor in blocks[0][1].factors]


def lift_to_domain(problem: Problem, matrix: Operator) -> Operator:
    return matrix if problem.merging is None else problem.merging.invert(matrix)


def is_ordered(problem: Problem) -> bool:
    """Tell whether cells are ordered, or for the largest error rows are prefix sums."""
    return problem.ordered_gram is not None or problem.prefix_rows is not None


def optimum(problem: Problem, work: float, terms: int) -> Semiseparable:
    gram = problem.ordered_gram
    if gram is not None:
        dual = climb_either_way(gram, TOLERANCE, steps_within(gram.n, work))
        return ordered_root(*bands(gram, dual.weights), terms)
    rows = require(problem.prefix_rows, "prefix sums")
    return prefix_root(rows, prefix_dual(problem, rows), terms)


def importance(problem: Problem) -> Array | None:
    """Return what the noise of each age of an answer counts, (n,): ω; None where rows are others.

    For the largest error that of the last row, which has the noise of all.
    """
    if not problem.is_total:
        rows = problem.prefix_rows
        return None if rows is None or rows.is_flipped else np.ones(rows.n)
    gram = problem.ordered_gram
    if gram is None or np.ptp(gram.low) > 1e-9 * gram.low[0]:
        return None
    return np.asarray(np.cumsum(gram.reversal.steps)[::-1])


def best_toeplitz(problem: Problem, work: float, bands: int | None) -> Toeplitz:
    """Return the best Toeplitz matrix found over the merged cells, of sensitivity 1."""
    counts = require(importance(problem), "prefix sums in the cells' order")
    n = len(counts)
    start = square_root(n if bands is None else min(bands, n))
    evaluations = min(MOST_EVALUATIONS, int(work / (DESCENT_SECONDS * n)))
    others, _ = minimise(partial(filter_loss, counts), start[1:], evaluations)
    found = np.concatenate([[1.0], others])
    return Toeplitz(n, found / np.sqrt(found @ found))


def square_root(bands: int) -> Array:
    """Return ``binom(2k, k) / 4^k``, the power series of ``(1 - x)^(-1/2)``, (bands,)."""
    steps = np.arange(1.0, bands)
    return np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / steps)])


def filter_loss(counts: Array, others: Array) -> tuple[float, Array]:
    """Return ``log ‖c‖² Σ_k ω_k b_k²`` for ``c = (1, others)``, and its gradient."""
    n, c = len(counts), np.concatenate([[1.0], others])
    matrix = Toeplitz(n, c)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.cumsum(matrix.inverse)
        weighted = counts * sums
        error, size = float(weighted @ sums), float(c @ c)
        if not np.isfinite(error):
            return np.inf, np.zeros_like(others)
        moved = matrix.least_squares(sums)
        lagged = convolve(moved, weighted[::-1, None])[::-1, 0]
    return np.log(size * error), 2.0 * (others / size - lagged[1 : len(c)] / error)


def ordered_root(diagonal: Array, side: Array, terms: int = NODES) -> Semiseparable:
    """Return a lower triangle A (n, n) with ``AᵀA`` near ``K^(-1/2)``, its columns of L2 norm 1.

    `diagonal`, `side`: (n,), (n - 1,), the diagonals of K; `terms`: numbers kept between cells.
    """
    n = len(diagonal)
    check_allocation("terms of an ordered root", (n, terms))
    diagonal, side = diagonal[::-1], side[::-1]
    shifts, shares = root_nodes(diagonal, side, terms)
    entries, factors = np.empty((n, terms)), np.empty((n - 1, terms))
    for m in range(terms):
        entries[:, m], factors[:, m] = shifted_inverse(diagonal + shifts[m], side)
    entries *= shares
    lengths = np.sqrt(entries.sum(axis=1))
    generators = cholesky_generators(entries, factors) / lengths[:, None]
    factors *= (lengths[:-1] / lengths[1:])[:, None]
    return Semiseparable(generators[::-1], factors[::-1])


def prefix_root(rows: PrefixRows, dual: JointDual, terms: int = NODES) -> Semiseparable:
    diagonal, side = prefix_bands(rows, dual.groups, dual.cells)
    if rows.is_flipped:
        diagonal, side = diagonal[::-1], side[::-1]
    return ordered_root(diagonal, side, terms)


def cholesky_generators(entries: Array, factors: Array) -> Array:
    """Return the ``l_j`` (n, terms) of the Cholesky factor, each with the sum ``L_jj``."""
    n, terms = entries.shape
    generators, before = np.empty((n, terms)), np.zeros((terms, terms))
    for j in range(n):
        rest = entries[j] - before.sum(axis=1)
        generators[j] = rest / np.sqrt(rest.sum())
        if j < n - 1:
            before += np.multiply.outer(generators[j], generators[j])
            before *= factors[j]
            before *= factors[j][:, None]
    return generators
