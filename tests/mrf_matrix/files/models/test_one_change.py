"""A model's file in which one thing was changed: refused, or read as an honest model."""

import json
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrf_matrix import (
    Domain,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    load_model,
    save_model,
)
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.files.container import ModelFileError, array_of
from mrf_matrix.files.models.model_file import VERSION
from mrf_matrix.labels.plan import COUNTED_FROM
from mrf_matrix.release.transcript import Recorded

MODEL, ANSWERS = "model.json", "answers.npy"
HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SIZES = (3, 2, 4, 2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(1500, 4))
Y = (GENERATOR.random(1500) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)
KINDS = {
    "auto": PrivateForestClassifier,
    "tables": PosteriorForestClassifier,
    "naive_bayes": PrivateNaiveBayesClassifier,
    "additive": ResidualForestClassifier,
    "labels": LabelTreeClassifier,
    "pool": PooledForestClassifier,
}


def fitted(kind, **parameters):
    domain = Domain.from_sizes(SIZES, n_classes=2)
    budget = {"epsilon": 0.5} if kind == "labels" else {}  # of one round
    public = {} if kind == "naive_bayes" else {"random_state": 0, "n_records": 1500}
    return KINDS[kind](domain, **public, **budget, **parameters).fit(X, Y)


@pytest.fixture(scope="module", params=KINDS)
def good(request, tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = fitted(request.param)
    save_model(model, path)
    return path.read_bytes(), model.predict(X)


@pytest.fixture
def read(reader):
    """Load members as a model file."""
    return reader(load_model, "model.mrf")


def with_model(members, data, *, fits):
    """Return members with other JSON, whose digest is made to fit where that can be done."""
    if fits:
        told = json.loads(members[MODEL])
        answers = array_of(members[ANSWERS], "<i8", (told["n_answers"],))
        try:
            record = Recorded(data["noise"], data["outcomes"], answers, None)
            data = data | {"digest": record.digest(data["plan"])}
        except (TypeError, KeyError):  # it has no plan or no outcomes left
            pass
    return members | {MODEL: json.dumps(data).encode()}


def altered(members, change):
    """Return the JSON of members with some values replaced, those of the plan by name."""
    data = json.loads(members[MODEL])
    return data | change | {"plan": data["plan"] | change.get("plan", {})}


def of_plan(**change):
    return {"plan": change}


ANY = {
    "another law": of_plan(budget={"rho": "1"}),
    "less privacy": of_plan(budget={"epsilon": "3"}),
    "no privacy": of_plan(budget={"epsilon": "inf"}),
    "another relation": of_plan(neighboring="replace_one"),
    "no relation": of_plan(neighboring="any"),
    "no records": of_plan(n_records=0),
    "records in words": of_plan(n_records="1500"),
    "delta of one": of_plan(delta=1.0),
    "no delta": of_plan(delta=None),
    "a key too many": of_plan(more=1),
    "no noise": {"noise": "none"},
    "unknown noise": {"noise": "loud"},
    "fewer answers": {"n_answers": 3},
    "more answers": {"n_answers": 10**6},
    "no outcomes": {"outcomes": []},
    "outcomes no list": {"outcomes": {}},
    "other settings": {"settings": 0},
    "an earlier version": {"schema_version": VERSION - 1},
    "a later version": {"schema_version": VERSION + 1},
    "another format": {"format": "mrf_matrix.model"},
    "an unknown kind": {"kind": "forest"},
}
OWN = {
    "auto": {
        "no choice and no forest": of_plan(balance=None),
        "a choice that costs nothing": of_plan(balance=["how rare", {"epsilon": "0"}]),
        "a choice of all": of_plan(balance=["how rare", {"epsilon": "1"}]),
        "a choice of another law": of_plan(balance=["how rare", {"rho": "1/30"}]),
        "a choice of no words": of_plan(balance=[None, {"epsilon": "1/25"}]),
        "a screening of nothing": of_plan(
            screening={"choices": [], "enough": None, "told": "1", "most_cells": 1}
        ),
        "a forest beside a choice": of_plan(forest={"kind": "tables", "plan": {}}),
        "a forest of no kind": of_plan(balance=None, forest={"kind": "naive_bayes", "plan": {}}),
    },
    "tables": {
        "no blocks": of_plan(blocks=[]),
        "blocks repeat": of_plan(blocks=[[0, 1], [1, 2, 3]]),
        "blocks fall": of_plan(blocks=[[3, 2, 1, 0]]),
        "blocks unknown": of_plan(blocks=[[0, 1, 2, 4]]),
        "blocks empty": of_plan(blocks=[[0, 1, 2, 3], []]),
        "weights of nothing": of_plan(weights=[0, 1]),
        "weights too many": of_plan(weights=[1, 1, 1]),
        "weights false": of_plan(weights=[True, 1]),
    },
    "additive": {
        "more records": of_plan(n_records=10**6),
        "orders short": of_plan(orders=[]),
        "orders repeat": of_plan(orders=[[0, 0, 2, 3]]),
        "orders false": of_plan(orders=[[0, 1, 2, True]]),
        "even records of nothing": of_plan(even_records=0),
    },
    "labels": {
        "too few records for counts": of_plan(n_records=COUNTED_FROM - 1),
        "fewer records": of_plan(n_records=10),
        "records of two rounds": of_plan(n_records=10_000),
        "cuts of a flat tree": of_plan(cuts=[[0, [1]]] * 3),
        "cuts no list": of_plan(cuts={}),
    },
    "pool": {
        "beside nothing": of_plan(beside=None),
        "beside naive Bayes": of_plan(beside="naive_bayes"),
        "beside residuals": of_plan(beside="additive"),
        "no tree": of_plan(tree={}),
        "no tables": of_plan(tables=None),
    },
    "naive_bayes": {
        "no alpha": of_plan(alpha=None),
        "alpha of nothing": of_plan(alpha=0.0),
        "alpha below": of_plan(alpha=-1.0),
        "alpha in words": of_plan(alpha="1"),
    },
}
"""What each kind has besides; parts of a pool have their budgets and relations by themselves."""
CHANGED = [(kind, name, change) for kind in KINDS for name, change in (ANY | OWN[kind]).items()]


@pytest.mark.parametrize(
    ("good", "change"),
    [pytest.param(kind, change, id=f"{kind}, {name}") for kind, name, change in CHANGED],
    indirect=["good"],
)
def test_what_does_not_agree_is_refused(members, read, change):
    with pytest.raises(ModelFileError):
        read(with_model(members, altered(members, change), fits=True))


SAME = {
    "auto": of_plan(balance=["how rare it is", {"epsilon": "1/25"}]),
    "tables": of_plan(n_records=1400),
    "additive": of_plan(n_records=1499),
    "labels": of_plan(cuts=[[0, [2]]]),
    "pool": of_plan(delta=0.0),
    "naive_bayes": of_plan(alpha=2.0),
}
"""What may be changed: another honest plan of the same steps."""


@pytest.mark.parametrize(("good", "change"), SAME.items(), ids=SAME, indirect=["good"])
def test_what_agrees_is_read(members, read, change):
    """The positive control: changes are not refused because they are changes."""
    data = altered(members, deepcopy(change))
    if "cuts" in change["plan"]:
        data["plan"]["cuts"] *= len(json.loads(members[MODEL])["plan"]["cuts"])
    loaded = read(with_model(members, data, fits=True))
    assert loaded.privacy_report_.is_private
    assert np.isfinite(loaded.predict_proba(X)).all()
    if data != json.loads(members[MODEL]):  # and a slip is found
        with pytest.raises(ModelFileError, match="digest"):
            read(with_model(members, data, fits=False))


@pytest.mark.parametrize("fits", [True, False])
@HOSTILE
@given(data=st.data())
def test_any_value_of_the_json_may_be_wrong(members, read, one_wrong, fits, data):
    odd = data.draw(one_wrong(json.loads(members[MODEL])))
    try:
        loaded = read(with_model(members, odd, fits=fits))
    except ModelFileError:
        return
    codes = np.zeros((3, loaded.domain_.n_attributes), dtype=int)
    shares = loaded.predict_proba(loaded.domain_.decode(codes, numeric="midpoint"))
    assert np.isfinite(shares).all()
    str(loaded.privacy_report_)


@pytest.mark.parametrize("fits", [True, False])
@HOSTILE
@given(data=st.data())
def test_any_key_of_the_json_may_be_missing(members, read, one_missing, fits, data):
    path, rest = data.draw(one_missing(json.loads(members[MODEL])))
    try:
        read(with_model(members, rest, fits=fits))
    except ModelFileError:
        return
    assert path[0] == "domain" or (fits and path == ("digest",)), "all else is needed"


@pytest.mark.parametrize("kind", KINDS)
def test_research_noise_is_no_private_release(kind, tmp_path):
    model = fitted(kind, noise="research", noise_state=0)
    with pytest.raises(ModelFileError, match="claims no privacy"):
        save_model(model, tmp_path / "m")
    save_model(model, tmp_path / "m", allow_nonprivate=True)
    loaded = load_model(tmp_path / "m")
    assert loaded.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")
