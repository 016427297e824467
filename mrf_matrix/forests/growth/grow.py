"""Growth of all trees of a forest at once, level by level, and their later growth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Ints, Longs
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.base.provenance import FOREST, Provenance
from mrf_matrix.base.work import bounded_jobs
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import concatenate, graft, take_trees
from mrf_matrix.forests.ensembles import attribute_indices
from mrf_matrix.forests.forest import Forest, RandomState, check_growth, forest_from_levels
from mrf_matrix.forests.growth.growth import Growth
from mrf_matrix.forests.growth.level import Points, Splits, split_nodes
from mrf_matrix.forests.growth.records import Records
from mrf_matrix.forests.nodes import branch_pool, threshold_pattern


def code_pool(sizes: Sequence[int]) -> tuple[Ints, int]:
    """Return `branch_pool(sizes)` with tables "code c goes right" behind it, and their origin.

    The table of code c starts at ``origin - c``: a window over ``zeros (w) | 1 | zeros (w)``.

    >>> pool, origin = code_pool([3])
    >>> pool[origin - 1 : origin + 2]
    array([0, 1, 0], dtype=int32)
    """
    width = max(sizes)
    pool = branch_pool(sizes)
    single = np.zeros(2 * width + 1, dtype=np.int32)
    single[width] = 1
    return np.concatenate([pool, single]), len(pool) + width


MOST_POINTS = 1 << 23  # points (records x trees) that one block of trees may hold: 64 MB of them

_SMALLER = "raise min_points, lower n_trees or max_depth, or coarsen the domain"


@dataclass(frozen=True, eq=False)
class Grown:
    """A forest grown from records, and what its leaves hold.

    Attributes
    ----------
    forest : Forest
    leaf_counts : ndarray of int64, shape (n_leaves, n_classes)
        Class counts of each tree's estimation points in its leaves. **Raw counts of records**:
        not private.
    parent_counts : ndarray of int64, shape (n_leaves, n_classes)
        The counts of the nearest node above (or the leaf itself) that has estimation points.
    """

    forest: Forest
    leaf_counts: Longs
    parent_counts: Longs


def grow_forest(
    domain: Domain,
    codes: NDArray[Any],
    labels: NDArray[Any],
    growth: Growth,
    n_trees: int,
    *,
    centres: Sequence[NDArray[Any] | None] | None = None,
    nominal: Sequence[str | int] = (),
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> Grown:
    """Grow a forest from records.

    `domain`: with a target; `codes` (N, d); `labels` (N,); `growth`: the rules of the forest;
    `centres`: raw values of the codes, see `Records`; `nominal`: attributes without an order, by
    name or index: cut as "this code or not"; `random_state`: the forest does not depend on
    `n_jobs`; `n_jobs`: threads, each growing blocks of trees.

    Trees are grown in blocks of at most `MOST_POINTS` points. A block holds 8 bytes a point,
    twice while a level is split, and about 15 MB of temporaries; see `split_nodes`.
    """
    check_growth(n_trees, _SMALLER)
    records = Records.of(domain, codes, labels, centres, nominal_mask(domain, nominal))
    blocks = tree_blocks(n_trees, records.n_records)
    generators = np.random.default_rng(random_state).spawn(len(blocks))
    parts = Parallel(n_jobs=bounded_jobs(n_jobs), prefer="threads")(
        delayed(_grow_block)(records, growth, size, generator)
        for size, generator in zip(blocks, generators, strict=True)
    )
    return assemble(domain, records, growth, _merge_blocks(parts))


def nominal_mask(domain: Domain, nominal: Sequence[str | int]) -> NDArray[np.bool_] | None:
    """Return which attributes have no order; None where all have."""
    if not len(nominal):
        return None
    mask = np.zeros(domain.n_attributes, dtype=np.bool_)
    mask[attribute_indices(domain, nominal, "nominal")] = True
    return mask


def _patterns(domain: Domain, records: Records, splits: Splits, start: int) -> Ints:
    ordered = threshold_pattern(domain.sizes, splits.threshold)
    one_code = start - splits.threshold
    is_nominal = (splits.attribute >= 0) & records.nominal[splits.attribute]
    return np.where(is_nominal, one_code, ordered).astype(np.int32)


def tree_blocks(n_trees: int, n_records: int) -> list[int]:
    """Return the sizes of blocks of trees; they depend on the data's size alone."""
    most = max(1, min(n_trees, MOST_POINTS // n_records))
    n_blocks = -(-n_trees // most)
    return [len(part) for part in np.array_split(np.arange(n_trees), n_blocks)]


@dataclass(frozen=True, eq=False, repr=False)
class Level(PrivateValue):
    """Splits of a level's nodes (attribute -1: a leaf) and their estimation points by class."""

    tree: Ints
    splits: Splits
    counts: Longs


def _grow_block(
    records: Records, growth: Growth, n_trees: int, generator: np.random.Generator
) -> list[Level]:
    structure, estimation = first_points(records, growth, n_trees, generator)
    above = np.zeros(n_trees, dtype=np.int32)
    return grow_levels(records, growth, structure, estimation, above, generator)


def grow_levels(
    records: Records,
    growth: Growth,
    structure: Points,
    estimation: Points | None,
    above: Ints,
    generator: np.random.Generator,
) -> list[Level]:
    """Grow from roots whose points are given.

    `structure`, `estimation`: by root, sorted as `Points` says; None where all points serve both
    purposes; `above` (roots,): splits above each root, which count towards the depth of its tree.
    """
    tree = np.arange(len(above), dtype=np.int32)
    levels: list[Level] = []
    n_nodes = total = len(above)
    while n_nodes:
        counts = (estimation or structure).counts(records.labels, n_nodes, records.n_classes)
        is_open = _open_nodes(records, structure, counts, growth, above[tree] + len(levels))
        splits = Splits(np.full(n_nodes, -1, dtype=np.int64), np.zeros(n_nodes, dtype=np.int64))
        structure, estimation = _descend(
            records, structure, estimation, is_open, growth, generator, splits
        )
        levels.append(Level(tree, splits, counts))
        inner = splits.attribute >= 0
        tree = np.repeat(tree[inner], 2)
        n_nodes = len(tree)
        total += n_nodes
        check_growth(total, _SMALLER)
    return levels


def first_points(
    records: Records, growth: Growth, n_trees: int, generator: np.random.Generator
) -> tuple[Points, Points | None]:
    """Put the points at the roots; None for estimation points that are the structure points."""
    drawn = growth.points.draw(records.n_records, n_trees, generator)
    structure, estimation = (
        Points(record.astype(np.int32), tree.astype(np.int32)) for tree, record in drawn
    )
    return structure, estimation if growth.points.separate else None


def _open_nodes(
    records: Records, structure: Points, counts: Longs, growth: Growth, depth: Ints
) -> NDArray[np.bool_]:
    """Return which nodes, at these depths, may be split."""
    rule = growth.stopping
    least = rule.min_points + 1 if rule.rule == "node" else 2 * rule.min_points
    enough = counts.sum(axis=1) >= least
    if rule.max_depth is not None:
        enough &= depth < rule.max_depth
    if rule.split_pure:
        return np.asarray(enough)
    of_class = (
        structure.counts(records.labels, len(counts), records.n_classes)
        if growth.points.separate
        else counts
    )
    return np.asarray(enough & ((of_class > 0).sum(axis=1) > 1))


def _descend(
    records: Records,
    structure: Points,
    estimation: Points | None,
    is_open: NDArray[np.bool_],
    growth: Growth,
    generator: np.random.Generator,
    splits: Splits,
) -> tuple[Points, Points | None]:
    """Split the open nodes, note the splits, and return the children's points."""
    structure = structure.keep(is_open)
    estimation = estimation.keep(is_open) if estimation else None
    judges = estimation if growth.counts_estimation_on_sides else None
    n_open = int(is_open.sum())
    found = split_nodes(records, structure, judges, n_open, growth, generator)
    rows = np.flatnonzero(is_open)
    splits.attribute[rows], splits.threshold[rows] = found.attribute, found.threshold
    inner = found.attribute >= 0
    structure, right = _sides(records, structure, found, inner)
    structure = structure.split(right, int(inner.sum()))
    if estimation:
        estimation, right = _sides(records, estimation, found, inner)
        estimation = estimation.to_children(right)
    return structure, estimation


def _sides(
    records: Records, points: Points, found: Splits, inner: NDArray[np.bool_]
) -> tuple[Points, NDArray[np.bool_]]:
    """Return the points of the nodes that were split, and which of them go right."""
    points = points.keep(inner)
    attribute, threshold = found.attribute[inner], found.threshold[inner]
    return points, records.goes_right(attribute, threshold, points.node, points.record)


def _merge_blocks(blocks: list[list[Level]]) -> list[Level]:
    first_tree = np.cumsum([0, *(len(block[0].tree) for block in blocks)])
    levels = []
    for depth in range(max(map(len, blocks))):
        rows = [
            (first, block[depth])
            for first, block in zip(first_tree[:-1], blocks, strict=True)
            if depth < len(block)
        ]
        splits = Splits(
            np.concatenate([level.splits.attribute for _, level in rows]),
            np.concatenate([level.splits.threshold for _, level in rows]),
        )
        tree = np.concatenate([level.tree + np.int32(first) for first, level in rows])
        levels.append(Level(tree, splits, np.concatenate([level.counts for _, level in rows])))
    return levels


def assemble(domain: Domain, records: Records, growth: Growth, levels: list[Level]) -> Grown:
    pool, start = code_pool(domain.sizes)
    forest = forest_from_levels(
        domain,
        [level.splits.attribute.astype(np.int32) for level in levels],
        [_patterns(domain, records, level.splits, start) for level in levels],
        pool,
        provenance=Provenance.from_records("forest"),
        source=growth.source,
        allow_empty=True,
    )
    counts = np.concatenate([level.counts for level in levels])
    filled = np.flatnonzero(counts.sum(axis=1) > 0)
    nearest = np.arange(forest.n_nodes)
    is_filled = np.zeros(forest.n_nodes, dtype=np.bool_)
    is_filled[filled] = True
    for level in forest.levels[1:]:
        empty = level[~is_filled[level]]
        nearest[empty] = nearest[forest.parent[empty]]
    return Grown(forest, counts[forest.leaves], counts[nearest[forest.leaves]])


def bare_roots(domain: Domain, n_trees: int, source: str = "") -> Forest:
    leaf = np.full(n_trees, -1, dtype=np.int32)
    pool, _ = code_pool(domain.sizes)
    return forest_from_levels(
        domain, [leaf], [np.zeros_like(leaf)], pool, provenance=FOREST, source=source
    )


def grow_further(
    forest: Forest,
    codes: NDArray[Any],
    labels: NDArray[Any],
    growth: Growth,
    *,
    centres: Sequence[NDArray[Any] | None] | None = None,
    nominal: Sequence[str | int] = (),
    random_state: RandomState = None,
) -> Forest:
    """Split the leaves of a forest by records that were not there when it was grown.

    Each tree draws its points by the growth's law, sends them to its leaves, and every leaf is
    the root of further growing. From `bare_roots` the result is the forest that `grow_forest`
    grows of the same random state.

    `forest`: no split of it changes. `codes`, `labels`, `growth`, `centres`, `nominal`,
    `random_state`: as in `grow_forest`. The depth limit counts the splits above.

    The forest is data-dependent, without counts. **Not private.**

    Trees are grown in blocks as in `grow_forest`; a block's leaf numbers take 4 bytes a point.
    """
    domain = forest.domain
    records = Records.of(domain, codes, labels, centres, nominal_mask(domain, nominal))
    sizes = tree_blocks(forest.n_trees, records.n_records)
    generators = np.random.default_rng(random_state).spawn(len(sizes))
    blocks = np.split(np.arange(forest.n_trees), np.cumsum(sizes)[:-1])
    return concatenate(
        [
            _grow_block_further(take_trees(forest, block), records, growth, generator)
            for block, generator in zip(blocks, generators, strict=True)
        ]
    )


def _grow_block_further(
    forest: Forest, records: Records, growth: Growth, generator: np.random.Generator
) -> Forest:
    structure, estimation = first_points(records, growth, forest.n_trees, generator)
    leaf = forest.apply(records.columns.T)
    levels = grow_levels(
        records,
        growth,
        _points_by_leaf(structure, leaf),
        _points_by_leaf(estimation, leaf) if estimation else None,
        forest.depth[forest.leaves],
        generator,
    )
    return graft(forest, assemble(forest.domain, records, growth, levels).forest)


def _points_by_leaf(points: Points, leaf: Ints) -> Points:
    """Return points of trees as points of leaves; within a leaf they keep their order."""
    node = leaf[points.record, points.node]
    order = np.argsort(node, kind="stable")
    return Points(points.record[order], node[order])
