"""Wrong input of every classifier: named, without a record's value or a number of records, free."""

import inspect
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from mrf_matrix import Attribute, Domain, PrivacyLedger, estimators

N, N_BAD = 137, 41
SECRET, SECRET_NUMBER = "sekret", 98765.25
ATTRIBUTES = [
    Attribute("age", edges=[20, 40, 60, 90]),
    Attribute("sex", categories=["F", "M"]),
    Attribute("job", size=3),
]
DOMAIN = Domain(ATTRIBUTES, target=Attribute("income", categories=["low", "high"]))
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


UNKNOWN = "'sex'.* not in the categories 'F', 'M'"
RECORDS = {  # and words of the refusal
    "unknown category": (X.assign(sex=X["sex"].where(~BAD, SECRET)), UNKNOWN),
    "unknown category, polars": (pl.DataFrame(X.assign(sex=X["sex"].where(~BAD, SECRET))), UNKNOWN),
    "an enumeration": (
        pl.DataFrame(X).with_columns(pl.Series("sex", [SECRET] * N, dtype=pl.Enum([SECRET]))),
        UNKNOWN,
    ),
    "outside": (X.assign(age=X["age"].where(~BAD, SECRET_NUMBER)), "'age'"),
    "unknown number": (X.assign(job=X["job"].where(~BAD, 98765)), "'job'"),
    "huge number": (X.assign(job=np.array([98765 * 10**30] * N, dtype=object)), "'job'"),
    "missing": (X.assign(age=X["age"].where(~BAD)), "'age' has missing values"),
    "text as number": (
        X.assign(age=X["age"].astype(str).where(~BAD, SECRET)), "numbers are expected"
    ),
    "booleans": (X.assign(sex=X["sex"] == "F"), "booleans differ"),
    "long text": (X.assign(sex=X["sex"].where(~BAD, SECRET * 20_000)), UNKNOWN),
    "wide text array": (X.assign(sex=SECRET).to_numpy().astype(f"U{N}"), "'"),
    "objects": (X.assign(sex=objects(Shy())), "'sex'"),
    "objects as numbers": (X.assign(age=objects(Shy())), "'age'"),
    "no header": (X.set_axis([SECRET, "sex", "job"], axis=1), "'age'"),
    "a column less": (X[["age", "job"]], "lack the columns 'sex'"),
    "a column more": (X.assign(**{SECRET: 1}), r"not in the domain.*Drop them"),
    "repeated columns": (X.set_axis(["age", "sex", "sex"], axis=1), "."),
    "lists": ({"age": X["age"], "sex": [[SECRET] * 2] * N, "job": X["job"]}, "."),
    "equal lists": ([[[1, 2], [1, 2], [1, 2]]] * N, "."),
    "unequal columns": ({"age": X["age"], "sex": X["sex"][:N_BAD], "job": X["job"]}, "."),
    "a flat array": (np.full(N, SECRET_NUMBER), "1 dimensions.*reshape"),
    "a flat list": ([SECRET] * N, "."),
    "three dimensions": (np.zeros((N, 3, 1)), "3 dimensions"),
    "complex": (np.full((N, 3), SECRET_NUMBER * 1j), "."),
    "scalar": (np.array(SECRET_NUMBER), "."),
    "groups": (X.groupby("sex"), "."),
    "empty": ([], "."),
    "nothing": (None, "type NoneType"),
    "a text": ("hello", "type str"),
    "a number": (5, "type int"),
}  # fmt: skip
LABELS = {
    "too few": (Y[:N_BAD], "X and y differ in length"),
    "unknown": (np.where(BAD, SECRET, Y), "not in the categories 'low', 'high'"),
    "missing": (np.where(BAD, None, Y), "missing values"),
    "lists": ([[SECRET, SECRET]] * N, "."),
    "two columns": (np.stack([Y, Y], axis=1), "'income': 2 dimensions; expected one"),
    "numbers": (np.full(N, SECRET_NUMBER), "."),
    "a frame": (pd.DataFrame({SECRET: Y, "more": Y}), "."),
    "scalar": (SECRET, "."),
    "none": (None, "{name} requires y"),
}
CLASSIFIERS = sorted(
    name
    for name in estimators.__all__
    if name.endswith("Classifier")
    and "domain" in inspect.signature(getattr(estimators, name)).parameters
    and not name.startswith("Released")  # those have no fit
)


def parameters_of(name):
    return inspect.signature(getattr(estimators, name)).parameters


PRIVATE = [name for name in CLASSIFIERS if "epsilon" in parameters_of(name)]
SETTINGS = {
    "n_trees": 2, "max_depth": 1, "strategy": "identity", "time_limit": 0.2, "random_state": 0,
    "domain": DOMAIN, "epsilon": 1,
}  # fmt: skip
# parameter -> values that every private classifier that has it refuses by its name, on fit
PARAMETERS = {
    "epsilon": ["1", -1, 0, float("nan"), True, 10**400],
    "rho": [1, "1"],
    "n_records": ["1", 0, 1.5, True, 2**63, 10**400],
    "beside": ["residual", None, ["tables"]],
    "delta": ["0", -1, 1, float("nan"), True, None],
    "neighboring": ["twins", None, 1],
    "noise": ["loud", None, ["exact"]],
    "noise_state": [3],
    "random_state": ["seed", -1],
    "domain": ["x", None, [3, 4], Domain(ATTRIBUTES)],
    "ledger": [3, "ledger.json", PrivacyLedger(epsilon=0.5), PrivacyLedger(rho=0.001)],
    "n_trees": ["4", 0, 1.5],
    "max_depth": ["deep", -1, 2.5],
    "voting": ["loud", ["hard"], None],
    "strategy": ["best"],
    "forest": [3, "trees"],
    "allocation": ["x", ["matrix"]],
    "n_batches": [0, "1"],
    "splits": ["ternary"],
    "n_blocks": [0, -1, 1.5, "many", True, None, 99],
    "n_ensembles": [0, True],
    "max_features": [0, 9],
    "feature_subsets": ["sex", []],
    "budget_shares": ["even", [1, 0]],
    "structure_score": ["odd"],
    "label_score": ["odd"],
    "structure_share": [2],
    "parts": ["half"],
    "alpha": [0, "1", True, float("inf")],
}


def made(name, **changes):
    known = parameters_of(name)
    wanted = SETTINGS | changes
    return getattr(estimators, name)(**{key: one for key, one in wanted.items() if key in known})


@pytest.fixture
def ledger():
    """Return a ledger of which nothing may be spent."""
    book = PrivacyLedger(epsilon=5)
    yield book
    assert book.spent == 0


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
        assert "extra=" not in text, "no classifier has that parameter"
        assert len(text) < 1000, text[:300]
    assert SECRET.encode() not in pickle.dumps(error)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_wrong_records_and_labels_are_named_without_their_values_or_numbers(name, ledger):
    model = made(name).fit(X, Y)
    for case, (records, message) in RECORDS.items():
        for call in (lambda r=records: made(name, ledger=ledger).fit(r, Y),
                     lambda r=records: model.predict(r)):  # fmt: skip
            with pytest.raises((ValueError, TypeError), match=rf"(?s){message}") as caught:
                call()
            check_words(caught.value)
        assert "\n" not in str(caught.value), case
    for labels, message in LABELS.values():
        said = message.format(name=name)
        with pytest.raises((ValueError, TypeError), match=said) as caught:
            made(name, ledger=ledger).fit(X, labels)
        check_words(caught.value)
    with pytest.raises(ValueError, match="X has no records"):
        made(name, ledger=ledger).fit(X[:0], Y[:0])


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("domain", ["from_data", None])
def test_public_records_are_refused_in_the_same_words(name, domain):
    cases = ["outside", "missing", "a flat array", "three dimensions", "complex", "scalar",
             "empty", "nothing", "groups"]  # fmt: skip
    wrong = [(RECORDS[case][0], Y, case in ("outside", "missing")) for case in cases]
    wrong += [(X, LABELS[case][0], True) for case in ("too few", "lists", "two columns", "numbers")]
    for records, labels, may_fit in wrong:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made(name, domain=domain, epsilon=None).fit(records, labels)
            except (ValueError, TypeError) as error:
                check_words(error)
            else:
                assert may_fit


@pytest.mark.parametrize("name", PRIVATE)
def test_wrong_parameters_are_named_before_anything_is_spent(name, ledger):
    for parameter in PARAMETERS.keys() & parameters_of(name).keys():
        for value in PARAMETERS[parameter]:
            with pytest.raises((ValueError, TypeError), match=parameter):
                made(name, **{"ledger": ledger} | {parameter: value}).fit(X, Y)
    with pytest.raises((ValueError, TypeError), match="noise_state"):
        made(name, ledger=ledger, noise="research", noise_state="a").fit(X, Y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_long_or_shy_parameter_is_never_echoed(name):
    for parameter in parameters_of(name).keys() - {"nominal", "keep_records_in_pickle"}:
        for value in ("x" * 100_000, X):
            text = ""
            try:
                made(name, **{parameter: value}).fit(X, Y).predict(X)
            except (ValueError, TypeError) as error:
                text = str(error)
            assert len(text) < 2000, (parameter, text[:200])


@pytest.mark.parametrize("name", [one for one in PRIVATE if "strategy" in parameters_of(one)])
@pytest.mark.parametrize("matrix", [np.eye(3), None, np.full((18, 18), np.nan), 7])
def test_a_strategy_that_is_no_matrix_over_the_cells_is_named(ledger, name, matrix):
    with pytest.raises((ValueError, TypeError), match="strategy"):
        made(name, ledger=ledger, strategy=matrix).fit(X, Y).predict(X)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("MatrixForestClassifier", {"n_records": -1}),
        ("MatrixForestClassifier", {"time_limit": None}),
        ("MatrixForestClassifier", {"forest": [None]}),
        ("BatchPredictionClassifier", {"time_limit": None}),
        ("SubsampleAggregateClassifier", {"time_limit": 0}),
    ],
)
def test_parameters_that_are_not_in_use_are_refused_by_name_too(name, changes):
    with pytest.raises((ValueError, TypeError), match=next(iter(changes))):
        made(name, **changes).fit(X, Y)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_predicting_before_fitting_says_so(name):
    with pytest.raises(NotFittedError, match="fit"):
        made(name).predict(X)


# What is no mistake ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_columns_are_matched_by_name_whatever_holds_them(name):
    swapped = X[["job", "age", "sex"]]
    for first, second in ((X, swapped), (pl.DataFrame(swapped), X)):
        model = made(name, n_batches=2).fit(first, Y)
        assert (model.predict(second) == model.predict(X)).all()
    assert list(made(name).fit(swapped, Y).feature_names_in_) == list(swapped)
    mapping = {column: X[column].to_numpy() for column in X}
    model = made(name).fit(mapping, np.full(N, "high"))  # one class of records alone
    assert list(model.feature_names_in_) == list(X)
    assert model.n_features_in_ == 3
    assert list(model.classes_) == ["high", "low"]
    assert model.predict({column: one[:1] for column, one in mapping.items()}).shape == (1,)
    assert model.predict(X[:0]).shape == (0,)


@pytest.mark.parametrize("name", PRIVATE)
def test_one_budget_is_enough(name):
    model = made(name, epsilon=None, rho=0.5).fit(X, Y)
    model.predict(X[:3])
    assert "ZCDP(rho=0.5)" in model.privacy_report_.budget
    known = {key: one for key, one in SETTINGS.items() if key in parameters_of(name)}
    del known["epsilon"]
    model = getattr(estimators, name)(**known).fit(X, Y)
    model.predict(X[:3])
    if name == "MultinomialForestClassifier":  # not private without a budget
        assert not hasattr(model, "privacy_report_")
    else:
        assert "PureDP(epsilon=1)" in model.privacy_report_.budget
    with pytest.raises(ValueError, match="exactly one"):
        made(name, rho=0.5).fit(X, Y)


def test_depth_is_at_most_what_the_domain_allows_and_the_report_says_so():
    two = DOMAIN.select(["sex", "job"])
    model = estimators.MatrixForestClassifier(two, n_trees=4, strategy="identity", random_state=0)
    notes = model.fit(X[["sex", "job"]], Y).privacy_report_.notes
    assert model.forest_.max_depth == 2
    assert "max_depth=4: trees are 2 deep, all that attributes allow" in notes
    deep = made("MatrixForestClassifier", max_depth=3).fit(X, Y)
    assert not any("max_depth" in note for note in deep.privacy_report_.notes)
