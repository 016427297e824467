"""Where a design becomes a strategy and a mechanism."""

from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.planner import plan

__all__ = [
    "Plan",
    "PlanPart",
    "plan",
]
