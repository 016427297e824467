"""The private tables of a plan, taken from data once all that the plan needs is known to fit."""

from mrf_matrix.base.steps import tell
from mrf_matrix.estimators.shared.given_data import PrivateData
from mrf_matrix.forests import Forest
from mrf_matrix.planning.kinds.table_source import TableSource
from mrf_matrix.planning.plans.plan import Plan


def tables_for(plan: Plan, data: PrivateData) -> TableSource:
    """Return what the tables that a plan measures are taken from; nothing is spent by it.

    Raises
    ------
    MemoryCapError
        If the release or its answers would not fit in memory, by public numbers alone.
    ValueError
        If the data are counts that have no answers to what is measured.
    """
    plan.check_memory()
    tell("Counting the records")
    tables = data.tables([part.ensemble.features for part in plan.parts], _only_leaves(plan))
    for part in plan.parts:
        tables.check(part.mechanism.rounded.matrix)
    return tables


def _only_leaves(plan: Plan) -> Forest | None:
    """Return the forest over the whole domain whose leaves are all that is measured, if any."""
    first = plan.parts[0]
    whole = first.ensemble.features == tuple(range(plan.domain.n_attributes))
    by_themselves = not plan.kind.chooses_strategies and not plan.kind.is_disjoint
    return first.forest if len(plan.parts) == 1 and whole and by_themselves else None
