"""Planning without data: expected errors, plans and tuning at no privacy cost."""

from mrf_matrix.planning.expected_error import ExpectedError, direct_error, expected_error
from mrf_matrix.planning.design_plan import Plan
from mrf_matrix.planning.planned_answers import PlannedAnswers
from mrf_matrix.planning.planner import plan

__all__ = [
    "ExpectedError",
    "Plan",
    "PlannedAnswers",
    "direct_error",
    "expected_error",
    "plan",
]
