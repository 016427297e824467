"""What a posterior forest measures, decided without data, and its tables read off a release."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.shown import shown
from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests import BlockTrees, Forest
from mrf_matrix.forests.sources.block_trees import Block
from mrf_matrix.forests.sources.ensembles import attribute_positions
from mrf_matrix.mechanisms import ZCDP, Mechanism, PureDP, Release, calibrate
from mrf_matrix.mechanisms.budgets.neighboring import squared_factor
from mrf_matrix.planning.blocks.block_design import (
    BlockDesign,
    choose_blocks,
    judge_blocks,
    row_weights,
)
from mrf_matrix.posterior import BlockTable
from strategies.operators import RowScaled, check_allocation


@dataclass(frozen=True, eq=False)
class BlockMeasurement:
    """What is measured of given blocks.

    Attributes
    ----------
    blocks : tuple of tuple of int
        Positions of every block's attributes, in the order of the trees.
    forest : Forest
        A tree for each, and the class totals.
    weights : tuple of int
        Of a block's leaves and of the class totals in the strategy.
    mechanism : Mechanism
        The weighted leaves and their noise.
    """

    blocks: tuple[Block, ...]
    forest: Forest
    weights: tuple[int, int]
    mechanism: Mechanism


@dataclass(frozen=True, eq=False)
class PlannedMeasurement(BlockMeasurement):
    """All that is decided before the records are read.

    Attributes
    ----------
    design : BlockDesign
        Why these blocks.
    """

    design: BlockDesign


def planned_measurement(
    domain: Domain,
    budget: PureDP | ZCDP,
    structure: np.random.Generator,
    *,
    n_classes: int,
    n_records: int | None,
    n_blocks: int | str = "auto",
    blocks: Sequence[Sequence[int | str]] | None = None,
    neighboring: str,
) -> PlannedMeasurement:
    """Choose the blocks and calibrate the noise, without data.

    Parameters
    ----------
    domain : Domain
    budget : PureDP or ZCDP
    structure : Generator
        Shuffles attributes: public.
    n_classes : int
        Number of classes k.
    n_records : int or None
        Public number of records; None where it is not.
    n_blocks : int or "auto", default="auto"
        Number of blocks of all attributes; "auto" chooses.
    blocks : sequence of sequences of int or str, optional
        The attributes of each block by hand, by position or name; then none are chosen.
    neighboring : {"add_remove", "replace_one"}

    Raises
    ------
    ValueError
        If a parameter is out of range, or both blocks and their number are given.
    """
    factor = squared_factor(neighboring, budget.norm, nonnegative=True)  # of 0/1 paths
    known = None if n_records is None else whole_number("n_records", n_records)
    if blocks is None:
        auto = isinstance(n_blocks, str) and n_blocks == "auto"
        design = choose_blocks(
            domain.sizes,
            n_classes,
            budget,
            known,
            structure,
            squared_factor=factor,
            n_blocks=None if auto else whole_number("n_blocks", n_blocks),
        )
    else:
        given = _given(domain, blocks, n_blocks)
        design = judge_blocks(given, domain.sizes, n_classes, budget, known, squared_factor=factor)
    made = block_measurement(
        domain,
        budget,
        design.blocks,
        row_weights(budget, len(design.blocks)),
        n_classes=n_classes,
        neighboring=neighboring,
    )
    return PlannedMeasurement(**vars(made), design=design)


def _given(domain: Domain, blocks: Any, n_blocks: Any) -> tuple[Block, ...]:
    """Return blocks that were given by hand, as positions."""
    if n_blocks != "auto":
        raise ValueError(
            f"n_blocks={shown(n_blocks)} and blocks are both given: expected one of them. Leave "
            f"n_blocks out."
        )
    if isinstance(blocks, str) or not isinstance(blocks, Sequence | np.ndarray) or not len(blocks):
        raise ValueError(
            f"blocks={shown(blocks)}: expected one list of attributes for each block, for example "
            f"[[0, 1], ['age', 'sex']]."
        )
    trees = BlockTrees([attribute_positions("blocks", domain, block) for block in blocks])
    return tuple(tuple(block) for block in trees.blocks)


def block_measurement(
    domain: Domain,
    budget: PureDP | ZCDP,
    blocks: Sequence[Block],
    weights: tuple[int, int],
    *,
    n_classes: int,
    neighboring: str,
) -> BlockMeasurement:
    """Weigh the leaves of given blocks and calibrate the noise.

    Parameters
    ----------
    domain : Domain
    budget : PureDP or ZCDP
    blocks : sequence of tuple of int
    weights : tuple of int
        Of a block's leaves and of the class totals.
    n_classes : int
        Number of classes k.
    neighboring : {"add_remove", "replace_one"}

    Raises
    ------
    ValueError
        If the blocks are none of the domain.
    MemoryCapError
        If the covariance of a block's effects or the components of its residual, which prediction
        needs, would not fit.
    """
    for block in blocks:
        order = n_effects([domain.sizes[i] for i in block], n_classes)
        check_allocation(f"covariance of the effects of attributes {list(block)}", (order, order))
        components = prod(domain.sizes[i] + 1 for i in block)
        check_allocation(f"components of attributes {list(block)}", (components, n_classes))
    forest = BlockTrees(blocks).grow(domain)
    rows = np.full(forest.n_leaves, weights[0], dtype=np.float64)
    rows[-1] = weights[1]
    strategy = RowScaled(rows, path_matrix(forest))
    mechanism = calibrate(strategy, budget, neighboring=neighboring)
    return BlockMeasurement(tuple(blocks), forest, weights, mechanism)


def n_effects(sizes: Sequence[int], n_classes: int) -> int:
    """Return how many effects a block's model has: the order of their covariance."""
    return sum(sizes) + n_classes * (sum(sizes) + 1)


def tables_of(
    plan: BlockMeasurement, release: Release, order: NDArray[np.intp]
) -> tuple[list[BlockTable], BlockTable]:
    """Return the blocks' noisy tables and that of the class totals, columns in a given order."""
    leaf, total = (weight * float(release.scale) for weight in plan.weights)
    answers = release.answers[:, order].astype(np.float64)
    sizes = plan.forest.domain.sizes
    tables, start = [], 0
    for block in plan.blocks:
        fans = tuple(sizes[i] for i in block)
        stop = start + int(np.prod(fans))
        values = answers[start:stop] / leaf
        tables.append(BlockTable(block, fans, values, release.variance / leaf**2))
        start = stop
    return tables, BlockTable((), (), answers[-1:] / total, release.variance / total**2)
