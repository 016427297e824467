"""Grow a forest further: other records split the leaves that earlier ones left."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Ints
from mrf_matrix.base.provenance import FOREST
from mrf_matrix.domain import Domain
from mrf_matrix.forests.assembly import forest_from_levels
from mrf_matrix.forests.combine import concatenate, hang, take_trees
from mrf_matrix.forests.forest import Forest
from mrf_matrix.forests.growth.grow import (
    assemble,
    first_points,
    grow_levels,
    nominal_mask,
    tree_blocks,
)
from mrf_matrix.forests.growth.growth import Growth
from mrf_matrix.forests.growth.level import Points
from mrf_matrix.forests.growth.patterns import code_pool
from mrf_matrix.forests.growth.records import Records
from mrf_matrix.forests.sources.source import RandomState


def bare_roots(domain: Domain, n_trees: int, source: str = "") -> Forest:
    """Return trees of one leaf each, to be grown further."""
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
        _at_leaves(structure, leaf),
        _at_leaves(estimation, leaf) if estimation else None,
        forest.depth[forest.leaves],
        generator,
    )
    return hang(forest, assemble(forest.domain, records, growth, levels).forest)


def _at_leaves(points: Points, leaf: Ints) -> Points:
    """Return points of trees as points of leaves; within a leaf they keep their order."""
    node = leaf[points.record, points.node]
    order = np.argsort(node, kind="stable")
    return Points(points.record[order], node[order])
