"""Classifiers that measure the answers of a batch."""

from mrf_matrix.estimators.prediction.batch_prediction import BatchPredictionClassifier
from mrf_matrix.estimators.prediction.subsample_aggregate import SubsampleAggregateClassifier

__all__ = [
    "BatchPredictionClassifier",
    "SubsampleAggregateClassifier",
]
