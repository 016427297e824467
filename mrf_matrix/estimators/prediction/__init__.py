"""Classifiers that measure the answers of a batch."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.estimators.prediction.batch_prediction import (
        BatchPredictionClassifier as BatchPredictionClassifier,
    )
    from mrf_matrix.estimators.prediction.subsample_aggregate import (
        SubsampleAggregateClassifier as SubsampleAggregateClassifier,
    )

__getattr__, __dir__, __all__ = front_door(
    __name__,
    {
        "batch_prediction": ("BatchPredictionClassifier",),
        "subsample_aggregate": ("SubsampleAggregateClassifier",),
    },
)
