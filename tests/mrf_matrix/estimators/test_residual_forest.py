"""The residual forest: conventions, what is claimed and paid, and what it is worth."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from mrf_matrix import (
    Domain,
    PosteriorForestClassifier,
    PrivacyLedger,
    ResidualForestClassifier,
    save_model,
)
from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP

INFINITE = float("inf")


@parametrize_with_checks(
    [ResidualForestClassifier("from_data", epsilon=INFINITE, random_state=0)],
)
@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
