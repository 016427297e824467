"""The plan of a posterior forest: blocks chosen without data, leaves measured themselves."""

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests.sources.ensembles import Ensemble, EnsembleDesign
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.planning.blocks.block_measurement import planned_measurement
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.planned_blocks import PlannedBlocks
from mrf_matrix.planning.plans.workloads import Codes


def check_plain(design: EnsembleDesign, strategy: Any, budget_shares: Any) -> None:
    """Refuse parameters of other modes: a posterior forest has trees of its own.

    Raises
    ------
    ValueError
        If one of them is not at its default.
    """
    given: dict[str, Any] = {**vars(design), "budget_shares": budget_shares}
    usual: dict[str, Any] = {**vars(EnsembleDesign()), "budget_shares": None}
    strange = [
        name
        for name, value in given.items()
        if not (value is usual[name] or (np.ndim(value) == 0 and value == usual[name]))
    ]
    if not isinstance(strategy, str) or strategy != "auto":
        strange.append("strategy")
    if strange:
        raise ValueError(
            f"{', '.join(strange)} in mode='posterior': its trees are tables of blocks, measured "
            f"as they are. Expected n_blocks or blocks only; leave the others out."
        )


def posterior_plan(
    domain: Domain,
    budget: PureDP | ZCDP,
    structure: np.random.Generator,
    *,
    n_classes: int,
    n_records: int | None,
    n_blocks: Any,
    blocks: Any,
    neighboring: str,
    asked: tuple[Codes, NDArray[np.int64]],
) -> Plan:
    """Return the plan of what `PosteriorForestClassifier` measures with the same parameters.

    Parameters
    ----------
    domain, budget, structure, n_classes, n_records, n_blocks, blocks, neighboring
        See `planned_measurement`.
    asked : tuple of ndarray
        Distinct public queries, and how often each is asked.
    """
    started = perf_counter()
    measured = planned_measurement(
        domain,
        budget,
        structure,
        n_classes=n_classes,
        n_records=n_records,
        n_blocks=n_blocks,
        blocks=blocks,
        neighboring=neighboring,
    )
    ensemble = Ensemble(tuple(range(domain.n_attributes)), measured.forest)
    return Plan(
        domain=domain,
        mode="posterior",
        parts=(PlannedBlocks.of(measured, ensemble, path_matrix(measured.forest)),),
        queries=asked[0],
        multiplicity=asked[1],
        n_classes=n_classes,
        allocation="matrix",
        voting="posterior",
        n_records=n_records,
        select_seconds=perf_counter() - started,
    )
