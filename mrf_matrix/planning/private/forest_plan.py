"""The forest that follows what a private plan chose: its steps, by public numbers and the choices.

Tables of attributes that were kept have blocks of their own.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from mrf_matrix.base.checks import structure_generator
from mrf_matrix.base.provenance import NOTHING, Chosen, Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests.sources.ensembles import Block
from mrf_matrix.labels import LabelPlan, label_plan
from mrf_matrix.mechanisms.claim import squared_factor
from mrf_matrix.planning.blocks.block_design import BlockChoice, choose_blocks
from mrf_matrix.planning.blocks.block_part import check_block
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.cost import check_cost
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of, tables_plan
from mrf_matrix.planning.plans.strategy_choice import Measuring
from mrf_matrix.planning.private.pooled_plan import PooledPlan, pooled_plan
from mrf_matrix.planning.private.rules import OF_RESIDUALS, POOLS, Measured
from mrf_matrix.residual import ResidualPlan, residual_plan
from mrf_matrix.residual.settings import Budget
from strategies.operators import MemoryCapError

ForestPlan = Plan | ResidualPlan | LabelPlan | PooledPlan


class Choosing(Protocol):
    """What the forest that follows asks of the plan of a claim."""

    @property
    def domain(self) -> Domain:
        """The public domain."""

    @property
    def measured(self) -> Measured:
        """The kind of forest."""

    @property
    def rest(self) -> Budget:
        """What choices leave for it."""

    @property
    def neighboring(self) -> str:
        """The neighbouring relation."""

    @property
    def n_records(self) -> int | None:
        """Where their number is public."""

    @property
    def even_records(self) -> int | None:
        """Records of even classes that tell as much, where a choice said so."""


def forest_plan(
    plan: Choosing,
    kept: tuple[int, ...] | None,
    random_state: Any,
    provenance: Provenance = NOTHING,
) -> ForestPlan:
    """Return the plan of the forest that a private plan takes, over attributes that were kept."""
    structure, measured = structure_generator(random_state), plan.measured
    known: Any = {"n_records": plan.n_records, "neighboring": plan.neighboring}
    if measured == "labels":
        return label_plan(plan.domain, plan.rest, structure, **known)
    if measured in POOLS:
        residuals = measured in OF_RESIDUALS
        return pooled_plan(plan.domain, plan.rest, random_state, residuals=residuals, **known)
    if kept is None and measured == "additive":
        even = plan.even_records
        return residual_plan(plan.domain, plan.rest, structure, even_records=even, **known)
    if kept is None and plan.even_records is not None:
        kept = tuple(range(plan.domain.n_attributes))
    blocks = None
    if kept is not None:
        blocks = Chosen(blocks_of(plan, kept, structure), provenance)
    return tables_plan(plan.domain, plan.rest, structure, blocks=blocks, **known)


def tables_of(plan: Choosing, budget: Budget, blocks: list[Block] | None) -> Plan:
    """Return the plan of a posterior forest: of given blocks, or of those it would choose."""
    return plan_of(
        kind_of("tables"),
        plan.domain,
        BlockChoice("auto", blocks),
        Measuring(budget, plan.neighboring),
        np.random.default_rng(0),
        n_records=plan.n_records,
    )


def blocks_of(
    plan: Choosing, chosen: tuple[int, ...], structure: np.random.Generator
) -> list[Block]:
    """Return the blocks of chosen attributes: decided by public numbers and the choices.

    Attributes stand alone, as was checked before, where a design for few records does not fit.
    """
    domain, budget = plan.domain, plan.rest
    design = choose_blocks(
        [domain.sizes[i] for i in chosen],
        domain.n_classes,
        budget,
        plan.even_records or plan.n_records,
        structure,
        squared_factor=squared_factor(plan.neighboring, budget.norm, nonnegative=True),
    )
    blocks: list[Block] = [tuple(chosen[i] for i in block) for block in design.blocks]
    try:
        for block in blocks:
            check_block(domain, block, domain.n_classes)
        check_cost(tables_of(plan, budget, blocks))
    except MemoryCapError:
        return single_attributes(plan, chosen)
    return blocks


def single_attributes(plan: Choosing, attributes: Iterable[int]) -> list[Block]:
    """Return a block for each attribute of more than one code."""
    return [(i,) for i in attributes if plan.domain.sizes[i] > 1]
