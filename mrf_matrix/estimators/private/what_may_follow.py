"""What a private forest may measure once its choices are made, and the memory that it takes.

Choices are paid for with the forest that follows them. So what they may lead to is checked before:
by public numbers, and by the number of records, as the forests themselves do.
"""

from collections.abc import Callable, Iterable

import numpy as np

from mrf_matrix.base.steps import tell
from mrf_matrix.estimators.shared.given_data import EncodedRecords, check_before_release
from mrf_matrix.forests.sources.block_trees import Block
from mrf_matrix.mechanisms.budgets.claim import squared_factor
from mrf_matrix.planning.blocks.block_design import BlockChoice, choose_blocks
from mrf_matrix.planning.blocks.block_part import check_block
from mrf_matrix.planning.kinds.kind import TableSource
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.cost import check_cost
from mrf_matrix.planning.plans.measuring import Measuring
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of
from mrf_matrix.planning.private import PrivatePlan
from mrf_matrix.planning.private.private_plan import OF_RESIDUALS
from mrf_matrix.residual import ResidualPlan
from mrf_matrix.residual.records import check_scores
from mrf_matrix.residual.settings import Budget
from strategies.operators import MemoryCapError, check_allocation


def check_what_may_follow(
    announced: PrivatePlan,
    most: PrivatePlan,
    data: TableSource,
    steps: Callable[[PrivatePlan], ResidualPlan],
) -> None:
    """Refuse forests that could not be fitted, before anything is spent.

    `announced`: before any choice; `most`: what follows where classes are even, whose signal is
    weighed; `data`: **Private**; `steps`: gives the sequence of a plan of residuals.
    """
    tell("Checking memory")
    domain = most.domain
    widest = int(np.argmax(domain.sizes))
    check_block(domain, (widest,), domain.n_classes)  # the least that may be kept
    screening = most.chosen.screening
    if screening is not None and screening.enough is not None:
        shape = (screening.most_cells, domain.n_classes)
        check_allocation("the joint table of attributes that are chosen first", shape)
    if announced.balance is not None:  # tables follow, whatever they are for even classes
        alone = single_attributes(most, range(domain.n_attributes))
        check_cost(tables_of(announced, announced.after_balance, alone))
    sequences = [plan for plan in (most, announced) if plan.chosen.measured in OF_RESIDUALS]
    if sequences:  # steps take as much memory, whatever their budget
        if isinstance(data, EncodedRecords):
            check_scores(len(data.labels), domain.n_classes)
        check_cost(steps(sequences[0]))
    if most.chosen.measured == "tables":
        check_before_release(tables_of(most, most.rest, None))


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
