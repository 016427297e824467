"""Planning without data: expected errors, plans and tuning at no privacy cost."""

from mrf_matrix.planning.accuracy.cluster_prior import ClusterPrior
from mrf_matrix.planning.accuracy.target_prior import TargetPrior
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.planner import plan
from mrf_matrix.planning.public_domain import public_domain, public_records
from mrf_matrix.planning.residuals.law import residual_budget
from mrf_matrix.planning.residuals.sequence import PairSteps, ResidualPlan, residual_plan
from mrf_matrix.planning.residuals.settings import (
    ResidualSettings,
    residual_signal,
    suits_residual_forest,
)
from mrf_matrix.planning.residuals.step import ResidualStep
from mrf_matrix.planning.search.design_search import tune
from mrf_matrix.planning.search.objectives import (
    ExpectedLoss,
    FlipProbability,
    LipschitzBound,
    RelativeError,
)
from mrf_matrix.planning.search.search_space import default_space
from mrf_matrix.planning.search.trials import Trial
from mrf_matrix.planning.search.tuning import Tuning

__all__ = [
    "ClusterPrior",
    "ExpectedLoss",
    "FlipProbability",
    "LipschitzBound",
    "PairSteps",
    "Plan",
    "PlanPart",
    "RelativeError",
    "ResidualPlan",
    "ResidualSettings",
    "ResidualStep",
    "TargetPrior",
    "Trial",
    "Tuning",
    "default_space",
    "plan",
    "public_domain",
    "public_records",
    "residual_budget",
    "residual_plan",
    "residual_signal",
    "suits_residual_forest",
    "tune",
]
