"""What a `PosteriorForestClassifier` measures, and the tables it reads off the release."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.privacy_report import Measurement, PrivacyReport
from mrf_matrix.forests import BlockTrees, Forest
from mrf_matrix.mechanisms import ZCDP, Mechanism, PureDP, Release, calibrate, neighboring_factor
from mrf_matrix.planning.block_design import BlockDesign, choose_blocks, row_weights
from mrf_matrix.posterior import BlockTable
from strategies.operators import RowScaled

ASSUMED_RECORDS = 1000
"""Records that the choice of blocks reckons with where their number is not public."""


@dataclass(frozen=True, eq=False)
class PlannedMeasurement:
    """All that is decided before the records are read.

    Attributes
    ----------
    design : BlockDesign
        Blocks of attributes.
    forest : Forest
        A tree for each, and the class totals.
    weights : tuple of int
        Of a block's leaves and of the class totals in the strategy.
    mechanism : Mechanism
        The weighted leaves and their noise.
    """

    design: BlockDesign
    forest: Forest
    weights: tuple[int, int]
    mechanism: Mechanism


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
        Public number of records; `ASSUMED_RECORDS` where it is not.
    n_blocks : int or None
        Number of blocks, chosen where None.
    neighboring : {"add_remove", "replace_one"}

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """
    factor = neighboring_factor(neighboring)
    design = choose_blocks(
        domain.sizes,
        domain.n_classes,
        budget,
        ASSUMED_RECORDS if n_records is None else n_records,
        structure,
        squared_factor=float(factor) ** 2,
        n_blocks=n_blocks,
    )
    forest = BlockTrees(design.blocks).grow(domain)
    weights = row_weights(budget, len(design.blocks))
    rows = np.full(forest.n_leaves, weights[0], dtype=np.float64)
    rows[-1] = weights[1]
    strategy = RowScaled(rows, path_matrix(forest))
    return PlannedMeasurement(
        design, forest, weights, calibrate(strategy, budget, neighboring=neighboring)
    )


def tables_of(
    plan: PlannedMeasurement, release: Release, order: NDArray[np.intp]
) -> tuple[list[BlockTable], BlockTable]:
    """Return the blocks' noisy tables and that of the class totals, classes in a given order."""
    leaf, total = (weight * float(release.scale) for weight in plan.weights)
    answers = release.answers[:, order].astype(np.float64)
    sizes = plan.forest.domain.sizes
    tables, start = [], 0
    for block in plan.design.blocks:
        fans = tuple(sizes[i] for i in block)
        stop = start + int(np.prod(fans))
        values = answers[start:stop] / leaf
        tables.append(BlockTable(block, fans, values, release.variance / leaf**2))
        start = stop
    return tables, BlockTable((), (), answers[-1:] / total, release.variance / total**2)


def posterior_report(
    plan: PlannedMeasurement, release: Release, n_records: int | None
) -> PrivacyReport:
    """Return the report of the release; every figure comes from the release itself."""
    blocks = plan.design.blocks
    used = sum(map(len, blocks))
    leaf = plan.weights[0] * float(release.scale)
    reckoned = "the public number of records" if n_records is not None else "records assumed to be"
    size = ASSUMED_RECORDS if n_records is None else n_records
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
            f"blocks were chosen without data, for {reckoned} {size}",
            "labels and probabilities are posteriors under a model: they have no expected error "
            "known without data",
        ),
    )


def checked_count(name: str, value: Any, least: int | None) -> int | None:
    """Return a whole number of at least ``least``, or None where that is None."""
    if least is None:
        return None
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}.")
    return int(value)
