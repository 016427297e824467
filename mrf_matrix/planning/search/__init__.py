"""Tuning without data."""

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
    "ExpectedLoss",
    "FlipProbability",
    "LipschitzBound",
    "RelativeError",
    "Trial",
    "Tuning",
    "default_space",
    "tune",
]
