"""Comparisons of methods."""

from mrf_matrix.study.calibration import Reliability, expected_calibration_error, reliability
from mrf_matrix.study.comparison import Comparison, Score, Summary
from mrf_matrix.study.study import compare

__all__ = [
    "Comparison",
    "Reliability",
    "Score",
    "Summary",
    "compare",
    "expected_calibration_error",
    "reliability",
]
