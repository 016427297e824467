"""Residual forests: sequences of tables planned without data, and the steps as they are taken."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.residual.sequence import ResidualPlan as ResidualPlan
    from mrf_matrix.residual.sequence import residual_budget as residual_budget
    from mrf_matrix.residual.sequence import residual_plan as residual_plan
    from mrf_matrix.residual.step import PairSteps as PairSteps
    from mrf_matrix.residual.step import ResidualSettings as ResidualSettings
    from mrf_matrix.residual.step import ResidualStep as ResidualStep
    from mrf_matrix.residual.step import residual_signal as residual_signal
    from mrf_matrix.residual.step import suits_residual_forest as suits_residual_forest

__getattr__, __dir__, __all__ = front_door(__name__)
