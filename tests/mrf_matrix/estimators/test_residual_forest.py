"""The residual forest: conventions, what is claimed and paid, and what it is worth."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mrf_matrix import (
    ResidualForestClassifier,
)

INFINITE = float("inf")


@parametrize_with_checks(
    [ResidualForestClassifier("from_data", epsilon=INFINITE, random_state=0)],
)
@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
