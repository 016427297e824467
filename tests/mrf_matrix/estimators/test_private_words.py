"""No classifier's message shows a record's value, how many records there are, or how many err."""

import inspect
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mrf_matrix import Attribute, Domain, PrivacyLedger, estimators

N, N_BAD = 137, 41
SECRET, SECRET_NUMBER = "sekret", 98765.25
DOMAIN = Domain(
    [
        Attribute("age", edges=[20, 40, 60, 90]),
        Attribute("sex", categories=["F", "M"]),
        Attribute("job", size=3),
    ],
    target=Attribute("income", categories=["low", "high"]),
)
RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "age": RNG.uniform(20, 90, N),
        "sex": RNG.choice(["F", "M"], N),
        "job": RNG.integers(3, size=N),
    }
)
Y = RNG.choice(["low", "high"], N)
BAD = np.arange(N) >= N - N_BAD


class Shy:
    """A value whose repr raises."""

    def __repr__(self):
        raise RuntimeError(SECRET)


def objects(value):
    column = X["sex"].to_numpy(dtype=object, copy=True)
    column[BAD] = value
    return column


RECORDS = {
    "unknown category": X.assign(sex=X["sex"].where(~BAD, SECRET)),
    "unknown category, polars": pl.DataFrame(X.assign(sex=X["sex"].where(~BAD, SECRET))),
    "an enumeration": pl.DataFrame(X).with_columns(
        pl.Series("sex", [SECRET] * N, dtype=pl.Enum([SECRET]))
    ),
    "outside": X.assign(age=X["age"].where(~BAD, SECRET_NUMBER)),
    "unknown number": X.assign(job=X["job"].where(~BAD, 98765)),
    "huge number": X.assign(job=np.array([98765 * 10**30] * N, dtype=object)),
    "missing": X.assign(age=X["age"].where(~BAD)),
    "text as number": X.assign(age=X["age"].astype(str).where(~BAD, SECRET)),
    "long text": X.assign(sex=X["sex"].where(~BAD, SECRET * 20_000)),
    "wide text array": X.assign(sex=SECRET).to_numpy().astype(f"U{N}"),
    "objects": X.assign(sex=objects(Shy())),
    "objects as numbers": X.assign(age=objects(Shy())),
    "no header": X.set_axis([SECRET, "sex", "job"], axis=1),
    "a column more": X.assign(**{SECRET: 1}),
    "repeated columns": X.set_axis(["age", "sex", "sex"], axis=1),
    "lists": {"age": X["age"], "sex": [[SECRET] * 2] * N, "job": X["job"]},
    "equal lists": [[[1, 2], [1, 2], [1, 2]]] * N,
    "unequal columns": {"age": X["age"], "sex": X["sex"][:N_BAD], "job": X["job"]},
    "a flat array": np.full(N, SECRET_NUMBER),
    "a flat list": [SECRET] * N,
    "three dimensions": np.zeros((N, 3, 1)),
    "complex": np.full((N, 3), SECRET_NUMBER * 1j),
    "scalar": np.array(SECRET_NUMBER),
    "groups": X.groupby("sex"),
    "empty": [],
    "nothing": None,
}
LABELS = {
    "too few": Y[:N_BAD],
    "unknown": np.where(BAD, SECRET, Y),
    "missing": np.where(BAD, None, Y),
    "lists": [[SECRET, SECRET]] * N,
    "two columns": np.stack([Y, Y], axis=1),
    "numbers": np.full(N, SECRET_NUMBER),
    "a frame": pd.DataFrame({SECRET: Y, "more": Y}),
    "scalar": SECRET,
}
CLASSIFIERS = sorted(
    name
    for name in estimators.__all__
    if name.endswith("Classifier")
    and "domain" in inspect.signature(getattr(estimators, name)).parameters
    and not name.startswith("Released")  # those have no fit
)
SETTINGS = {
    "n_trees": 2, "max_depth": 1, "strategy": "identity", "time_limit": 0.2, "random_state": 0,
}  # fmt: skip


def made(name, **changes):
    kind = getattr(estimators, name)
    known = inspect.signature(kind).parameters
    wanted = SETTINGS | ({"epsilon": 1} if "epsilon" in known else {}) | changes
    return kind(**{key: value for key, value in wanted.items() if key in known})


def told(error):
    """Return all that a traceback's words would show of an error and what led to it."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return texts


def check_words(error):
    for text in told(error):
        assert SECRET not in text, text[:300]
        assert not {str(N), str(N_BAD), str(N - N_BAD)} & set(re.findall(r"\d+", text)), text[:300]
        assert "98765" not in text, text[:300]
        assert len(text) < 1000, text[:300]
    assert SECRET.encode() not in pickle.dumps(error)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_bad_records_are_refused_without_their_values_or_numbers(name):
    model = made(name, domain=DOMAIN).fit(X, Y)
    ledger = PrivacyLedger(epsilon=5)
    for case, records in RECORDS.items():
        with pytest.raises((ValueError, TypeError)) as caught:
            made(name, domain=DOMAIN, ledger=ledger).fit(records, Y)
        check_words(caught.value)
        with pytest.raises((ValueError, TypeError)) as caught:
            model.predict(records)
        check_words(caught.value)
        assert "\n" not in str(caught.value), case
    for labels in LABELS.values():
        with pytest.raises((ValueError, TypeError)) as caught:
            made(name, domain=DOMAIN, ledger=ledger).fit(X, labels)
        check_words(caught.value)
    assert ledger.spent == 0


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("domain", ["from_data", None])
def test_public_records_are_refused_in_the_same_words(name, domain):
    records = ["outside", "missing", "a flat array", "three dimensions", "complex", "scalar",
               "empty", "nothing", "groups"]  # fmt: skip
    for case in records:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made(name, domain=domain, epsilon=None).fit(RECORDS[case], Y)
            except (ValueError, TypeError) as error:
                check_words(error)
            else:
                assert case in ("outside", "missing")
    for case in ("too few", "lists", "two columns", "numbers"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made(name, domain=domain, epsilon=None).fit(X, LABELS[case])
            except (ValueError, TypeError) as error:
                check_words(error)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_columns_in_another_order_are_matched_by_name(name):
    swapped = X[["job", "age", "sex"]]
    for first, second in ((X, swapped), (swapped, X), (pl.DataFrame(swapped), X)):
        model = made(name, domain=DOMAIN, n_batches=2).fit(first, Y)
        assert (model.predict(second) == model.predict(X)).all()
    assert list(made(name, domain=DOMAIN).fit(swapped, Y).feature_names_in_) == list(swapped)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_long_or_shy_parameter_is_never_echoed(name):
    known = inspect.signature(getattr(estimators, name)).parameters
    for parameter in known:
        if parameter in ("nominal", "keep_records_in_pickle"):
            continue
        for value in ("x" * 100_000, X):
            text = ""
            try:
                made(name, **({"domain": DOMAIN} | {parameter: value})).fit(X, Y).predict(X)
            except (ValueError, TypeError) as error:
                text = str(error)
            assert len(text) < 2000, (parameter, text[:200])


RHO = [
    name for name in CLASSIFIERS if "rho" in inspect.signature(getattr(estimators, name)).parameters
]


@pytest.mark.parametrize("name", RHO)
def test_one_budget_is_enough(name):
    kind = getattr(estimators, name)
    known = {
        key: value for key, value in SETTINGS.items() if key in inspect.signature(kind).parameters
    }
    model = kind(DOMAIN, rho=0.5, **known).fit(X, Y)
    model.predict(X[:3])
    assert "ZCDP(rho=0.5)" in model.privacy_report_.budget
    model = kind(DOMAIN, **known).fit(X, Y)
    model.predict(X[:3])
    if name == "MultinomialForestClassifier":  # not private without a budget
        assert not hasattr(model, "privacy_report_")
    else:
        assert "PureDP(epsilon=1)" in model.privacy_report_.budget
    with pytest.raises(ValueError, match="exactly one"):
        kind(DOMAIN, epsilon=1, rho=0.5, **known).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("MatrixForestClassifier", {"n_records": -1}),
        ("MatrixForestClassifier", {"time_limit": None}),
        ("MatrixForestClassifier", {"forest": [None]}),
        ("BatchPredictionClassifier", {"time_limit": None}),
        ("SubsampleAggregateClassifier", {"time_limit": 0}),
        ("PosteriorForestClassifier", {"n_blocks": 99}),
        ("PosteriorForestClassifier", {"n_records": -1}),
    ],
)
def test_parameters_that_are_not_in_use_are_refused_by_name_too(name, changes):
    with pytest.raises((ValueError, TypeError), match=next(iter(changes))):
        made(name, domain=DOMAIN, **changes).fit(X, Y)


def test_depth_is_at_most_what_the_domain_allows_and_the_report_says_so():
    two = DOMAIN.select(["sex", "job"])
    model = estimators.MatrixForestClassifier(two, n_trees=4, strategy="identity", random_state=0)
    notes = model.fit(X[["sex", "job"]], Y).privacy_report_.notes
    assert model.forest_.max_depth == 2
    assert "max_depth=4: trees are 2 deep, all that attributes allow" in notes
    deep = made("MatrixForestClassifier", domain=DOMAIN, max_depth=3).fit(X, Y)
    assert not any("max_depth" in note for note in deep.privacy_report_.notes)
