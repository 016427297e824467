"""The memory that a private forest may take once its choices are made, checked before they are.

Choices are paid for with the forest that follows them. So what they may lead to is checked first:
by public numbers, and by the number of records, as the forests themselves do.
"""

from typing import Any

import numpy as np

from mrf_matrix.base.steps import tell
from mrf_matrix.estimators.shared.given_data import EncodedRecords, check_before_release
from mrf_matrix.kinds.labels import Trees
from mrf_matrix.labels import LabelPlan
from mrf_matrix.planning.blocks.block_part import check_block
from mrf_matrix.planning.plans.cost import check_cost
from mrf_matrix.planning.private import PrivatePlan
from mrf_matrix.planning.private.private_plan import forest_plan, single_attributes, tables_of
from mrf_matrix.planning.private.rules import OF_RESIDUALS, POOLS
from mrf_matrix.residual.questions import check_scores
from strategies.operators import check_allocation


def check_what_may_follow(
    announced: PrivatePlan, most: PrivatePlan, data: Any, random_state: Any
) -> None:
    """Refuse forests that could not be fitted, before anything is spent.

    `announced`: before any choice; `most`: what follows where classes are even, whose signal is
    weighed; `data`: **Private**; `random_state`: of the structure of what follows.
    """
    tell("Checking memory")
    domain = most.domain
    widest = int(np.argmax(domain.sizes))
    check_block(domain, (widest,), domain.n_classes)  # the least that may be kept
    screening = most.screening
    if screening is not None and screening.enough is not None:
        shape = (screening.most_cells, domain.n_classes)
        check_allocation("the joint table of attributes that are chosen first", shape)
    if announced.balance is not None:  # tables follow, whatever they are for even classes
        alone = single_attributes(most, range(domain.n_attributes))
        check_cost(tables_of(announced, announced.after_balance, alone))
    of_records = [plan for plan in (most, announced) if plan.measured in OF_RESIDUALS]
    if of_records:  # steps take as much memory, whatever their budget
        if isinstance(data, EncodedRecords):
            check_scores(len(data.labels), domain.n_classes)
        check_cost(forest_plan(of_records[0], None, random_state))
    if most.measured == "tables":
        check_before_release(tables_of(most, most.rest, None))
    if most.measured in POOLS:
        pool = forest_plan(most, None, random_state)
        check_before_release(pool)
        check_first_draw(pool.tree, data)


def check_first_draw(plan: LabelPlan, data: Any) -> None:
    """Refuse a tree whose first draw would not fit in memory: it comes after what is paid for."""
    Trees(plan, plan.rounds[0]).scores(data)
