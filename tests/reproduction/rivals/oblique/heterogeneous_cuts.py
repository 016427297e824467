"""HobRaF (Katuwal, Suganthan and Zhang, 2020): the best of many linear classifiers in a node."""

from dataclasses import replace

import numpy as np
from rivals.oblique.axis_cuts import Level, side_purity
from rivals.oblique.hyperclasses import class_distances, hyperclasses
from rivals.oblique.linear_classifiers import CLASSIFIERS, GroupedLevel
from rivals.oblique.moments import ClassMoments
from rivals.oblique.oblique_forest import Cuts
from rivals.oblique.projections import axis_cuts
from scipy.stats import rankdata

from mrf_matrix.base.arrays import Array, Bools, Longs

FEW = 4  # classes up to which every one is parted from the rest, unranked

ALL_OF = 20  # partitions up to which the two cheapest classifiers try all

USEFUL = 1e-5  # change of the Gini impurity below which a cut is none

Problem = tuple[int, Bools]
"""A node, and which of its classes are in the second group."""


ALL_BELOW = 8  # classes below which every partition is tried


def heterogeneous_cuts(level: Level, generator: np.random.Generator) -> Cuts:
    """Cut every node by the purest of its linear classifiers' hyperplanes, or along an attribute.

    Two classes are parted by all six classifiers. Up to four, each class is parted from the rest by
    all six, and the hyperclasses by discriminants and proximal planes. From five on partitions are
    ranked (`ranked_partitions`): the first half goes to discriminants and logistic regressions, the
    first quarter to the others; up to 20 all go to discriminants and proximal planes.

    Their published program hands its classifiers the last partition in place of each; here it is
    each. Where it evolves partitions of eight classes and more, these are drawn.
    """
    best = level.purity + USEFUL * level.sizes
    weights = np.zeros((len(level.starts), level.values.shape[1]))
    threshold, is_cut = np.zeros(len(level.starts)), np.zeros(len(level.starts), dtype=np.bool_)
    for name, problems in _problems(level, generator).items():
        if not problems:
            continue
        owner, found, at, purity = _tried(level, name, problems, generator)
        for problem in np.argsort(purity, kind="stable"):  # the purest of a node comes last
            node = owner[problem]
            if purity[problem] > best[node]:
                best[node], is_cut[node] = purity[problem], True
                weights[node], threshold[node] = found[problem], at[problem]
    if not is_cut.all():
        along = axis_cuts(level.of(~is_cut))
        weights[~is_cut], threshold[~is_cut] = along.weights, along.threshold
        is_cut[~is_cut] = along.is_cut
    return Cuts(weights, threshold, is_cut)


def _problems(level: Level, generator: np.random.Generator) -> dict[str, list[Problem]]:
    """Return what each classifier is asked to part."""
    moments = ClassMoments.of(level)
    second, is_grouped = hyperclasses(moments)
    distances = class_distances(moments)
    asked: dict[str, list[Problem]] = {name: [] for name in CLASSIFIERS}
    for node in np.flatnonzero(is_grouped):
        counts = level.counts[node]
        present = int((counts > 0).sum())
        if present <= FEW:
            shares = dict.fromkeys(CLASSIFIERS, 1.0)
            parted = one_against_the_rest(counts)[: 1 if present == 2 else None]
            if present > 2:
                for name in ("proximal", "discriminant"):
                    asked[name].append((int(node), second[node]))
        else:
            candidates = candidate_partitions(counts, second[node], generator)
            parted = ranked_partitions(candidates, counts, distances[node])
            shares = _shares(len(parted))
        for name, share in shares.items():
            tried = parted[: max(1, round(share * len(parted)))]
            asked[name] += [(int(node), partition) for partition in tried]
    return asked


def _shares(partitions: int) -> dict[str, float]:
    """Return the share of the ranked partitions that each classifier tries."""
    shares = dict.fromkeys(CLASSIFIERS, 0.25) | {"logistic": 0.5, "discriminant": 0.5}
    if partitions <= ALL_OF:
        shares |= {"discriminant": 1.0, "proximal": 1.0}
    return shares


def _tried(
    level: Level, name: str, problems: list[Problem], generator: np.random.Generator
) -> tuple[Longs, Array, Array, Array]:
    """Return the node, hyperplane and purity of every problem of one classifier."""
    owner = np.array([node for node, _ in problems])
    second = np.stack([partition for _, partition in problems])
    repeated, is_second = _repeated(level, owner, second)
    weights, threshold = CLASSIFIERS[name](GroupedLevel.of(repeated, is_second), generator)
    sums = np.einsum("rm,rm->r", repeated.values, weights[repeated.node])
    purity = side_purity(repeated, np.asarray(sums <= threshold[repeated.node]))
    usable = np.isfinite(weights).all(axis=1) & np.isfinite(threshold)
    return owner, weights, threshold, np.where(usable, purity, -1.0)


def _repeated(level: Level, owner: Longs, second: Bools) -> tuple[Level, Bools]:
    """Return the points of each problem's node, once for every problem, and their groups."""
    sizes = level.sizes[owner]
    starts = np.cumsum(sizes) - sizes
    problem = np.repeat(np.arange(len(owner)), sizes)
    rows = level.starts[owner][problem] + np.arange(len(problem)) - starts[problem]
    labels = level.labels[rows]
    repeated = replace(
        level,
        values=level.values[rows],
        labels=labels,
        node=problem,
        starts=starts,
        counts=level.counts[owner],
    )
    return repeated, second[problem, labels]


def one_against_the_rest(counts: Longs) -> Bools:
    """Return the partitions that part one class of a node from the others, shape (p, k)."""
    return np.eye(len(counts), dtype=np.bool_)[counts > 0]


def candidate_partitions(counts: Longs, second: Bools, generator: np.random.Generator) -> Bools:
    """Return the partitions of a node's classes that are worth ranking, shape (p, k).

    Below eight classes they are all; from there on `second`, the hyperclasses of the node, and
    those with one class moved, one class against the rest, and 10 random ones for each class.

    `counts` (k,); `second` (k,).
    """
    present = np.flatnonzero(counts)
    n = len(present)
    if n < ALL_BELOW:
        codes = np.arange(1, 2 ** (n - 1))
        inner = (codes[:, None] >> np.arange(n) & 1).astype(np.bool_)
    else:
        moved = second[present] ^ np.eye(n, dtype=np.bool_)
        drawn = generator.random((10 * n, n)) < 0.5
        inner = np.concatenate([second[None, present], moved, np.eye(n, dtype=np.bool_), drawn])
        inner = np.unique(inner ^ inner[:, :1], axis=0)  # the first class is in the first group
        inner = inner[inner.any(axis=1)]
    found = np.zeros((len(inner), len(counts)), dtype=np.bool_)
    found[:, present] = inner
    return found


def ranked_partitions(partitions: Bools, counts: Longs, distances: Array) -> Bools:
    """Return the partitions, best first, by two tied ranks added up.

    One is of the purity that the two groups would have if they were parted without error, the other
    of Dunn's index: the least Bhattacharyya distance between the groups over the largest within.

    `partitions` (p, k); `counts` (k,); `distances` (k, k).
    """
    present = counts > 0
    sizes = counts.astype(np.float64)
    purity = np.zeros(len(partitions))
    within = np.zeros(len(partitions))
    for group in (partitions & present, ~partitions & present):
        purity += group @ sizes**2 / np.maximum(group @ sizes, 1)
        both = group[:, :, None] & group[:, None, :]
        within = np.maximum(within, np.where(both, distances, 0.0).max(axis=(1, 2)))
    apart = (partitions & present)[:, :, None] & (~partitions & present)[:, None, :]
    between = np.where(apart, distances, np.inf).min(axis=(1, 2))
    dunn = np.where(within > 0, between / np.where(within > 0, within, 1.0), np.inf)
    order = np.argsort(-(rankdata(purity) + rankdata(dunn)), kind="stable")
    return np.asarray(partitions[order])
