"""Planning without data: expected errors, plans and tuning at no privacy cost."""

from mrf_matrix.planning.cluster_prior import ClusterPrior
from mrf_matrix.planning.design_plan import Plan
from mrf_matrix.planning.design_search import tune
from mrf_matrix.planning.expected_error import ExpectedError, direct_error, expected_error
from mrf_matrix.planning.objectives import (
    ExpectedLoss,
    FlipProbability,
    LipschitzBound,
    RelativeError,
)
from mrf_matrix.planning.planned_answers import PlannedAnswers
from mrf_matrix.planning.planner import plan
from mrf_matrix.planning.public_domain import public_domain, public_records
from mrf_matrix.planning.residual_law import residual_budget
from mrf_matrix.planning.residual_sequence import PairSteps, ResidualPlan, residual_plan
from mrf_matrix.planning.residual_settings import (
    ResidualSettings,
    residual_signal,
    suits_residual_forest,
)
from mrf_matrix.planning.residual_step import ResidualStep
from mrf_matrix.planning.search_space import default_space
from mrf_matrix.planning.target_prior import TargetPrior
from mrf_matrix.planning.trials import Trial
from mrf_matrix.planning.tuning import Tuning

__all__ = [
    "ClusterPrior",
    "ExpectedError",
    "ExpectedLoss",
    "FlipProbability",
    "LipschitzBound",
    "PairSteps",
    "Plan",
    "PlannedAnswers",
    "RelativeError",
    "ResidualPlan",
    "ResidualSettings",
    "ResidualStep",
    "TargetPrior",
    "Trial",
    "Tuning",
    "default_space",
    "direct_error",
    "expected_error",
    "plan",
    "public_domain",
    "public_records",
    "residual_budget",
    "residual_plan",
    "residual_signal",
    "suits_residual_forest",
    "tune",
]
