"""Planning without data: expected errors, plans and tuning at no privacy cost."""

from mrf_matrix.planning.accuracy.cluster_prior import ClusterPrior
from mrf_matrix.planning.accuracy.target_prior import TargetPrior
from mrf_matrix.planning.plans.part import PlanPart
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.planner import plan
from mrf_matrix.planning.public_domain import public_domain, public_records
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
    "Plan",
    "PlanPart",
    "RelativeError",
    "TargetPrior",
    "Trial",
    "Tuning",
    "default_space",
    "plan",
    "public_domain",
    "public_records",
    "tune",
]
