"""The public schema of an estimator: which domain, which classes, which codes.

The domain is public and must be given. ``domain="from_data"`` reads it off the records, which is
not private: it exists for public data and for scikit-learn's own checks, and warns.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from mrf_matrix.domain import Domain

Codes = NDArray[np.int32]


def resolve_domain(estimator: Any, domain: Any, X: Any, y: Any) -> tuple[Domain, Any, Any]:
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
        X, y = validate_data(estimator, X, y, dtype=None)
        check_classification_targets(y)
        return Domain.from_data(X, y), X, y
    known = required_domain(domain)
    _check_columns(estimator, X, reset=True)
    return known, X, y


def required_domain(domain: Any) -> Domain:
    """Return a public domain with classes, or refuse.

    Raises
    ------
    ValueError
        If there is none, or it names no target classes.
    TypeError
        If it is something else.
    """
    if domain is None:
        raise ValueError(
            "domain=None: a private forest needs a public domain (attributes, their codes, the "
            "classes). Pass domain=Domain([...], target=Attribute(...)), or domain='from_data' "
            "for non-private work on public records."
        )
    if not isinstance(domain, Domain):
        raise TypeError(f"domain={domain!r}: expected a Domain or 'from_data'.")
    if domain.target is None:
        raise ValueError(
            "domain has no target: the classes are public and must be named. Pass "
            "Domain(attributes, target=Attribute('class', categories=[...]))."
        )
    return domain


def encode(domain: Domain, X: Any, y: Any) -> tuple[Codes, Codes]:
    """Return codes and labels of the records; refuse no records and unequal lengths."""
    codes = domain.encode(X)
    labels = domain.encode_target(y)
    if len(codes) == 0:
        raise ValueError("X has 0 records: expected at least one record to train on.")
    if len(codes) != len(labels):
        raise ValueError(f"X has {len(codes)} records and y has {len(labels)} labels.")
    return codes, labels


def encode_queries(estimator: Any, domain: Domain, X: Any) -> Codes:
    """Return the codes of records to predict, checked against what was fitted."""
    if getattr(estimator, "domain", None) == "from_data":
        X = validate_data(estimator, X, dtype=None, reset=False)
        return domain.encode(X)
    codes = domain.encode(X)  # first: it says best what is wrong with records
    _check_columns(estimator, X, reset=False)
    return codes


def _check_columns(estimator: Any, X: Any, *, reset: bool) -> None:
    """Let scikit-learn keep or compare names and number of columns; it takes no mappings.

    Where no names were kept, the domain alone says which columns are which.
    """
    if not reset and not hasattr(estimator, "feature_names_in_"):
        return
    if not isinstance(X, Mapping):
        validate_data(estimator, X, skip_check_array=True, reset=reset)
    elif reset:
        estimator.n_features_in_ = len(X)
        estimator.feature_names_in_ = np.asarray(list(X), dtype=object)
