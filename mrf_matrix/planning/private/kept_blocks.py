"""Blocks of the attributes that private choices kept, and the plan of their tables."""

from collections.abc import Iterable

import numpy as np

from mrf_matrix.forests.sources.block_trees import Block
from mrf_matrix.mechanisms.budgets.claim import squared_factor
from mrf_matrix.planning.blocks.block_design import BlockChoice, choose_blocks
from mrf_matrix.planning.blocks.block_part import check_block
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.cost import check_cost
from mrf_matrix.planning.plans.measuring import Measuring
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of
from mrf_matrix.planning.private.private_plan import PrivatePlan
from mrf_matrix.residual.settings import Budget
from strategies.operators import MemoryCapError


def tables_of(plan: PrivatePlan, budget: Budget, blocks: list[Block] | None) -> Plan:
    """Return the plan of a posterior forest: of given blocks, or of those it would choose."""
    return plan_of(
        kind_of("posterior"),
        plan.domain,
        BlockChoice("auto", blocks),
        Measuring(budget, plan.neighboring),
        np.random.default_rng(0),
        n_records=plan.n_records,
    )


def blocks_of(
    plan: PrivatePlan, chosen: tuple[int, ...], structure: np.random.Generator
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


def single_attributes(plan: PrivatePlan, attributes: Iterable[int]) -> list[Block]:
    """Return a block for each attribute of more than one code."""
    return [(i,) for i in attributes if plan.domain.sizes[i] > 1]
