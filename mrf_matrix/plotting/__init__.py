"""Pictures in scikit-learn's manner: a Display object holds what it draws."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.plotting.matrices import MatrixDisplay as MatrixDisplay
    from mrf_matrix.plotting.matrices import TreeDisplay as TreeDisplay
    from mrf_matrix.plotting.models import AccuracyDisplay as AccuracyDisplay
    from mrf_matrix.plotting.models import EffectDisplay as EffectDisplay
    from mrf_matrix.plotting.models import ReliabilityDisplay as ReliabilityDisplay
    from mrf_matrix.plotting.models import StrengthDisplay as StrengthDisplay
    from mrf_matrix.plotting.plans import BudgetDisplay as BudgetDisplay
    from mrf_matrix.plotting.plans import CellSensitivityDisplay as CellSensitivityDisplay
    from mrf_matrix.plotting.plans import ErrorCurveDisplay as ErrorCurveDisplay
    from mrf_matrix.plotting.plans import LeafErrorDisplay as LeafErrorDisplay
    from mrf_matrix.plotting.strategies import NoiseDisplay as NoiseDisplay
    from mrf_matrix.plotting.strategies import ParetoDisplay as ParetoDisplay
    from mrf_matrix.plotting.strategies import RowErrorDisplay as RowErrorDisplay
    from mrf_matrix.plotting.strategies import StrategyBoundDisplay as StrategyBoundDisplay
    from mrf_matrix.plotting.strategies import StrategyErrorDisplay as StrategyErrorDisplay

__getattr__, __dir__, __all__ = front_door(__name__)
