"""The kind of forest for a claim, by one table of rules over public numbers."""

from mrf_matrix.planning.auto.choices import Screening
from mrf_matrix.planning.auto.plan import AutoPlan, auto_plan, plan_after_imbalance
from mrf_matrix.planning.auto.rules import RULES, Rule, records_after

__all__ = [
    "RULES",
    "AutoPlan",
    "Rule",
    "Screening",
    "auto_plan",
    "plan_after_imbalance",
    "records_after",
]
