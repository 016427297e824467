"""The public schema of an estimator: which domain, which classes, which codes.

The domain is public and must be given. ``domain="from_data"`` reads it off the records, which is
not private: it exists for public data and for scikit-learn's own checks, and warns.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.shown import shown
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import checked_table, names_of
from mrf_matrix.estimators.shared.fixed_claim import check_claim
from mrf_matrix.estimators.shared.sklearn_checks import validated_data
from mrf_matrix.mechanisms import Release

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
        X, y = validated_data(estimator, X, y, of_classes=True)
        return Domain.from_data(X, y), X, y
    known = required_domain(domain)
    _keep_columns(estimator, known, X)
    return known, X, y


def with_provenance(release: Release, domain: Any) -> Release:
    """Return a release that says whether its domain was read off the records.

    Parameters
    ----------
    release : Release
    domain : Domain or "from_data"
        As `fit` read it.
    """
    return replace(release, domain_read_off=isinstance(domain, str))


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
        what = shown(domain) if isinstance(domain, str) else f"of type {type(domain).__name__}"
        raise TypeError(f"domain={what}: expected a Domain or 'from_data'.")
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
        raise ValueError("X has no records: expected at least one to train on.")
    if len(codes) != len(labels):
        raise ValueError("X and y differ in length: expected one class for each record.")
    return codes, labels


def encode_queries(estimator: Any, domain: Domain, X: Any) -> Codes:
    """Return the codes of records to predict, checked against what was fitted.

    Raises
    ------
    ValueError
        If the records do not fit, or a parameter under the estimator's claim was changed.
    """
    check_claim(estimator)
    if getattr(estimator, "domain", None) == "from_data":
        X = validated_data(estimator, X, reset=False)
    return domain.encode(X)


def _keep_columns(estimator: Any, domain: Domain, X: Any) -> None:
    """Refuse records without the domain's columns; keep what scikit-learn's estimators keep.

    Columns with names are matched by them, in `fit` and in `predict`, so that their order is no
    matter.
    """
    names = names_of(checked_table(X, domain.names))
    estimator.n_features_in_ = domain.n_attributes
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
