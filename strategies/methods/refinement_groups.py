"""Partitions of a domain into boxes, and groups of them replaced by their common refinement.

A group of disjoint rows that covers the domain (a tree's leaves) is a partition. Measured one by
one, τ partitions cost the sensitivity τ. The common refinement of several partitions (all
nonempty intersections of their boxes) costs the sensitivity 1 and answers a box of any of them
by a sum over its parts. With weights by the law of optimal allocation, groups with errors
``v_g = Σ_boxes (workload weight inside)`` lose ``(Σ v_g^(1/3))³`` for Laplace and
``(Σ v_g^(1/2))²`` for Gaussian noise when nothing else is known; two groups are joined while that
sum falls, the best pair first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strategies.operators import Array, Norm, check_allocation
from strategies.operators.base.arrays import Bools

POWER: dict[Norm, float] = {"l1": 1 / 3, "l2": 1 / 2}


@dataclass(frozen=True, eq=False)
class Partition:
    """Disjoint boxes.

    Attributes
    ----------
    masks : tuple of ndarray of bool, shape (m, n_i)
        One mask for each box and attribute.
    weights : ndarray, shape (m,)
        Squared workload coefficients that fall on each box.
    members : tuple of int
        The groups of rows that were refined into it.
    covers : bool
        Whether the boxes cover the domain; only then it can be refined with another.
    """

    masks: tuple[Bools, ...]
    weights: Array
    members: tuple[int, ...]
    covers: bool

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
    """Return the common refinement of two partitions."""
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
        masks = tuple(np.concatenate(same) for same in zip(*(p.masks for p in parts), strict=True))
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
        """Replace two partitions by their refinement."""
        joined = refine(self.parts[i], self.parts[j])
        kept = [k for k in range(len(self.parts)) if k not in (i, j)]
        self.parts = [self.parts[k] for k in kept] + [joined]
        self.sums = np.pad(self.sums[np.ix_(kept, kept)], (0, 1))
        self.counts = np.pad(self.counts[np.ix_(kept, kept)], (0, 1))
        masks = tuple(np.concatenate(s) for s in zip(*(p.masks for p in self.parts), strict=True))
        starts = np.cumsum([0, *(len(part) for part in self.parts[:-1])])
        meets = overlaps(joined.masks, masks)
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
