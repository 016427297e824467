"""scikit-learn classifiers over private forests, and the study that compares them."""

from mrf_matrix.estimators.design import from_design
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
from mrf_matrix.estimators.prediction.batch_prediction import BatchPredictionClassifier
from mrf_matrix.estimators.prediction.subsample_aggregate import SubsampleAggregateClassifier
from mrf_matrix.estimators.released import (
    ReleasedForestClassifier,
    ReleasedPosteriorForestClassifier,
)
from mrf_matrix.estimators.released.from_release import from_release
from mrf_matrix.estimators.training.matrix_forest import MatrixForestClassifier
from mrf_matrix.estimators.training.naive_bayes import PrivateNaiveBayesClassifier
from mrf_matrix.estimators.training.posterior_forest import PosteriorForestClassifier

__all__ = [
    "BatchPredictionClassifier",
    "BernoulliForestClassifier",
    "BreimanForestClassifier",
    "ComparisonForestClassifier",
    "DenilForestClassifier",
    "MatrixForestClassifier",
    "MultinomialForestClassifier",
    "MultinomialMatrixForestClassifier",
    "PosteriorForestClassifier",
    "PrivateNaiveBayesClassifier",
    "PureForestClassifier",
    "ReleasedForestClassifier",
    "ReleasedPosteriorForestClassifier",
    "SimplifiedBreimanForestClassifier",
    "SmoothSensitivityForestClassifier",
    "SubsampleAggregateClassifier",
    "from_design",
    "from_release",
]
