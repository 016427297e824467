"""Conventions of classifiers: parameters, signatures, docstrings, files entered, scikit-learn's."""

import copy
import inspect
import pickle
import re
import sys
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import check_estimator

import mrf_matrix
import mrf_matrix.estimators
from mrf_matrix import (
    Attribute,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivateForestClassifier,
    estimators,
)
from mrf_matrix.estimators import PosteriorForestClassifier

CLASSES = [
    one
    for one in (getattr(mrf_matrix.estimators, name) for name in mrf_matrix.estimators.__all__)
    if isinstance(one, type) and issubclass(one, BaseEstimator)
]
GROUPED = [one for one in CLASSES if not one.__name__.startswith(("Released", "Residual"))]


SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
ORDER = ["Parameters", "Attributes", "See Also", "Notes", "References", "Examples"]
"""Of numpydoc's sections."""


def described(section, text):
    """Return the names that a section of a docstring describes, with their first lines."""
    _, *rest = SECTION.split(text)
    body = dict(zip(rest[::2], rest[1::2], strict=True)).get(section, "")
    lines = re.findall(r"^\S.*", body, re.MULTILINE)
    return {name: line for line in lines for name in line.partition(" : ")[0].split(", ")}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_parameter_is_described_with_its_default(cls):
    told = described("Parameters", inspect.getdoc(cls))
    asked = inspect.signature(cls).parameters
    assert set(told) == set(asked)
    body = inspect.getdoc(cls).split("Parameters\n----------\n")[1]
    for line in told.values():
        assert f"{line}\n    " in body, f"{line} is not explained"
    for name, line in told.items():
        default = asked[name].default
        if cls in GROUPED and default is not None:
            said = f'"{default}"' if isinstance(default, str) else repr(default)
            assert line.endswith(f" default={said}"), line


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_lists_of_groups_are_composed_in_numpydocs_order(cls):
    """Groups describe what a class inherits: its own text comes first, each list is one list."""
    text = inspect.getdoc(cls)
    summary, *rest = SECTION.split(text)
    titles = rest[::2]
    assert summary.strip()
    assert titles == [one for one in ORDER if one in titles]
    assert not re.search(r"\n{3,}", text)
    fitted = described("Attributes", text)
    assert all(one.endswith("_") for one in fitted)
    for group in cls.__mro__[1:] if cls in GROUPED else ():
        if group.__module__.startswith("mrf_matrix") and group.__doc__:
            assert described("Attributes", inspect.getdoc(group)).keys() <= fitted.keys()


@pytest.mark.parametrize("cls", GROUPED, ids=lambda cls: cls.__name__)
def test_signatures_are_plain_and_keyword_only(cls):
    with pytest.raises(TypeError, match="unexpected keyword"):
        cls(deep=1)
    asked = list(inspect.signature(cls).parameters.values())
    assert [one.name for one in asked] == [one.name for one in fields(cls)]
    assert sorted(cls().get_params()) == sorted(one.name for one in asked)
    positional = [one.name for one in asked if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional in ([], ["domain"])
    for made in (clone(cls()), pickle.loads(pickle.dumps(cls())), copy.deepcopy(cls())):
        assert made.get_params() == cls().get_params()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_few_classes_stand_behind_a_classifier(cls):
    assert sum(one.__module__.startswith("mrf_matrix") for one in cls.__mro__) <= 7


def test_positions_in_arrays_are_no_defaults():
    """Values of parameters are kept as they are given: the very objects."""
    sets = np.array([[0, 1]])
    model = mrf_matrix.estimators.MatrixForestClassifier(feature_subsets=sets)
    assert model.feature_subsets is sets


# scikit-learn's checks ---------------------------------------------------------------------------


INFINITE = float("inf")
NOT_PICKLED = "it holds the records for later predictions, and so refuses to be pickled"
EXCEPTIONS = {
    "BatchPredictionClassifier": {
        "check_estimators_pickle": NOT_PICKLED,
    },
    "SubsampleAggregateClassifier": {
        "check_estimators_pickle": NOT_PICKLED,
    },
}
"""Checks that a classifier fails by design, and why."""

FAST = {
    "domain": "from_data", "epsilon": INFINITE, "noise": "research", "noise_state": 0,
    "random_state": 0, "n_trees": 3, "max_depth": 2, "strategy": "identity", "time_limit": 0.2,
    "n_clients": 1,
}  # fmt: skip
"""Small and without noise: the checks ask for accuracy, and for the same answers twice."""

CLASSIFIERS = [
    name
    for name in estimators.__all__
    if name.endswith("Classifier") and not name.startswith("Released")
]


def made(name, **changes):
    classifier = getattr(estimators, name)()
    known = classifier.get_params()
    return classifier.set_params(**{k: v for k, v in (FAST | changes).items() if k in known})


QUICK = {"MatrixForestClassifier", "PrivateNaiveBayesClassifier", "PureForestClassifier"}
VARIANTS = [
    ("BatchPredictionClassifier", {"keep_records_in_pickle": True}),
    ("SubsampleAggregateClassifier", {"keep_records_in_pickle": True, "voting": "hard"}),
    ("FederatedForestClassifier", {"mode": "collaborative", "n_clients": 2}),
    ("FederatedForestClassifier", {"mode": "ncff", "n_clients": 2}),
]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(pytest.param(n, {}, marks=[pytest.mark.slow] * (n not in QUICK)) for n in CLASSIFIERS),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in VARIANTS),
    ],
)
def test_every_classifier_keeps_the_conventions(name, changes):
    exceptions = {} if "keep_records_in_pickle" in changes else EXCEPTIONS.get(name, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(
            made(name, **changes), expected_failed_checks=exceptions, on_fail=None
        )
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert not failed
    excused = {one["check_name"] for one in found if one["status"] == "xfail"}
    assert excused == set(exceptions)


ALONE = Domain(
    [Attribute("a", size=3), Attribute("b", size=2)], target=Attribute("y", categories=["only"])
)


@pytest.mark.parametrize(
    "name", [one for one in CLASSIFIERS if "epsilon" not in made(one).get_params()]
)
def test_a_domain_of_one_class_is_answered_with_it(name):
    """Of public classifiers; tests/mrf_matrix/kinds has private ones."""
    X = np.column_stack([np.arange(30) % 3, np.arange(30) % 2])
    model = made(name, domain=ALONE)
    model.fit(X, ["only"] * 30)
    assert set(model.predict(X)) == {"only"}
    np.testing.assert_allclose(model.predict_proba(X), np.ones((30, 1)))


# Files that a call goes through -------------------------------------------------------------------


ROOT = Path(mrf_matrix.__file__).parent
TREES = {"n_trees": 8, "max_depth": 2, "strategy": "identity", "random_state": 0}
MADE = {
    "matrix": (lambda domain: MatrixForestClassifier(domain, **TREES), 32, 12),
    "tables": (lambda domain: PosteriorForestClassifier(domain, random_state=0), 33, 12),
    "batch": (lambda domain: BatchPredictionClassifier(domain, n_batches=3, **TREES), 23, 31),
    "auto": (lambda domain: PrivateForestClassifier(domain, n_records=1728), 36, 13),
}
"""Each with the most files that its fit and its predict may enter."""


def entered(call):
    """Return the files of ours, by their paths in the package, in which a call runs a function."""
    seen = set()

    def profile(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return {path.relative_to(ROOT).as_posix() for path in map(Path, seen) if ROOT in path.parents}


@pytest.mark.parametrize("name", MADE)
def test_few_files_are_entered(car, name):
    make, most_of_fit, most_of_predict = MADE[name]
    for _ in range(2):  # warm: nothing is imported below, and the sum without a ledger was told
        make(car.domain).fit(car.X, car.y).predict(car.X[:9])
    model = make(car.domain)
    fit = entered(lambda: model.fit(car.X, car.y))
    first = entered(lambda: model.predict(car.X[50:60]))
    predict = entered(lambda: model.predict(car.X[:50]))
    assert "estimators/base.py" in fit & predict, "the count sees what it should"
    assert len(fit) <= most_of_fit, sorted(fit)
    assert len(predict) <= most_of_predict, sorted(predict)
    assert len(first | predict) <= most_of_predict + 2, "what is worked out once is near too"


def test_answers_given_before_are_near_at_hand(car):
    model = MADE["batch"][0](car.domain).fit(car.X, car.y)
    labels = model.predict(car.X[:50])
    found = entered(lambda: model.predict(car.X[:50]))
    assert len(found) <= 10, sorted(found)
    assert (model.predict(car.X[:50]) == labels).all()


def test_the_count_counts():
    assert entered(lambda: None) == set()
    assert entered(lambda: mrf_matrix.Domain.from_sizes([2]).sizes) >= {"domain/domain.py"}
