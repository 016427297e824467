"""A forest of tables, each of what earlier ones leave unexplained."""

from mrf_matrix.estimators.residual.residual_forest import ResidualForestClassifier

__all__ = ["ResidualForestClassifier"]
