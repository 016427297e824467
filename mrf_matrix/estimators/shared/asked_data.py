"""What a plan's questions are asked of: records, or tables that were counted for it."""

from functools import singledispatch
from typing import Any

from mrf_matrix.estimators.shared.given_counts import CountedTables
from mrf_matrix.estimators.shared.given_data import EncodedRecords, PrivateData, only_leaves
from mrf_matrix.estimators.shared.held_records import Serving, held
from mrf_matrix.labels import LabelPlan
from mrf_matrix.mechanisms.counts.counts import needs_records
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.private.pooled_plan import PooledPlan
from mrf_matrix.residual import ResidualPlan

Asked = EncodedRecords | CountedTables


@singledispatch
def asked_data(plan: Any, given: PrivateData) -> Any:
    """Return what the questions of a plan are asked of: **private**; nothing is spent by it.

    Raises TypeError, ValueError if the data cannot serve it.
    """
    raise TypeError(
        f"plan is of type {type(plan).__name__}: expected a plan of ours, or one that "
        f"mrf_matrix.estimators.shared.asked_data.asked_data is registered for."
    )


@asked_data.register
def _(plan: LabelPlan, given: PrivateData) -> Any:
    return given.tables([plan.attributes])


@asked_data.register
def _(plan: ResidualPlan, given: PrivateData) -> Any:
    given.check_records("a residual forest")
    found = given.tables([])
    if not isinstance(found, EncodedRecords):
        raise needs_records("a residual forest")
    return found


@asked_data.register
def _(plan: Plan, given: PrivateData) -> Any:
    found = given.tables([part.ensemble.features for part in plan.parts], only_leaves(plan))
    for part in plan.parts:
        found.check(part.mechanism.rounded.matrix)
    return found


@asked_data.register
def _(plan: PooledPlan, given: PrivateData) -> Any:
    records = isinstance(plan.tables, ResidualPlan)
    if records and not Serving.by(given, plan.n_records).records:
        raise needs_records("a tree beside residuals, without a public n_records that fits,")
    found = held(given, records=records).source
    if not records:  # what may fail of the tables fails before the tree is paid for
        found.cells(tuple(range(plan.domain.n_attributes)))
    return found
