"""A certified lower bound on the loss of every strategy, for both norms and objectives.

*Total.* Over enumerable cells: the best weights found by `strategies.bounds.dual_ascent`, which
reach the optimum for Gaussian noise; an L1 column norm is at least the L2 norm, so the same bound
holds for Laplace noise. Over larger domains: `strategies.bounds.path_climb`, from Grams of the rows
alone.

*Worst row or group.* For tables of marginals: the weights μ below. Over other enumerable cells:
those of `strategies.bounds.dual_ascent`, for prefix sums of any number of them
`strategies.bounds.ordered_dual`. Beyond them, what holds for any weights: the largest of K sums is
at least the total over K, and one row's error is at least its largest entry squared, since ``w_ij =
(w_i A⁺) a_j <= ||w_i A⁺|| ||a_j||``.

*No row can be answered better than its largest cell.* For a strategy of sensitivity Δ,
``Δ² ||w A⁺||² >= max_j w_j²`` for every row w: with y on cell j alone the bound of
`strategies.bounds.dual_ascent` is that entry's square. Hence no loss is below ``Σ_i max_j W_ij²``.
For the batch prediction ``W = Q Tᵀ T`` with Gaussian noise it is the optimum: A = T reaches it
(`strategies.methods.gaussian_optimal`).

*The largest error of weighted marginal tables.* All rows of a table have one error. With weights μ
of sum 1 on the tables and ``e_tU`` the energy of one row of table t on the component of U, the
total of weighted errors has the closed optimum

    f(μ)² = (Σ_U sqrt(p_U Σ_t μ_t e_tU))²,

a lower bound of the largest error for every strategy and both norms, concave in μ. The optimal
strategy's errors are its slopes: ``μ <- μ e / f²`` climbs, and ends where no error is above f².

References
----------
Xiao, He, Zhang, Kifer: An optimal and scalable matrix mechanism for noisy marginals under convex
loss functions (2023), for the maximum variance. Written from the formulas.
"""

from dataclasses import dataclass
from functools import cached_property
from math import exp, lgamma, log, pi, prod

import numpy as np
from scipy import sparse

from strategies.bounds.dual_ascent import (
    LARGEST,
    MARGIN,
    WORK,
    certified_bound,
    certified_joint_bound,
    climbable_rows,
    heavy_bound,
    is_bearable,
    joint_dual,
    sampled_gram,
    total_dual,
    uniform_bound,
)
from strategies.bounds.ordered_dual import (
    climb_ordered,
    ordered_bound,
    prefix_bound,
    prefix_dual,
    ranges_bound,
)
from strategies.bounds.ordered_dual import steps_within as ordered_steps
from strategies.bounds.path_climb import GAP, LARGEST_GRAM, path_climb, paths_bound
from strategies.bounds.pinched_union import tables_bound
from strategies.bounds.sum_form import joint_bound
from strategies.operators import Array, Gram, Marginals, Operator, Product, RowKronecker, fits
from strategies.operators.base.arrays import as_dense, one_thread
from strategies.operators.kronecker import kronecker_blocks
from strategies.operators.masks.anova import Energies, products_over
from strategies.operators.masks.components import MaskRows, mask_rows, table_components
from strategies.problem.determining_rows import DistinctRows, is_explicit
from strategies.problem.problem import Aim, Problem

CLOSED_ROUNDING = 1e-12  # share taken off for the rounding of a sum of squares
MOST_ENTRIES = 5 * 10**7  # entries of an explicit workload that are looked through


def row_maximum_bound(problem: Problem) -> float:
    """Return ``Σ_i max_j W_ij²`` or a number below it, 0 where no entry is known."""
    if isinstance(problem.workload, Gram):
        return 0.0
    if isinstance(problem.workload, RowKronecker):  # 0/1 rows: 1, or 0 where a mask is empty
        return float((problem.workload.widths > 0).all(axis=1).sum()) * (1 - CLOSED_ROUNDING)
    merged, rows = problem.merged_workload, mask_rows(problem.workload)
    zeros_and_ones = rows is not None and rows.mix is None
    if (
        not zeros_and_ones
        and merged is not None
        and merged.entries <= MOST_ENTRIES
        and fits((merged.entries,), 16)
    ):
        form = abs(merged.compact())
        largest = as_dense(form.max(axis=1))
        return float((largest**2).sum()) * (1 - CLOSED_ROUNDING)
    if rows is None:
        return 0.0
    return float((met_entries(rows) ** 2).sum()) * (1 - CLOSED_ROUNDING)


def met_entries(rows: MaskRows) -> Array:
    """Return an entry of every row, the largest where all masks of a row meet and add, (q,).

    A cell that lies in all masks of a row has the sum of their coefficients. Where there is none,
    the entry is left at 0.
    """
    if rows.mix is None:  # 0/1 rows: 1, or 0 where a mask is empty
        return np.asarray(np.all([mask.any(axis=1) for mask in rows.masks], axis=0), np.float64)
    mix = sparse.csr_array(rows.mix)
    used = sparse.csr_array((np.ones_like(mix.data), mix.indices, mix.indptr), shape=mix.shape)
    counts = np.diff(mix.indptr)
    meets = counts > 0
    for mask in rows.masks:
        meets &= np.asarray((used @ mask.astype(np.float64)).max(axis=1)).ravel() == counts
    return np.where(meets, np.asarray(mix.sum(axis=1)).ravel(), 0.0)


TABLE_TOLERANCE = 1e-6
MOST_STEPS = 500


@dataclass(frozen=True, eq=False)
class TableDual:
    """Weights of the tables' rows together, of sum 1, and the bound that they prove."""

    weights: Array
    bound: float


def table_dual(problem: Problem) -> TableDual | None:
    """Return the climbed weights; None where rows are grouped, or the workload is no table.

    >>> W = Marginals((2, 4), [(0,), (1,)], [1.0, 1.0])
    >>> dual = table_dual(Problem.of(W, "l2", "max"))
    >>> round(dual.bound, 4), dual.weights.round(3).tolist()
    (1.6408, [0.558, 0.442])
    """
    tables = problem.workload
    if problem.aim.groups is not None or not isinstance(tables, Marginals):
        return None
    used = np.flatnonzero(tables.weights)
    weights = np.asarray(tables.weights, dtype=np.float64)[used]
    parts = table_components(tables.domain_sizes, tables.set_table[used], weights)
    energies = parts.energies
    ranks = products_over(parts.sets, np.asarray(tables.domain_sizes, dtype=np.float64) - 1.0)
    reached = np.flatnonzero(energies.sum(axis=0) > 0)
    energies, ranks = energies[:, reached], ranks[reached]
    weights = np.full(len(used), 1.0 / len(used))
    best, found = 0.0, weights
    for _ in range(MOST_STEPS):
        values = weights @ energies
        root = float(np.sqrt(values * ranks).sum())
        errors = root * (energies @ np.sqrt(ranks / values))
        if root**2 > best:
            best, found = root**2, weights
        if errors.max() <= best * (1.0 + TABLE_TOLERANCE):
            break
        weights = np.maximum(weights * errors / root**2, np.finfo(float).tiny ** 0.5)
        weights = weights / weights.sum()
    every = np.zeros(len(tables.weights))
    every[used] = found
    return TableDual(every, best * (1.0 - MARGIN))


def worst_bound(problem: Problem, work: float) -> float:
    """Return a bound that the largest error of no strategy can be below; 0 where none is known."""
    tables = table_dual(problem)
    if tables is not None:
        return max(tables.bound, largest_entries(problem.workload, problem.aim))
    prefix = problem.long_prefix_rows
    if prefix is not None:
        return prefix_bound(prefix, prefix_dual(problem, prefix))
    product = worst_product_bound(problem, work)
    if product is not None:
        return product
    rows, union = climbable_rows(problem), tables_bound(problem, work)
    if rows is not None:
        return max(
            union, certified_joint_bound(rows, joint_dual(problem, rows, work)), row_bound(rows)
        )
    count = problem.aim.n_groups(problem.workload.shape[0])
    entries = largest_entries(problem.workload, problem.aim)
    if union:
        return max(union, entries)
    return float(max(total_bound(problem, work) / count, entries))


def worst_product_bound(problem: Problem, work: float = WORK) -> float | None:
    """Return the product of the bounds of a Kronecker product's factors, None where it is none.

    Products of weights of rows and of cells make the nuclear norm, a bound for both norms, one.
    """
    blocks = kronecker_blocks(problem.workload) or []
    if len(blocks) != 1 or problem.aim.groups is not None or len(blocks[0][1].factors) < 2:
        return None
    (weight, block), *_ = blocks
    each = work / len(block.factors)
    bounds = (worst_bound(Problem.of(one, "l2", "max"), each) for one in block.factors)
    return float(weight**2 * prod(bounds))


def row_bound(rows: DistinctRows) -> float:
    """Return the largest group's sum of squared largest entries of rows.

    >>> row_bound(DistinctRows(np.array([[1.0, 2.0]]), np.array([0]), np.array([0])))
    4.0
    """
    return rows.value(np.asarray(np.abs(rows.rows).max(axis=1) ** 2))


def total_bound(problem: Problem, work: float = WORK) -> float:
    """Return a bound on the total error of all rows: of tables, or at uniform weights of cells."""
    known = joint_bound(problem.as_total(), work)
    if known:
        return known
    if problem.merging is not None and fits((problem.merging.n_groups,) * 2, 16):
        return uniform_bound(sampled_gram(problem))
    return paths_bound(problem.workload, work / 2) or 0.0


def largest_entries(workload: Operator, aim: Aim) -> float:
    """Return the largest sum of squared largest entries where the rows show them, else 0."""
    if isinstance(workload, Marginals):
        return max(workload.weights) ** 2 if aim.groups is None else 0.0
    rows = mask_rows(workload)
    return 0.0 if rows is None else aim.value(met_entries(rows) ** 2)


TOLERANCE = 2e-4
"""Gap at which the climb stops: the bound is then within 0.02 % of the best of its kind."""
CLOSE = 0.02  # gap at which a bound over ordered cells is not looked for elsewhere
ROUNDING = 1e-11
"""Share taken off a closed form: it is a sum of positive products, each rounded a few times."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """The lower bound of a problem, computed once, on first use.

    >>> round(Certificate(Problem.of(np.eye(3)))(), 6)
    3.0
    """

    problem: Problem

    @cached_property
    def value(self) -> float:
        with one_thread():
            return lower_bound(self.problem)

    def __call__(self) -> float:
        return self.value


def lower_bound(problem: Problem, work: float = WORK) -> float:
    """Return a bound that the loss of no strategy can be below; 0 where none is known.

    `work`: seconds of the reference machine for climbs; spectra and closed forms come on top.
    """
    if not problem.is_total:
        return worst_bound(problem, work)
    known = algebra_bound(problem)
    if known is not None:
        return known
    if problem.ordered_gram is not None:
        n = problem.ordered_gram.n
        dual = climb_ordered(problem.ordered_gram, TOLERANCE, ordered_steps(n, work))
        bound = ordered_bound(problem.ordered_gram, dual.weights)
        if dual.gap < CLOSE and bound > (1.0 - CLOSE) * dual.root**2:
            return bound  # the optimum for Gaussian noise: no other bound is above
        return max(bound, rows_bound(problem, work))  # cells of too different weight for that route
    product, merging = products_bound(problem, work), problem.merging
    if product > 0 and (merging is None or merging.n_groups > SMALL):
        return max(product, row_maximum_bound(problem))
    return max(product, row_maximum_bound(problem), rows_bound(problem, work))


def products_bound(problem: Problem, work: float) -> float:
    """Return a bound for a product, or for a union of several as tables, else 0."""
    if isinstance(problem.workload, RowKronecker | Product):  # rows of masks, or sums of such
        return 0.0
    known = tables_bound(problem, work) or joint_bound(problem, work)
    return known or product_bound(problem, work)


def product_bound(problem: Problem, work: float = WORK) -> float:
    """Return the sum over Kronecker products of the products of their factors' bounds, else 0.

    The optimum for Gaussian noise of a product is the product of those of its factors: weights of
    their cells multiply, and nuclear norms with them. No such law is known for Laplace noise, so
    that factors are bounded for Gaussian noise. The loss on several workloads is the sum of the
    losses on each.
    """
    blocks = kronecker_blocks(problem.workload)
    if blocks is None:
        return 0.0
    factors = {id(factor): factor for _, block in blocks for factor in block.factors}
    each = work / len(factors)
    known = {name: lower_bound(Problem.of(factor, "l2"), each) for name, factor in factors.items()}
    return sum(
        weight**2 * prod(known[id(factor)] for factor in block.factors) for weight, block in blocks
    )


def has_weighable_cells(problem: Problem) -> bool:
    """Tell whether merged cells are weighted one by one: few, or those of few explicit rows.

    Not where rows combine paths over many cells: their climb needs no entry for every cell.
    """
    merging = problem.merging
    if merging is None:
        return False
    if merging.n_groups <= LARGEST:
        return fits((merging.n_groups,) * 2, 32)
    if not problem.is_total or problem.workload.shape[0] >= merging.n_groups:
        return False
    if problem.row_ranges is not None or path_climb(problem) is not None:
        return False
    return problem.merged_workload is not None and is_explicit(problem.merged_workload)


def rows_bound(problem: Problem, work: float) -> float:
    """Return a bound from the workload's rows over its merged cells, or from paths behind them.

    Where no search has weighted its cells, and that would take too long: at weights by length.
    """
    merging = problem.merging
    few = has_weighable_cells(problem)
    merged = problem.merged_workload
    if few and merged is not None and not is_bearable(problem, merged.shape[1]):
        return heavy_bound(merged)
    ranges = None if few or merging is None else problem.ranges
    if ranges is not None and fits((ranges.shape[1],) * 2, 24):
        return ranges_bound(problem, ranges)
    climbed = 0.0 if few else climbed_paths_bound(problem, work)
    if climbed > 0.0:
        return climbed
    factor = problem.factor if few else None
    if factor is None:
        found = paths_bound(problem.workload, work / 2)
        sampled = merging is not None and found is None
        return uniform_bound(sampled_gram(problem)) if sampled else found or 0.0
    return certified_bound(factor, total_dual(problem, factor, TOLERANCE, work).weights)


def climbed_paths_bound(problem: Problem, work: float) -> float:
    climb = path_climb(problem)
    if climb is None or (climb.best is None and max(climb.paths.mix.shape) > LARGEST_GRAM):
        return 0.0
    climb.run(GAP, work)
    return climb.certified_bound()


SMALL = 600  # merged cells up to which a product's rows are asked beside its factors


def closed_bound(problem: Problem, work: float = WORK) -> float | None:
    """Return the best bound of a closed form, None where there is none.

    Unions of tables and the factors of products are climbed on, within the work; the rest costs
    next to nothing.
    """
    if not problem.is_total:
        tables = table_dual(problem)
        return None if tables is None else tables.bound
    known = algebra_bound(problem)
    if known is not None:
        return known
    if problem.ordered_gram is not None:  # neither rule is ever tight there
        return None
    return max(products_bound(problem, work), row_maximum_bound(problem)) or None


def algebra_bound(problem: Problem) -> float | None:
    """Return a bound for a workload in the marginals algebra, else None.

    The optimum for Gaussian noise, ``(Σ_U sqrt(w_U p_U))²``: the gap is zero, at any size
    (`strategies.operators.masks.anova`). It bounds the losses for Laplace noise too, and where
    attributes are many and small volumes do better.
    """
    energies = problem.energies
    if energies is None or not energies.is_invariant:
        return None
    root = float(np.sqrt(energies.values * energies.ranks).sum())
    volume = volume_bound(energies) if problem.norm == "l1" else 0.0
    return max(root**2, volume) * (1.0 - ROUNDING)


def volume_bound(energies: Energies) -> float:
    """Return a bound for Laplace noise from volumes, for tables of many small attributes.

    Let ``W = RA`` with ``||A||₁ = 1``, of rank D, and Z unit Laplace noise. ``V = RZ`` has a
    symmetric log-concave density ``f(v) ≥ f(0) exp(-||v||_K)``, where K is the hull of W's columns
    and their negatives, so ``f ≤ 1 / (D! vol K)``. Of such densities a ball's has the least second
    moment, and that of V is twice the loss:

        loss ≥ D / (2 (D + 2)) (D! vol K / vol ball)^(2/D).

    On the components of single attributes K holds a product of simplices, one of n vertices for
    each, and with the total the hull of two such, turned, at heights h and -h: at least 2h times
    the volume (Brunn and Minkowski). What is left of the workload is orthogonal to those, and has
    its own optimum for Gaussian noise.
    """
    single, empty = energies.sets.sum(axis=1) == 1, ~energies.sets.any(axis=1)
    sizes = np.asarray(energies.sizes)[energies.sets[single].argmax(axis=1)].astype(np.float64)
    left = ~(single | empty)
    rest = float(np.sqrt(energies.values[left] * energies.ranks[left]).sum()) ** 2
    rank = float((sizes - 1.0).sum()) + float(empty.sum())
    if not single.any():
        return 0.0
    squares = energies.values[single] * sizes / (sizes - 1.0)  # of the simplices' scales
    simplices = 0.5 * np.log(sizes) + 0.5 * (sizes - 1.0) * np.log(squares)
    heights = 0.5 * np.log(4.0 * energies.values[empty])
    volume = float(simplices.sum() + heights.sum()) - sum(map(lgamma, sizes.tolist()))
    ball = 0.5 * rank * log(pi) - lgamma(0.5 * rank + 1.0)
    moment = exp(2.0 / rank * (lgamma(rank + 1.0) + volume - ball))
    return 0.5 * rank / (rank + 2.0) * moment + rest
