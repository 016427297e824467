"""scikit-learn classifiers over private forests, and the study that compares them."""

from mrf_matrix.estimators.batch_prediction import BatchPredictionClassifier
from mrf_matrix.estimators.calibration import (
    Reliability,
    expected_calibration_error,
    reliability,
)
from mrf_matrix.estimators.choose_forest import choose_forest
from mrf_matrix.estimators.comparison import Comparison, Score, Summary
from mrf_matrix.estimators.comparison_forest import ComparisonForestClassifier
from mrf_matrix.estimators.design import from_design
from mrf_matrix.estimators.forest_choice import ForestChoice
from mrf_matrix.estimators.from_release import from_release
from mrf_matrix.estimators.matrix_forest import MatrixForestClassifier
from mrf_matrix.estimators.model_files import (
    ModelFileError,
    ReleasedForestClassifier,
    ReleasedPosteriorForestClassifier,
    ReleasedResidualForestClassifier,
    load_model,
    save_model,
)
from mrf_matrix.estimators.multinomial_forest import MultinomialForestClassifier
from mrf_matrix.estimators.multinomial_matrix_forest import MultinomialMatrixForestClassifier
from mrf_matrix.estimators.naive_bayes import PrivateNaiveBayesClassifier
from mrf_matrix.estimators.posterior_forest import PosteriorForestClassifier
from mrf_matrix.estimators.privacy_report import PrivacyReport
from mrf_matrix.estimators.pure_forest import (
    PureForestClassifier,
    SimplifiedBreimanForestClassifier,
)
from mrf_matrix.estimators.release_files import load_release, save_release
from mrf_matrix.estimators.residual_forest import ResidualForestClassifier
from mrf_matrix.estimators.rival_forests import (
    BernoulliForestClassifier,
    BreimanForestClassifier,
    DenilForestClassifier,
)
from mrf_matrix.estimators.smooth_sensitivity_forest import SmoothSensitivityForestClassifier
from mrf_matrix.estimators.study import compare
from mrf_matrix.estimators.subsample_aggregate import SubsampleAggregateClassifier

__all__ = [
    "BatchPredictionClassifier",
    "BernoulliForestClassifier",
    "BreimanForestClassifier",
    "Comparison",
    "ComparisonForestClassifier",
    "DenilForestClassifier",
    "ForestChoice",
    "MatrixForestClassifier",
    "ModelFileError",
    "MultinomialForestClassifier",
    "MultinomialMatrixForestClassifier",
    "PosteriorForestClassifier",
    "PrivacyReport",
    "PrivateNaiveBayesClassifier",
    "PureForestClassifier",
    "ReleasedForestClassifier",
    "ReleasedPosteriorForestClassifier",
    "ReleasedResidualForestClassifier",
    "Reliability",
    "ResidualForestClassifier",
    "Score",
    "SimplifiedBreimanForestClassifier",
    "SmoothSensitivityForestClassifier",
    "SubsampleAggregateClassifier",
    "Summary",
    "choose_forest",
    "compare",
    "expected_calibration_error",
    "from_design",
    "from_release",
    "load_model",
    "load_release",
    "reliability",
    "save_model",
    "save_release",
]
