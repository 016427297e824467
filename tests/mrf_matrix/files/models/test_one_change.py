"""A model's file in which one thing was changed: refused, or read as an honest model."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrf_matrix import (
    Domain,
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    PrivateNaiveBayesClassifier,
    ResidualForestClassifier,
    load_model,
    save_model,
)
from mrf_matrix.files.models import ModelFileError
from mrf_matrix.files.models.label_file import LABEL_VERSION
from mrf_matrix.files.models.naive_bayes_file import NAIVE_BAYES_VERSION
from mrf_matrix.labels.depth import COUNTED_FROM

MODEL = "model.json"
HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
SIZES = (3, 2, 4, 2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(1500, 4))
Y = (GENERATOR.random(1500) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)
KINDS = {
    "posterior": PosteriorForestClassifier,
    "naive_bayes": PrivateNaiveBayesClassifier,
    "residual": ResidualForestClassifier,
    "labels": LabelTreeClassifier,
    "pooled": PooledForestClassifier,
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


RESIDUAL = {
    "more privacy": {"budget": {"epsilon": "1/2"}},
    "another law": {"budget": {"rho": "1"}},
    "another relation": {"neighboring": "replace_one"},
    "no noise": {"noise": "none"},
    "research noise": {"noise": "research"},
    "more records": {"n_records": 10**6},
    "no records": {"n_records": 0},
    "delta of one": {"delta": 1.0},
    "no delta": {"delta": None},
    "orders short": {"orders": []},
    "orders repeat": {"orders": [[0, 0, 2, 3]]},
    "orders false": {"orders": [[0, 1, 2, True]]},
    "scale unknown": {"scale": 27},
    "scale below": {"scale": -1},
    "scale no place": {"scale": 0.6},
    "choices repeat": {"choices": [[0, 1]] * 2},
    "choices unknown": {"choices": [[0, 9], None]},
    "choices no list": {"choices": {}},
    "fewer answers": {"n_answers": 3},
    "another version": {"schema_version": 1},
}
LABELS = {
    "more privacy": {"budget": {"epsilon": "1/4"}},
    "another law": {"budget": {"rho": "1"}},
    "another relation": {"neighboring": "replace_one"},
    "no noise": {"noise": "none"},
    "research noise": {"noise": "research"},
    "fewer records": {"n_records": 10},
    "too few records for counts": {"n_records": COUNTED_FROM - 1},
    "no records": {"n_records": 0},
    "records of two rounds": {"n_records": 10_000},
    "delta of one": {"delta": 1.0},
    "cuts of a flat tree": {"cuts": [{"attribute": 0, "upper": [1]}] * 3},
    "cuts no list": {"cuts": {}},
    "labels of a flat tree": {"labels": [0, 1, 0, 1]},
    "labels unknown": {"labels": [0, 1, 0, 1, 0, 1, 0, 2]},
    "labels below": {"labels": [0, 1, 0, 1, 0, 1, 0, -1]},
    "labels false": {"labels": [0, 1, 0, 1, 0, 1, 0, True]},
    "no labels": {"labels": None},
    "an earlier version": {"schema_version": LABEL_VERSION - 1},
    "a later version": {"schema_version": LABEL_VERSION + 1},
}
NAIVE_BAYES = {
    "no alpha": {"alpha": None},
    "alpha of nothing": {"alpha": 0.0},
    "alpha below": {"alpha": -1.0},
    "alpha in words": {"alpha": "1"},
    "no release": {"release": {}},
    "a later version": {"schema_version": NAIVE_BAYES_VERSION + 1},
}
SAME = {
    "residual": {"n_records": 1500},
    "labels": {"cuts": [{"attribute": 2, "upper": [1, 3]}] * 7, "labels": [0, 1] * 4},
}
"""What may be changed: the same number, and another tree of the same plan."""
CHANGED = [("residual", name, change) for name, change in RESIDUAL.items()]
CHANGED += [("naive_bayes", name, change) for name, change in NAIVE_BAYES.items()]
CHANGED += [("labels", name, change) for name, change in LABELS.items()]


@pytest.mark.parametrize(
    ("good", "change"),
    [pytest.param(kind, change, id=f"{kind}, {name}") for kind, name, change in CHANGED],
    indirect=["good"],
)
def test_what_does_not_agree_is_refused(members, read, change):
    data = json.loads(members[MODEL]) | change
    with pytest.raises(ModelFileError):
        read(members | {MODEL: json.dumps(data).encode()})


@pytest.mark.parametrize(("good", "change"), SAME.items(), ids=SAME, indirect=["good"])
def test_what_agrees_is_read(members, read, change):
    """The positive control: changes are not refused because they are changes."""
    data = json.loads(members[MODEL]) | change
    loaded = read(members | {MODEL: json.dumps(data).encode()})
    assert loaded.plan_.n_records == 1500


@HOSTILE
@given(data=st.data())
def test_any_value_of_the_json_may_be_wrong(members, read, one_wrong, data):
    odd = data.draw(one_wrong(json.loads(members[MODEL])))
    try:
        loaded = read(members | {MODEL: json.dumps(odd).encode()})
    except ModelFileError:
        return
    codes = np.zeros((3, loaded.domain_.n_attributes), dtype=int)
    shares = loaded.predict_proba(loaded.domain_.decode(codes, numeric="midpoint"))
    assert np.isfinite(shares).all()


@pytest.mark.parametrize("kind", KINDS)
def test_research_noise_is_no_private_release(kind, tmp_path):
    model = fitted(kind, noise="research", noise_state=0)
    with pytest.raises(ModelFileError, match="claims no privacy"):
        save_model(model, tmp_path / "m")
    save_model(model, tmp_path / "m", allow_nonprivate=True)
    loaded = load_model(tmp_path / "m")
    assert loaded.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")
