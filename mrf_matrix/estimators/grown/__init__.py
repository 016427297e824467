"""Classifiers over forests grown from records, by noise or without."""

from mrf_matrix.estimators.grown.comparison_forest import ComparisonForestClassifier
from mrf_matrix.estimators.grown.multinomial_forest import MultinomialForestClassifier
from mrf_matrix.estimators.grown.multinomial_matrix_forest import MultinomialMatrixForestClassifier
from mrf_matrix.estimators.grown.pure_forest import (
    PureForestClassifier,
    SimplifiedBreimanForestClassifier,
)
from mrf_matrix.estimators.grown.rival_forests import (
    BernoulliForestClassifier,
    BreimanForestClassifier,
    DenilForestClassifier,
)
from mrf_matrix.estimators.grown.smooth_sensitivity_forest import SmoothSensitivityForestClassifier

__all__ = [
    "BernoulliForestClassifier",
    "BreimanForestClassifier",
    "ComparisonForestClassifier",
    "DenilForestClassifier",
    "MultinomialForestClassifier",
    "MultinomialMatrixForestClassifier",
    "PureForestClassifier",
    "SimplifiedBreimanForestClassifier",
    "SmoothSensitivityForestClassifier",
]
