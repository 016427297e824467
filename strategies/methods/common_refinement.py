"""Common refinements: trees joined where one finer partition is cheaper than several.

The strategy is a stack of weighted partitions of the domain, each the common refinement of a
group of the workload's own groups of disjoint rows (a forest's trees). It serves domains of any
size: rows, Grams and errors need nothing of length n.

Measured one by one, τ partitions cost the sensitivity τ. The common refinement of several (all
nonempty intersections of their boxes) costs 1 and answers a box of any of them by a sum over its
parts. With weights by the law of optimal allocation, groups with errors ``v_g = Σ_boxes (workload
weight inside)`` lose ``(Σ v_g^(1/3))³`` for Laplace and ``(Σ v_g^(1/2))²`` for Gaussian noise when
nothing else is known; two groups are joined while that sum falls, the best pair first. Then the
partitions' weights descend on the exact loss

    (Σ θ_g)² tr(C (Σ θ_g² L_gᵀ L_g)⁻¹ Cᵀ)        (Σ θ_g² in front for Gaussian noise),

where the boxes' row Gram factors as ``L Lᵀ`` (pivoted Cholesky, once) and C holds the workload's
rows in the same coordinates. For Gaussian noise that is convex in θ². Groups that stay alone make
the strategy "the workload itself" with optimal weights by trees, consistency included; a joint
table of several trees is a marginal when they branch alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from strategies.methods.descents import REFUSED, minimise
from strategies.methods.family import (
    BOTH_NORMS,
    PATHS,
    Family,
    Search,
    evaluation_seconds,
    factory,
    is_unordered,
    require,
)
from strategies.operators import (
    Array,
    Identity,
    Norm,
    Operator,
    RowKronecker,
    RowScaled,
    check_allocation,
    fits,
)
from strategies.operators.base.arrays import Bools
from strategies.operators.masks.components import MaskRows, mask_rows
from strategies.problem.problem import Problem

POWER: dict[Norm, float] = {"l1": 1 / 3, "l2": 1 / 2}
MOST_ROWS = 1600  # rows of the workload up to which the family serves
MOST_BOXES = 2000  # rows of the strategy: its row Gram is factored, and evaluated again at the end
SECONDS_PER_CUBE = 6e-10  # work of factoring a row Gram, per cube of its side
SMALLEST = 1e-3
"""Smallest weight of a partition during the descent, relative to the average."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Disjoint boxes."""

    masks: tuple[Bools, ...]  # (m, n_i): one for each box and attribute
    weights: Array  # (m,): squared workload coefficients that fall on each box
    members: tuple[int, ...]  # the groups of rows that were refined into it
    covers: bool  # whether the boxes cover the domain; only then it can be refined with another

    def __len__(self) -> int:
        return len(self.weights)


def partitions_of(
    masks: Sequence[Bools], groups: NDArray[np.int64], weights: Array
) -> list[Partition]:
    """Cut rows with groups into partitions; a share of 1 in all means that a group covers."""
    result = []
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        own = tuple(mask[rows] for mask in masks)
        share = np.prod([mask.mean(axis=1) for mask in own], axis=0).sum()
        covers = bool(abs(share - 1) < 1e-9)
        result.append(Partition(own, weights[rows], (int(group),), covers))
    return result


def all_masks(parts: Sequence[Partition]) -> list[Bools]:
    """Return the masks of all boxes, attribute by attribute."""
    return [np.concatenate(same) for same in zip(*(part.masks for part in parts), strict=True)]


def overlaps(left: Sequence[Bools], right: Sequence[Bools]) -> Bools:
    """Tell which boxes meet which: an array of shape (boxes left, boxes right)."""
    shape = (len(left[0]), len(right[0]))
    check_allocation("overlaps of boxes", shape, 9)
    result = np.ones(shape, dtype=bool)
    for one, other in zip(left, right, strict=True):
        if not (one.all() or other.all()):
            result &= one.astype(np.float32) @ other.T.astype(np.float32) > 0
    return result


def refine(one: Partition, other: Partition) -> Partition:
    first, second = np.nonzero(overlaps(one.masks, other.masks))
    masks = tuple(a[first] & b[second] for a, b in zip(one.masks, other.masks, strict=True))
    weights = one.weights[first] + other.weights[second]
    return Partition(masks, weights, one.members + other.members, covers=True)


@dataclass(eq=False)
class Joiner:
    """Partitions on their way to being joined, with the cost of joining every pair."""

    parts: list[Partition]
    # (G, G): workload weight of the boxes of one partition, summed over overlaps with another's
    sums: Array
    counts: Array  # (G, G): boxes of the pair's refinement

    @classmethod
    def of(cls, parts: list[Partition]) -> "Joiner":
        """Meet all boxes with all boxes once; the largest arrays are boxes x boxes."""
        masks = all_masks(parts)
        meets = overlaps(masks, masks).astype(np.float32)
        starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
        counts = np.add.reduceat(np.add.reduceat(meets, starts, axis=0), starts, axis=1)
        meets *= np.concatenate([part.weights for part in parts])[:, None]
        sums = np.add.reduceat(np.add.reduceat(meets, starts, axis=0), starts, axis=1)
        return cls(list(parts), sums.astype(np.float64), counts.astype(np.float64))

    def gains(self, norm: Norm, room: int) -> Array:
        """Return how much the law's sum falls for every pair, -inf where a pair cannot join."""
        power = POWER[norm]
        alone = np.array([part.weights.sum() for part in self.parts]) ** power
        gain = alone[:, None] + alone - (self.sums + self.sums.T) ** power
        sizes = np.array([len(part) for part in self.parts], dtype=np.float64)
        added = self.counts - sizes[:, None] - sizes
        covers = np.array([part.covers for part in self.parts])
        allowed = (added <= room) & covers[:, None] & covers & ~np.eye(len(alone), dtype=bool)
        return np.where(allowed, gain, -np.inf)

    def join(self, i: int, j: int) -> None:
        joined = refine(self.parts[i], self.parts[j])
        kept = [k for k in range(len(self.parts)) if k not in (i, j)]
        self.parts = [self.parts[k] for k in kept] + [joined]
        self.sums = np.pad(self.sums[np.ix_(kept, kept)], (0, 1))
        self.counts = np.pad(self.counts[np.ix_(kept, kept)], (0, 1))
        starts = np.cumsum([0, *(len(part) for part in self.parts[:-1])])
        meets = overlaps(joined.masks, all_masks(self.parts))
        ones = np.add.reduceat(meets.sum(axis=0), starts)
        self.counts[-1] = self.counts[:, -1] = ones
        self.sums[-1] = np.add.reduceat(joined.weights @ meets, starts)
        weights = np.concatenate([part.weights for part in self.parts])
        self.sums[:, -1] = np.add.reduceat(meets.sum(axis=0) * weights, starts)


def joined_groups(
    start: Joiner,
    norm: Norm,
    most_boxes: int,
    generator: np.random.Generator | None = None,
    spread: float = 0.0,
) -> list[Partition]:
    """Join pairs while the law's sum falls, best first.

    `start`: left as it is; `most_boxes`: boxes in all that may not be exceeded; `spread`: relative
    spread of the gains' random factors, for restarts that differ.
    """
    joiner = Joiner(list(start.parts), start.sums, start.counts)
    while len(joiner.parts) > 1:
        room = most_boxes - sum(len(part) for part in joiner.parts)
        gain = joiner.gains(norm, room)
        ranked = gain
        if generator is not None and spread > 0:
            factors = np.exp(spread * generator.normal(size=gain.shape))
            ranked = np.where(gain > 0, gain * factors, -np.inf)
        i, j = np.unravel_index(int(np.argmax(ranked)), gain.shape)
        if not gain[i, j] > 1e-9:
            break
        joiner.join(int(i), int(j))
    return joiner.parts


def law_sum(parts: Sequence[Partition], norm: Norm) -> float:
    """Return the loss by the law of optimal allocation, when nothing else is known."""
    power = POWER[norm]
    return float(sum(part.weights.sum() ** power for part in parts) ** (1 / power))


@dataclass(frozen=True, eq=False)
class BoxLoss:
    """The exact loss of weighted partitions on a workload."""

    coordinates: Array  # (m, r): L with ``A Aᵀ = n L Lᵀ`` for the boxes A
    gram: Array  # (r, r): ``CᵀC`` of the workload's rows in the same coordinates
    group: NDArray[np.int64]  # (m,): partition of every box

    @classmethod
    def of(cls, rows: MaskRows, parts: list[Partition]) -> "BoxLoss":
        """Factor the boxes' row Gram; the largest arrays are m x m."""
        group = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        check_allocation("row Gram of the boxes", (len(group), len(group), 3))
        gram = np.ones((len(group), len(group)))
        for mask in all_masks(parts):
            if not mask.all():
                gram *= (mask.astype(np.float32) @ mask.T.astype(np.float32)) / mask.shape[1]
        coordinates = pivoted_cholesky(gram)
        path_coordinates = membership(rows, parts) @ coordinates
        own = path_coordinates if rows.mix is None else np.asarray(rows.mix @ path_coordinates)
        return cls(coordinates, own.T @ own, group.astype(np.int64))

    @cached_property
    def work(self) -> float:
        m, r = self.coordinates.shape
        return 2e-4 + 2.5e-10 * float(r * r * (m + r))

    def log_loss(self, weights: Array, norm: Norm) -> tuple[float, Array]:
        """Return the logarithm of the loss and its gradient in θ ("l1") or in θ² ("l2")."""
        squares = weights**2 if norm == "l1" else weights
        scaled = self.coordinates * np.sqrt(squares)[self.group, None]
        try:
            factor = linalg.cho_factor(scaled.T @ scaled)
        except linalg.LinAlgError:
            return REFUSED, np.zeros_like(weights)
        half = linalg.cho_solve(factor, self.gram)
        error, cost = float(np.trace(half)), float(weights.sum())
        whole = linalg.cho_solve(factor, half.T)
        slopes = np.einsum("ij,ij->i", self.coordinates @ whole, self.coordinates)
        slope = -np.bincount(self.group, slopes, minlength=len(weights)) / error
        if norm == "l1":
            return float(2 * np.log(cost) + np.log(error)), 2 / cost + 2 * weights * slope
        return float(np.log(cost) + np.log(error)), 1 / cost + slope


def pivoted_cholesky(gram: Array) -> Array:
    """Return L (m x r) with ``G = L Lᵀ`` up to rounding, r the numerical rank."""
    tolerance = 1e-10 * float(gram.diagonal().max())
    factor, pivots, rank, _ = linalg.lapack.dpstrf(gram, tol=tolerance, lower=1)
    result = np.empty((len(gram), rank))
    result[pivots - 1] = np.tril(factor)[:, :rank]
    return result


def membership(rows: MaskRows, parts: list[Partition]) -> sparse.csr_array:
    """Return which boxes sum to each inner row of the workload (o x m, 0/1)."""
    assert rows.groups is not None
    first, table = 0, []
    for part in parts:
        own = np.flatnonzero(np.isin(rows.groups, part.members))
        row, box = np.nonzero(overlaps([mask[own] for mask in rows.masks], part.masks))
        table.append((own[row], first + box))
        first += len(part)
    row, box = (np.concatenate(index) for index in zip(*table, strict=True))
    return sparse.csr_array((np.ones(len(row)), (row, box)), shape=(len(rows.groups), first))


def refined_partitions(problem: Problem, search: Search) -> Operator:
    rows = require(mask_rows(problem.workload), PATHS)
    parts = best_groups(rows, problem.norm, search)
    loss = BoxLoss.of(rows, parts)
    start = np.array([part.weights.sum() for part in parts]) ** POWER[problem.norm]
    iterations = min(60, int(0.5 * search.work / loss.work))
    start = np.maximum(start, 1e-9) / start.mean()
    value = partial(loss.log_loss, norm=problem.norm)
    weights, log_loss = start, value(start)[0]
    if iterations > 0:
        weights, log_loss = minimise(value, start, iterations, SMALLEST)
    if log_loss > np.log(problem.merged_total):  # above the Identity: not worth an evaluation
        return Identity(problem.workload.shape[1], problem.workload.sizes)
    scales = weights if problem.norm == "l1" else np.sqrt(weights)
    boxes = RowKronecker.from_masks(all_masks(parts), loss.group)
    return RowScaled(scales[loss.group] / scales.max(), boxes)


def best_groups(rows: MaskRows, norm: Norm, search: Search) -> list[Partition]:
    """Join greedily, then again with randomised gains as the allowance admits; keep the best."""
    groups = require(rows.groups, "groups of disjoint rows")
    parts = partitions_of(rows.masks, groups, rows.squares)
    parts = [part for part in parts if part.weights.sum() > 0]
    start = Joiner.of(parts)
    boxes = sum(len(part) for part in parts)
    room = max(boxes, min(MOST_BOXES, int(np.cbrt(search.work / SECONDS_PER_CUBE))))
    best = joined_groups(start, norm, room)
    cost = 2e-9 * len(parts) * boxes * (20 * len(rows.masks) + len(parts)) + 1e-3
    for _ in range(min(20, int(0.3 * search.work / cost))):
        trial = joined_groups(start, norm, room, search.generator, 0.3)
        best = min(best, trial, key=lambda found: law_sum(found, norm))
    return best


def applies(problem: Problem) -> bool:
    """Tell whether rows of masks come in groups, few enough for a row Gram.

    Over a domain with fewer cells than the strategy may have rows, refinements end at the
    Identity, which needs no search.
    """
    if problem.workload.shape[1] <= MOST_ROWS:
        return False
    rows = mask_rows(problem.workload)
    if rows is None or rows.groups is None or len(rows.sizes) < 2:
        return False
    count = len(rows.groups)
    return 1 < count <= MOST_ROWS and fits((count, count), 32)


def least_seconds(problem: Problem) -> float:
    rows = problem.workload.shape[0]
    return SECONDS_PER_CUBE * float(rows) ** 3 + evaluation_seconds(problem, rows)


@factory
def common_refinement() -> Family:
    """Measure one finer partition in place of several: trees over large domains."""
    return Family(
        "common_refinement",
        "domain",
        BOTH_NORMS,
        applies,
        refined_partitions,
        least=least_seconds,
        worthwhile=lambda problem: is_unordered(problem, 0),
    )
