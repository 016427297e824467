"""Accuracy expected under a public prior."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.planning.accuracy.cluster_prior import ClusterPrior as ClusterPrior
    from mrf_matrix.planning.accuracy.target_prior import TargetPrior as TargetPrior

__getattr__, __dir__, __all__ = front_door(
    __name__,
    {
        "cluster_prior": ("ClusterPrior",),
        "target_prior": ("TargetPrior",),
    },
)
