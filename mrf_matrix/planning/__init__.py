"""Planning without data: expected errors, plans and tuning at no privacy cost."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.planning.auto.choices import Screening as Screening
    from mrf_matrix.planning.auto.plan import AutoPlan as AutoPlan
    from mrf_matrix.planning.auto.plan import auto_plan as auto_plan
    from mrf_matrix.planning.auto.rules import RULES as RULES
    from mrf_matrix.planning.auto.rules import Rule as Rule
    from mrf_matrix.planning.plans.cost import peak_bytes as peak_bytes
    from mrf_matrix.planning.plans.federated_plan import FederatedPlan as FederatedPlan
    from mrf_matrix.planning.plans.part import PlanPart as PlanPart
    from mrf_matrix.planning.plans.plan import Plan as Plan
    from mrf_matrix.planning.plans.request import plan as plan
    from mrf_matrix.planning.plans.signal_to_noise import weigh_signals as weigh_signals
    from mrf_matrix.planning.search.design_search import tune as tune
    from mrf_matrix.planning.search.objectives import ExpectedLoss as ExpectedLoss
    from mrf_matrix.planning.search.objectives import FlipProbability as FlipProbability
    from mrf_matrix.planning.search.objectives import LipschitzBound as LipschitzBound
    from mrf_matrix.planning.search.objectives import RelativeError as RelativeError
    from mrf_matrix.planning.search.objectives import TargetPrior as TargetPrior
    from mrf_matrix.planning.search.tuning import Trial as Trial
    from mrf_matrix.planning.search.tuning import Tuning as Tuning
    from mrf_matrix.planning.search.tuning import default_space as default_space

__getattr__, __dir__, __all__ = front_door(__name__)
