"""Weighted b-ary hierarchies over ordered cells, in closed form.

A tree measures, on every level, the sums of blocks of ``k_0 = 1 < k_1 < ... `` cells, each size a
multiple of the one before, with one weight a level. Means over blocks are nested projections P_k,
so with ``t_l = tr(G P_(k_l)) - tr(G P_(k_(l+1)))`` (nothing above the last level)

    loss = (sum_l w_l)² sum_l t_l / lam_l,    lam_l = sum_(j <= l) w_j² k_j

for Laplace noise, ``sum_l w_l²`` in front for Gaussian noise (Hay, Rastogi, Miklau, Suciu 2010;
Qardaji, Yang, Li 2013). Where blocks reach beyond the last cell, cells of which nothing is asked
are added; leaving their columns out at the end lowers no answer's precision.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from scipy import sparse

from strategies.operators import Array, Norm, Operator, Ranges
from strategies.operators.ordered.ordered_sums import OrderedGram
from strategies.operators.ordered.p_identity import with_rows

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
        """Number of cells."""
        return len(self.array)

    @property
    def diagonal(self) -> Array:
        """Squared norms of the workload's columns."""
        return np.asarray(self.array.diagonal())

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
        """Return the strategy over n cells."""
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
    """Return the loss of equal weights on all levels."""
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
    bounds = [(1e-3, None)] + [(0.0, None)] * (len(sizes) - 1)
    found = scipy.optimize.minimize(
        log_loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": ITERATIONS, "ftol": 1e-12, "gtol": 0.0},
    )
    roots = found.x if found.fun < log_loss(start)[0] else start
    weights = roots**2 if norm == "l1" else roots
    weights = weights / (weights.sum() if norm == "l1" else np.sqrt(weights @ weights))
    return Hierarchy(sizes, weights, float(np.exp(log_loss(roots)[0])))


def trees(n: int) -> set[tuple[int, ...]]:
    """Return the block sizes of the b-ary trees over n cells, with all levels and without top ones.

    The root is seldom worth its weight.
    """
    whole = (tree_sizes(n, branching) for branching in BRANCHINGS)
    return {sizes[:levels] for sizes in whole for levels in range(2, len(sizes) + 1)}


def equal_trees(n: int) -> list[Operator]:
    """Return the equally weighted trees over n cells, for Laplace noise."""
    return [
        Hierarchy(sizes, np.full(len(sizes), 1.0 / len(sizes)), np.inf).matrix(n)
        for sizes in sorted(trees(n))
    ]


def best_hierarchy(gram: Grams, norm: Norm) -> Hierarchy:
    """Return the best weighted tree of 2 to 16 children a node, never above an equal one.

    Weights are descended from equal ones in the trees that are best with those.
    """
    known = trees(gram.n) | {(1, gram.n)}  # the total beside the cells
    ranked = sorted(known, key=lambda sizes: (equal_loss(gram, sizes, norm), sizes))
    found = [weighted_hierarchy(gram, sizes, norm) for sizes in ranked[:MOST_WEIGHTED]]
    return min(found, key=lambda tree: tree.loss)
