"""Records checked by scikit-learn, and refused in words that show no value."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from mrf_matrix.base.arrays import Values, plain_array
from mrf_matrix.estimators.shared.parameters import Records

T = TypeVar("T")


SAID = {
    "NaN": "Input contains NaN: expected no missing values in X or y.",
    "infinity": "Input contains infinity (inf) or a number that is too large.",
    "inconsistent numbers of samples": "X and y differ in length: expected a class a record.",
    "Reshape your data": (
        "Expected 2D array (records, features). Reshape your data: one record with "
        "X.reshape(1, -1), one feature with X.reshape(-1, 1)."
    ),
    "0 sample(s)": "X is empty: 0 sample(s), while a minimum of 1 is required.",
    # scikit-learn's own test of estimators asks for the shape, with or without a number of records
    "0 feature(s)": "X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required.",
    "Complex data": "Complex data not supported: expected real numbers or text.",
    "a 1d array": "y should be a 1d array: one class for each record.",
    "Unknown label type": (
        "Unknown label type: expected classes, neither continuous numbers nor several columns."
    ),
}
"""What is said where scikit-learn's text, which quotes arrays and shapes, holds these words."""


QUOTED = (
    "features as input",
    "feature names should match",
    "argument must be a string",
    "requires y to be passed",
    "Sparse data",
    "sparse",
)
"""What marks a text that tells of features and types only."""


def validated_training(
    estimator: BaseEstimator, X: Records, y: ArrayLike | None, *, dtype: DTypeLike | None = None
) -> tuple[Values, Values]:
    """Return what scikit-learn's ``validate_data`` returns of records and their classes.

    The estimator keeps number and names of the features.

    Raises ValueError, TypeError where scikit-learn refuses, with a text that shows no value and no
    number of records.
    """
    for name, given in (("X", X), ("y", y)):
        if isinstance(given, np.ndarray):
            plain_array(name, given)  # scikit-learn takes what is under a mask

    def checked() -> tuple[Values, Values]:
        records, classes = validate_data(estimator, X, y, dtype=dtype)
        check_classification_targets(classes)
        return records, classes

    return _in_our_words(checked)


def validated_queries(
    estimator: BaseEstimator, X: Records, *, dtype: DTypeLike | None = None
) -> Values:
    """Return what ``validate_data`` returns of records to predict; see `validated_training`."""
    if isinstance(X, np.ndarray):
        plain_array("X", X)
    return _in_our_words(lambda: validate_data(estimator, X, dtype=dtype, reset=False))


def _in_our_words(checked: Callable[[], T]) -> T:
    try:
        return checked()
    except (ValueError, TypeError) as error:
        kind, said = (TypeError if isinstance(error, TypeError) else ValueError), reworded(error)
    raise kind(said)  # outside of the clause: the error that quotes records is not its context


def reworded(error: Exception) -> str:
    """Return scikit-learn's text where it tells of features only, our words otherwise."""
    text = str(error)
    if any(mark in text for mark in QUOTED):
        return text
    found = (words for mark, words in SAID.items() if mark in text)
    return next(
        found,
        f"scikit-learn cannot take X or y: expected a table of records, not this "
        f"({type(error).__name__}).",
    )
