"""scikit-learn classifiers over private forests, and the study that compares them."""

from mrf_matrix.estimators.comparison import Comparison, Score, Summary
from mrf_matrix.estimators.matrix_forest import MatrixForestClassifier
from mrf_matrix.estimators.privacy_report import PrivacyReport
from mrf_matrix.estimators.study import compare

__all__ = ["Comparison", "MatrixForestClassifier", "PrivacyReport", "Score", "Summary", "compare"]
