"""A residual forest's file: predicts to the last bit, and claims no more than its releases."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mrf_matrix import Domain, ResidualForestClassifier, load_model, save_model
from mrf_matrix.estimators import ReleasedResidualForestClassifier
from mrf_matrix.files.container import bytes_of
from mrf_matrix.files.models import ModelFileError

MODEL = "model.json"
QUICK = settings(settings.get_profile("hostile"), max_examples=25)
SIZES = (3, 2, 4, 2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(1500, 4))
Y = (GENERATOR.random(1500) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)
DESIGNS = {
    "pure": {"n_records": 1500},
    "unknown number": {},
    "Gaussian": {"epsilon": None, "rho": 0.5, "n_records": 1500},
    "approximate": {"epsilon": 4, "delta": 1e-6, "n_records": 4000},
    "replace one": {"neighboring": "replace_one", "n_records": 1500},
    "three classes": {"k": 3, "n_records": 1500, "epsilon": 4},
    "Gaussian, five classes": {"k": 5, "epsilon": None, "rho": 1, "n_records": 1500},
}


def fitted(k=2, **parameters):
    domain = Domain.from_sizes(SIZES, n_classes=k)
    labels = Y if k == 2 else (Y + X[:, 2]) % k
    return ResidualForestClassifier(domain, random_state=0, **parameters).fit(X, labels)


@pytest.fixture
def read(reader):
    """Load members as a model file."""
    return reader(load_model, "model.mrf")


@pytest.mark.parametrize("design", DESIGNS)
def test_a_loaded_residual_forest_predicts_identically(tmp_path, design):
    model = fitted(**DESIGNS[design])
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert isinstance(loaded, ReleasedResidualForestClassifier)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.privacy_report_ == model.privacy_report_
    assert loaded.plan_.steps == model.plan_.steps
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert clone(loaded) is loaded
    with pytest.raises(TypeError, match="ResidualForestClassifier"):
        loaded.fit(X, Y)
    save_model(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_research_noise_is_no_private_release(tmp_path):
    model = fitted(noise="research", noise_state=0)
    with pytest.raises(ModelFileError, match="no private release"):
        save_model(model, tmp_path / "m")
    save_model(model, tmp_path / "m", allow_nonprivate=True)
    loaded = load_model(tmp_path / "m")
    assert loaded.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = fitted(n_records=1500)
    save_model(model, path)
    return path.read_bytes(), model.predict(X)


CHANGES = {
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


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_agree_is_refused(members, read, change):
    data = json.loads(members[MODEL]) | CHANGES[change]
    with pytest.raises(ModelFileError):
        read(members | {MODEL: json.dumps(data).encode()})


def test_a_file_of_an_earlier_version_says_so(members, read):
    data = json.loads(members[MODEL]) | {"schema_version": 1}
    del data["scale"]
    with pytest.raises(ModelFileError, match="An earlier one wrote it"):
        read(members | {MODEL: json.dumps(data).encode()})


@QUICK
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


def test_answers_beyond_all_bounds_are_refused(members, read):
    length = json.loads(members[MODEL])["n_answers"]
    with pytest.raises(ModelFileError, match="answers: expected whole numbers"):
        read(members | {"answers.npy": bytes_of(np.full(length, -(2**63), dtype="<i8"))})
    with pytest.raises(ModelFileError, match="size"):
        read(members | {"answers.npy": bytes_of(np.zeros(length + 1, dtype="<i8"))})
