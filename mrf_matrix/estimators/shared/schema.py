"""The public schema of an estimator: which domain, which classes, which codes.

The domain is public and must be given. ``domain="from_data"`` reads it off the records, which is
not private: it exists for public data and for scikit-learn's own checks, and warns.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from mrf_matrix.base.arrays import Codes, Values
from mrf_matrix.domain import Domain, DomainOrPath, is_read_off, required_domain
from mrf_matrix.domain.columns import checked_table, names_of
from mrf_matrix.estimators.shared.parameters import Records
from mrf_matrix.mechanisms import Release

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


def resolve_domain(
    estimator: BaseEstimator, domain: DomainOrPath, X: Records, y: ArrayLike | None
) -> tuple[Domain, Records, ArrayLike]:
    """Return the domain, and X and y ready to be encoded by it.

    Raises
    ------
    ValueError
        If no domain is given, or the domain names no target classes.
    TypeError
        If the domain is something else.
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    if isinstance(domain, str) and domain == "from_data":
        records, classes = validated_training(estimator, X, y)
        return Domain.from_data(records, classes), records, classes
    known = required_domain(domain)
    _keep_columns(estimator, known, X)
    return known, X, y


def with_provenance(release: Release, domain: DomainOrPath) -> Release:
    """Return a release that says whether its domain was read off the records.

    Parameters
    ----------
    release : Release
    domain : Domain or "from_data"
        As `fit` read it.
    """
    return replace(release, domain_read_off=is_read_off(domain))


def encode(domain: Domain, X: Records, y: ArrayLike) -> tuple[Codes, Codes]:
    """Return codes and labels of the records; refuse no records and unequal lengths."""
    codes = domain.encode(X)
    labels = domain.encode_target(y)
    if len(codes) == 0:
        raise ValueError("X has no records: expected at least one to train on.")
    if len(codes) != len(labels):
        raise ValueError("X and y differ in length: expected one class for each record.")
    return codes, labels


def _keep_columns(estimator: BaseEstimator, domain: Domain, X: Records) -> None:
    """Refuse records without the domain's columns; keep what scikit-learn's estimators keep.

    Columns with names are matched by them, in `fit` and in `predict`, so that their order is no
    matter.
    """
    names = names_of(checked_table(X, domain.names))
    estimator.n_features_in_ = domain.n_attributes
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def validated_training(
    estimator: BaseEstimator, X: Records, y: ArrayLike, *, dtype: DTypeLike | None = None
) -> tuple[Values, Values]:
    """Return what scikit-learn's ``validate_data`` returns of records and their classes.

    The estimator keeps number and names of the features.

    Raises
    ------
    ValueError, TypeError
        Where scikit-learn refuses, with a text that shows no value and no number of records.
    """

    def checked() -> tuple[Values, Values]:
        records, classes = validate_data(estimator, X, y, dtype=dtype)
        check_classification_targets(classes)
        return records, classes

    return _in_our_words(checked)


def validated_queries(
    estimator: BaseEstimator, X: Records, *, dtype: DTypeLike | None = None
) -> Values:
    """Return what ``validate_data`` returns of records to predict; see `validated_training`."""
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
