"""Pictures in scikit-learn's manner: a Display object holds what it draws."""

from mrf_matrix.plotting.accuracy import AccuracyDisplay
from mrf_matrix.plotting.strategy_error import StrategyErrorDisplay

__all__ = ["AccuracyDisplay", "StrategyErrorDisplay"]
