"""Which kind of forest suits a claim: one table of rules, by public numbers alone."""

from mrf_matrix.planning.private.private_plan import (
    PrivatePlan,
    planned_for,
    private_plan,
    records_after,
)
from mrf_matrix.planning.private.rules import RULES, Rule
from mrf_matrix.planning.private.screening import Screening

__all__ = [
    "RULES",
    "PrivatePlan",
    "Rule",
    "Screening",
    "planned_for",
    "private_plan",
    "records_after",
]
