"""Sequences of residual tables, planned without data."""

from mrf_matrix.planning.residuals.law import residual_budget
from mrf_matrix.planning.residuals.sequence import PairSteps, ResidualPlan, residual_plan
from mrf_matrix.planning.residuals.settings import (
    ResidualSettings,
    residual_signal,
    suits_residual_forest,
)
from mrf_matrix.planning.residuals.step import ResidualStep

__all__ = [
    "PairSteps",
    "ResidualPlan",
    "ResidualSettings",
    "ResidualStep",
    "residual_budget",
    "residual_plan",
    "residual_signal",
    "suits_residual_forest",
]
