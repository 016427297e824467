"""Where a design becomes a strategy and a mechanism."""

from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.planned_answers import PlannedAnswers
from mrf_matrix.planning.plans.planner import plan

__all__ = [
    "Plan",
    "PlannedAnswers",
    "plan",
]
