"""Pictures in scikit-learn's manner: a Display object holds what it draws."""

from mrf_matrix.plotting.accuracy import AccuracyDisplay
from mrf_matrix.plotting.cell_sensitivity import CellSensitivityDisplay
from mrf_matrix.plotting.error_by_leaf import LeafErrorDisplay
from mrf_matrix.plotting.error_curve import ErrorCurveDisplay
from mrf_matrix.plotting.matrices import MatrixDisplay
from mrf_matrix.plotting.pareto import ParetoDisplay
from mrf_matrix.plotting.reliability import ReliabilityDisplay
from mrf_matrix.plotting.strategy_bounds import StrategyBoundDisplay
from mrf_matrix.plotting.strategy_error import StrategyErrorDisplay

__all__ = [
    "AccuracyDisplay",
    "CellSensitivityDisplay",
    "ErrorCurveDisplay",
    "LeafErrorDisplay",
    "MatrixDisplay",
    "ParetoDisplay",
    "ReliabilityDisplay",
    "StrategyBoundDisplay",
    "StrategyErrorDisplay",
]
