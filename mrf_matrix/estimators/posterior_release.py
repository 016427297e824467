"""What a `PosteriorForestClassifier` measures, and the tables it reads off the release."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.privacy_report import Measurement, PrivacyReport
from mrf_matrix.forests import BlockTrees, Forest
from mrf_matrix.forests.block_trees import Block
from mrf_matrix.mechanisms import ZCDP, Mechanism, PureDP, Release, calibrate
from mrf_matrix.mechanisms.neighboring import squared_factor
from mrf_matrix.planning.block_design import BlockDesign, choose_blocks, row_weights
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
    n_records: int | None,
    n_blocks: int | None,
    neighboring: str,
) -> PlannedMeasurement:
    """Choose the blocks and calibrate the noise, without data.

    Parameters
    ----------
    domain : Domain
    budget : PureDP or ZCDP
    structure : Generator
        Shuffles attributes: public.
    n_records : int or None
        Public number of records; None where it is not.
    n_blocks : int or None
        Number of blocks, chosen where None.
    neighboring : {"add_remove", "replace_one"}

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """
    factor = squared_factor(neighboring, budget.norm, nonnegative=True)  # of 0/1 paths
    design = choose_blocks(
        domain.sizes,
        domain.n_classes,
        budget,
        n_records,
        structure,
        squared_factor=factor,
        n_blocks=n_blocks,
    )
    made = block_measurement(
        domain,
        budget,
        design.blocks,
        row_weights(budget, len(design.blocks)),
        neighboring=neighboring,
    )
    return PlannedMeasurement(**vars(made), design=design)


def block_measurement(
    domain: Domain,
    budget: PureDP | ZCDP,
    blocks: Sequence[Block],
    weights: tuple[int, int],
    *,
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
        codes = sum(domain.sizes[i] for i in block)
        order = codes + domain.n_classes * (codes + 1)
        check_allocation(f"covariance of the effects of attributes {list(block)}", (order, order))
        components = prod(domain.sizes[i] + 1 for i in block)
        check_allocation(f"components of attributes {list(block)}", (components, domain.n_classes))
    forest = BlockTrees(blocks).grow(domain)
    rows = np.full(forest.n_leaves, weights[0], dtype=np.float64)
    rows[-1] = weights[1]
    strategy = RowScaled(rows, path_matrix(forest))
    mechanism = calibrate(strategy, budget, neighboring=neighboring)
    return BlockMeasurement(tuple(blocks), forest, weights, mechanism)


def tables_of(
    plan: BlockMeasurement, release: Release, order: NDArray[np.intp]
) -> tuple[list[BlockTable], BlockTable]:
    """Return the blocks' noisy tables and that of the class totals, classes in a given order."""
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


def posterior_report(
    plan: BlockMeasurement, release: Release, n_records: int | None
) -> PrivacyReport:
    """Return the report of the release; every figure comes from the release itself."""
    blocks = plan.blocks
    used = sum(map(len, blocks))
    leaf = plan.weights[0] * float(release.scale)
    reckoned = (
        "hundreds to ten thousand" if n_records is None else f"the public number of {n_records}"
    )
    return PrivacyReport(
        statement=release.statement,
        budget=repr(release.budget),
        neighboring=release.neighboring,
        noise=release.noise,
        measurements=(
            Measurement.of(
                release, f"tables of {len(blocks)} blocks of {used} attributes, and class totals"
            ),
        ),
        expected_rms_per_leaf=sqrt(release.variance) / leaf,
        notes=(
            f"blocks were chosen without data, for {reckoned} records",
            "labels and probabilities are posteriors under a model: they have no expected error "
            "known without data",
        ),
    )
