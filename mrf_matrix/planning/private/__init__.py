"""Which kind of forest suits a claim: one table of rules, by public numbers alone."""

from mrf_matrix.planning.private.choices import Screening
from mrf_matrix.planning.private.private_plan import PrivatePlan, planned_for, private_plan
from mrf_matrix.planning.private.rules import RULES, Rule, records_after

__all__ = [
    "RULES",
    "PrivatePlan",
    "Rule",
    "Screening",
    "planned_for",
    "private_plan",
    "records_after",
]
