"""Classifiers over releases and files made before."""

from mrf_matrix.estimators.released.from_release import from_release
from mrf_matrix.estimators.released.released_forest import ReleasedForestClassifier
from mrf_matrix.estimators.released.released_posterior import ReleasedPosteriorForestClassifier
from mrf_matrix.estimators.released.released_private import ReleasedPrivateForestClassifier
from mrf_matrix.estimators.released.released_residual import ReleasedResidualForestClassifier

__all__ = [
    "ReleasedForestClassifier",
    "ReleasedPosteriorForestClassifier",
    "ReleasedPrivateForestClassifier",
    "ReleasedResidualForestClassifier",
    "from_release",
]
