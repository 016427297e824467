"""Effects from residual tables under known noise."""

from mrf_matrix.posterior.residuals.kernels import Smoothness
from mrf_matrix.posterior.residuals.link import (
    CURVATURE_CAP,
    RESIDUAL_CAP,
    UNITS,
    curvature_units,
    residual_units,
)
from mrf_matrix.posterior.residuals.posterior import ResidualPosterior
from mrf_matrix.posterior.residuals.state import Pooling, ResidualState
from mrf_matrix.posterior.residuals.tables import estimated_total, intercept, margin, shrunk_counts

__all__ = [
    "CURVATURE_CAP",
    "RESIDUAL_CAP",
    "UNITS",
    "Pooling",
    "ResidualPosterior",
    "ResidualState",
    "Smoothness",
    "curvature_units",
    "estimated_total",
    "intercept",
    "margin",
    "residual_units",
    "shrunk_counts",
]
