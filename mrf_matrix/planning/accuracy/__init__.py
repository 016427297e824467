"""Accuracy expected under a public prior."""

from mrf_matrix.planning.accuracy.cluster_prior import ClusterPrior
from mrf_matrix.planning.accuracy.target_prior import TargetPrior

__all__ = [
    "ClusterPrior",
    "TargetPrior",
]
