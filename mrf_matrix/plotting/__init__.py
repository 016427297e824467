"""Pictures in scikit-learn's manner: a Display object holds what it draws."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.plotting.accuracy import AccuracyDisplay as AccuracyDisplay
    from mrf_matrix.plotting.budget import BudgetDisplay as BudgetDisplay
    from mrf_matrix.plotting.cell_sensitivity import (
        CellSensitivityDisplay as CellSensitivityDisplay,
    )
    from mrf_matrix.plotting.effect import EffectDisplay as EffectDisplay
    from mrf_matrix.plotting.error_by_leaf import LeafErrorDisplay as LeafErrorDisplay
    from mrf_matrix.plotting.error_curve import ErrorCurveDisplay as ErrorCurveDisplay
    from mrf_matrix.plotting.matrices import MatrixDisplay as MatrixDisplay
    from mrf_matrix.plotting.pareto import ParetoDisplay as ParetoDisplay
    from mrf_matrix.plotting.reliability import ReliabilityDisplay as ReliabilityDisplay
    from mrf_matrix.plotting.row_errors import RowErrorDisplay as RowErrorDisplay
    from mrf_matrix.plotting.strategy_error import StrategyBoundDisplay as StrategyBoundDisplay
    from mrf_matrix.plotting.strategy_error import StrategyErrorDisplay as StrategyErrorDisplay
    from mrf_matrix.plotting.strength import StrengthDisplay as StrengthDisplay

__getattr__, __dir__, __all__ = front_door(__name__)
