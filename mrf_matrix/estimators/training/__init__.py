"""Classifiers that measure the training table."""

from mrf_matrix.estimators.training.matrix_forest import MatrixForestClassifier
from mrf_matrix.estimators.training.naive_bayes import PrivateNaiveBayesClassifier
from mrf_matrix.estimators.training.posterior_forest import PosteriorForestClassifier

__all__ = [
    "MatrixForestClassifier",
    "PosteriorForestClassifier",
    "PrivateNaiveBayesClassifier",
]
