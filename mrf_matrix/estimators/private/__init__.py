"""The classifier to reach for: it plans every kind of forest without data, and takes the best."""

from mrf_matrix.estimators.private.private_forest import PrivateForestClassifier

__all__ = ["PrivateForestClassifier"]
