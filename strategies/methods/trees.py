"""Strategies over cells in their order: weighted b-ary hierarchies, blocks, the Haar wavelet.

A tree measures, on every level, the sums of blocks of ``k_0 = 1 < k_1 < ... `` cells, each size a
multiple of the one before, with one weight a level. Means over blocks are nested projections P_k,
so with ``t_l = tr(G P_(k_l)) - tr(G P_(k_(l+1)))`` (nothing above the last level)

    loss = (sum_l w_l)² sum_l t_l / lam_l,    lam_l = sum_(j <= l) w_j² k_j

for Laplace noise, ``sum_l w_l²`` in front for Gaussian noise (Hay, Rastogi, Miklau, Suciu 2010;
Qardaji, Yang, Li 2013). Where blocks reach beyond the last cell, cells of which nothing is asked
are added; leaving their columns out at the end lowers no answer's precision.

The rows of level l of the Haar wavelet are differences of two neighbouring blocks of ``k_l = 2^l``
cells, and

    loss = (sum_l w_l)² sum_l t_l / (2 k_l w_l²)        (sum_l w_l² in front for Gaussian noise),

with the total, of n cells, as its last row. So ``w ∝ (t_l / k_l)^(1/3)`` is best for Laplace noise
and ``w² ∝ (t_l / k_l)^(1/2)`` for Gaussian noise.

They serve any workload whose cells can be enumerated. Where cells are ordered,
`strategies.methods.ordered_cells` is never above a tree.

References
----------
Hay, Rastogi, Miklau, Suciu: Boosting the accuracy of differentially private histograms through
consistency (2010): trees. Xiao, Wang, Gehrke: Differential privacy via wavelet transforms (2010):
Privelet. Qardaji, Yang, Li: Understanding hierarchical methods for differentially private
histograms (2013): 16 children a node.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from scipy import sparse

from strategies.methods.descents import minimise
from strategies.methods.family import (
    BOTH_NORMS,
    Family,
    Search,
    checked_count,
    checked_switch,
    factory,
    has_few_cells,
    never,
    require,
)
from strategies.operators import Array, Identity, Norm, Operator, Ranges, Sparse
from strategies.operators.identity import with_rows
from strategies.operators.ordered_sums import OrderedGram
from strategies.problem.problem import Problem

BRANCHINGS = tuple(range(2, 17))  # children of a node that are tried
ITERATIONS = 200
MOST_WEIGHTED = 12
"""Trees whose weights are descended."""


@dataclass(frozen=True, eq=False)
class CellGram:
    """A Gram of which every entry is known."""

    array: Array  # (n, n)

    @property
    def n(self) -> int:
        return len(self.array)

    @cached_property
    def corners(self) -> Array:
        """Sums over the first i rows and j columns, (n + 1, n + 1)."""
        sums = np.zeros((self.n + 1,) * 2)
        np.cumsum(np.cumsum(self.array, axis=0), axis=1, out=sums[1:, 1:])
        return sums

    def block_trace(self, size: int) -> float:
        """Return ``tr(G P_k)``: the sums over blocks of cells on the diagonal, over k."""
        first = np.arange(0, self.n, size)
        last = np.minimum(first + size, self.n)
        apart = self.corners[first, last] + self.corners[last, first]
        blocks = self.corners[last, last] + self.corners[first, first] - apart
        return float(blocks.sum() / size)


Grams = OrderedGram | Ranges | CellGram


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree over ordered cells with one weight a level."""

    sizes: tuple[int, ...]  # cells of a block of each level, from 1 up
    weights: Array  # (levels,): in all 1 (for "l1"), squares in all 1 (for "l2")
    loss: float  # in closed form, cells beyond the last counted as measured

    def matrix(self, n: int) -> Operator:
        counts = [-(-n // size) for size in self.sizes[1:]]
        offsets = np.cumsum([0, *counts])
        cells = np.arange(n)
        places = [
            cells // size + start for size, start in zip(self.sizes[1:], offsets, strict=False)
        ]
        values = np.repeat(self.weights[1:], n)
        pairs = (np.concatenate(places), np.tile(cells, len(counts)))
        rows = sparse.csr_array((values, pairs), shape=(int(offsets[-1]), n))
        rows.eliminate_zeros()
        return with_rows(np.full(n, self.weights[0]), rows)


def block_traces(gram: Grams, sizes: tuple[int, ...]) -> Array:
    """Return ``tr(G P_k)`` for every block size: sums over blocks, over their cells."""
    if isinstance(gram, Ranges):
        return np.array([range_block_trace(gram, size) for size in sizes])
    if isinstance(gram, CellGram):
        return np.array([gram.block_trace(size) for size in sizes])
    traces = []
    for size in sizes:
        blocks = -(-gram.n // size)
        low, high = np.zeros((2, blocks * size))
        low[: gram.n], high[: gram.n] = gram.low, gram.high
        below = np.cumsum(low.reshape(blocks, size), axis=1)
        both = 2.0 * np.sum(high.reshape(blocks, size) * below) - np.sum(gram.diagonal)
        traces.append(both / size)
    return np.asarray(traces)


def range_block_trace(ranges: Ranges, size: int) -> float:
    """Return ``tr(G P_k)``: over rows and blocks, the squares of the cells in both over k."""
    first, last = ranges.starts // size, (ranges.stops - 1) // size
    left, right = (first + 1) * size - ranges.starts, ranges.stops - last * size
    apart = left.astype(np.float64) ** 2 + right**2.0 + (last - first - 1.0) * float(size) ** 2
    squares = np.where(first == last, ranges.lengths.astype(np.float64) ** 2, apart)
    return float(ranges.squares @ squares) / size


def tree_sizes(n: int, branching: int) -> tuple[int, ...]:
    """Return the block sizes of the smallest full b-ary tree over at least n cells."""
    sizes = [1]
    while sizes[-1] < n:
        sizes.append(sizes[-1] * branching)
    return tuple(sizes)


def equal_loss(gram: Grams, sizes: tuple[int, ...], norm: Norm) -> float:
    shares = -np.diff(block_traces(gram, sizes), append=0.0)
    levels = len(sizes)
    cost = levels**2 if norm == "l1" else levels
    return float(cost * np.sum(shares / np.cumsum(np.asarray(sizes, dtype=np.float64))))


def weighted_hierarchy(gram: Grams, sizes: tuple[int, ...], norm: Norm) -> Hierarchy:
    """Return a tree with weights descended from equal ones, and never worse than those."""
    shares = -np.diff(block_traces(gram, sizes), append=0.0)
    lengths = np.asarray(sizes, dtype=np.float64)

    def log_loss(roots: Array) -> tuple[float, Array]:
        weights = roots**2 if norm == "l1" else roots
        cost = weights.sum() if norm == "l1" else weights @ weights
        levels = np.cumsum(weights**2 * lengths)
        errors = np.divide(shares, levels)
        total = errors.sum()
        slope = -2.0 * weights * lengths * np.cumsum((errors / levels)[::-1])[::-1] / total
        if norm == "l1":
            return 2.0 * np.log(cost) + np.log(total), (2.0 / cost + slope) * 2.0 * roots
        return np.log(cost) + np.log(total), 2.0 * roots / cost + slope

    start = np.ones(len(sizes))
    roots, least = minimise(log_loss, start, ITERATIONS, np.r_[1e-3, np.zeros(len(sizes) - 1)])
    roots = roots if least < log_loss(start)[0] else start
    weights = roots**2 if norm == "l1" else roots
    weights = weights / (weights.sum() if norm == "l1" else np.sqrt(weights @ weights))
    return Hierarchy(sizes, weights, float(np.exp(log_loss(roots)[0])))


def trees(n: int) -> set[tuple[int, ...]]:
    """Return the block sizes of the b-ary trees over n cells, with all levels and without top ones.

    The root is seldom worth its weight.
    """
    whole = (tree_sizes(n, branching) for branching in BRANCHINGS)
    return {sizes[:levels] for sizes in whole for levels in range(2, len(sizes) + 1)}


def best_hierarchy(gram: Grams, norm: Norm) -> Hierarchy:
    """Return the best weighted tree of 2 to 16 children a node, never above an equal one.

    Weights are descended from equal ones in the trees that are best with those.
    """
    known = trees(gram.n) | {(1, gram.n)}  # the total beside the cells
    ranked = sorted(known, key=lambda sizes: (equal_loss(gram, sizes, norm), sizes))
    found = [weighted_hierarchy(gram, sizes, norm) for sizes in ranked[:MOST_WEIGHTED]]
    return min(found, key=lambda tree: tree.loss)


LARGEST = 10_000  # merged cells up to which a Gram of no known form is written out


def gram_in_order(problem: Problem) -> OrderedGram | Ranges | CellGram:
    known = problem.ordered_gram or problem.ranges
    if known is not None:
        return known
    return CellGram(require(problem.gram))


def tree_nodes(
    problem: Problem, search: Search, branching: int | None = None, weighted: bool = True
) -> Operator:
    """Return the nodes of a b-ary tree, of the best one where no b is given."""
    gram, norm, n = gram_in_order(problem), problem.norm, cells_of(problem)
    if n == 1:
        return Identity(1)
    if branching is None and weighted:
        return best_hierarchy(gram, norm).matrix(n)
    known = sorted(trees(n)) if branching is None else [tree_sizes(n, branching)]
    sizes = min(known, key=lambda one: equal_loss(gram, one, norm))
    found = weighted_hierarchy(gram, sizes, norm) if weighted else level_weights(sizes, norm)
    return found.matrix(n)


def level_weights(
    sizes: tuple[int, ...], norm: Norm, weights: Sequence[float] | None = None
) -> Hierarchy:
    """Return blocks with given weights of the levels, equal ones by default, of sensitivity 1."""
    values = np.ones(len(sizes)) if weights is None else np.asarray(weights, dtype=np.float64)
    scale = values.sum() if norm == "l1" else np.sqrt(values @ values)
    return Hierarchy(sizes, values / scale, float("inf"))


def block_sums(
    problem: Problem,
    search: Search,
    sizes: tuple[int, ...] | None = None,
    weights: Sequence[float] | None = None,
) -> Operator:
    n = cells_of(problem)
    if n == 1:
        return Identity(1)
    chosen = (1, max(2, round(np.sqrt(n)))) if sizes is None else sizes
    if weights is not None:
        return level_weights(chosen, problem.norm, weights).matrix(n)
    return weighted_hierarchy(gram_in_order(problem), chosen, problem.norm).matrix(n)


def haar_rows(problem: Problem, search: Search, weighted: bool = True) -> Operator:
    """Return the rows of the Haar wavelet, with the best weights of its levels or equal ones.

    Where n is no power of two, cells of which nothing is asked are added, and their columns left
    out at the end.
    """
    n = cells_of(problem)
    if n == 1:
        return Identity(1)
    sizes = tree_sizes(n, 2)  # 1, 2, ..., at least n
    weights = np.ones(len(sizes))
    if weighted:
        traces = block_traces(gram_in_order(problem), sizes)
        parts = np.append(-np.diff(traces) / 2, traces[-1]) / np.asarray(sizes)
        kept = np.maximum(parts, np.finfo(float).eps * parts.max())  # a level of nothing, rounded
        weights = np.cbrt(kept) if problem.norm == "l1" else kept**0.25
        weights /= weights.max()
    cells = np.arange(n)
    blocks = [weights[-1] * sparse.csr_array(np.ones((1, n)))]
    for weight, size in zip(weights, sizes[:-1], strict=False):
        signs = weight * (1.0 - 2.0 * (cells // size % 2))
        places = cells // (2 * size)
        blocks.append(sparse.csr_array((signs, (places, cells)), shape=(places[-1] + 1, n)))
    return Sparse(sparse.csr_array(sparse.vstack(blocks)))


def cells_of(problem: Problem) -> int:
    return require(problem.merging).n_groups


def applies(problem: Problem) -> bool:
    known = problem.ordered_gram or problem.ranges
    return known is not None or has_few_cells(problem, LARGEST, 24)


@factory
def tree(*, branching: int | None = None, weighted: bool = True) -> Family:
    """Measure the nodes of a b-ary tree over the cells in their order.

    Parameters
    ----------
    branching : int, optional
        Children of a node, at least 2. By default the best of 2 to 16, with or without the
        uppermost levels.
    weighted : bool, default=True
        Whether levels have the best weights, or equal ones, as in the papers.

    Raises
    ------
    ValueError
        If `branching` is no integer of at least 2, or `weighted` is not True or False.
    """
    checked_count("branching", branching, 2, "the children of a node")
    checked_switch("weighted", weighted)
    found = partial(tree_nodes, branching=branching, weighted=weighted)
    return Family("tree", "merged", BOTH_NORMS, applies, found, worthwhile=never)


@factory
def levels(*, sizes: Sequence[int] | None = None, weights: Sequence[float] | None = None) -> Family:
    """Measure blocks of cells of given sizes, such as 1, 8 and 64, one weight a level.

    Parameters
    ----------
    sizes : sequence of int, optional
        Cells of a block of each level: 1 first, each a multiple of the one before. By default 1
        and about the root of the number of cells.
    weights : sequence of float, optional
        Weight of each level, above 0. By default the best ones.

    Raises
    ------
    ValueError
        If sizes do not begin at 1 or do not divide the next, or weights are not as many or not
        above 0.
    """
    if sizes is not None:
        whole = all(isinstance(one, int) and not isinstance(one, bool) for one in sizes)
        nested = whole and all(b > a > 0 and b % a == 0 for a, b in pairwise(sizes))
        if not nested or len(sizes) < 2 or sizes[0] != 1:
            raise ValueError(
                f"sizes={sizes!r}: expected two integers or more, 1 first and each a multiple of "
                f"the one before, such as (1, 8, 64)."
            )
    count = 2 if sizes is None else len(sizes)
    given = None if weights is None else tuple(weights)
    if given is not None and not (len(given) == count and all(0 < w < np.inf for w in given)):
        raise ValueError(f"weights={weights!r}: expected {count} numbers above 0, one a level.")
    chosen = None if sizes is None else tuple(sizes)
    found = partial(block_sums, sizes=chosen, weights=given)
    return Family("levels", "merged", BOTH_NORMS, applies, found, worthwhile=never)


@factory
def wavelet(*, weighted: bool = True) -> Family:
    """Measure the Haar wavelet of the cells in their order.

    Parameters
    ----------
    weighted : bool, default=True
        Whether levels have the best weights, in closed form, or equal ones, as in the papers.

    Raises
    ------
    ValueError
        If `weighted` is not True or False.
    """
    checked_switch("weighted", weighted)
    found = partial(haar_rows, weighted=weighted)
    return Family("wavelet", "merged", BOTH_NORMS, applies, found, worthwhile=never)
