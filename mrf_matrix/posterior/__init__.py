"""Posteriors of forests whose trees are whole tables: from one release, or table by table."""

from mrf_matrix.posterior.block_table import BlockTable
from mrf_matrix.posterior.class_totals import ClassTotals, class_totals
from mrf_matrix.posterior.product_posterior import ProductPosterior, product_posterior
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
    "BlockTable",
    "ClassTotals",
    "Pooling",
    "ProductPosterior",
    "ResidualPosterior",
    "ResidualState",
    "Smoothness",
    "class_totals",
    "curvature_units",
    "estimated_total",
    "intercept",
    "margin",
    "product_posterior",
    "residual_units",
    "shrunk_counts",
]
