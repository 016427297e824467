"""A residual forest's file: predicts to the last bit, and claims no more than its releases."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from mrf_matrix import Domain, ResidualForestClassifier, load_model, save_model
from mrf_matrix.estimators import ReleasedResidualForestClassifier
from mrf_matrix.files.container import bytes_of
from mrf_matrix.files.models import ModelFileError

MODEL = "model.json"
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
    "ample": {"epsilon": 200, "n_records": 1500},
    "ample, Gaussian": {"epsilon": None, "rho": 5000, "n_records": 1500},
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


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = fitted(n_records=1500)
    save_model(model, path)
    return path.read_bytes(), model.predict(X)


def test_a_file_of_an_earlier_version_says_so(members, read):
    data = json.loads(members[MODEL])
    first = data | {"schema_version": 1}
    del first["scale"]
    for earlier in (first, data | {"schema_version": 4}):  # its curvature was one for all codes
        with pytest.raises(ModelFileError, match="An earlier one wrote it"):
            read(members | {MODEL: json.dumps(earlier).encode()})


def test_answers_beyond_all_bounds_are_refused(members, read):
    length = json.loads(members[MODEL])["n_answers"]
    with pytest.raises(ModelFileError, match="answers: expected whole numbers"):
        read(members | {"answers.npy": bytes_of(np.full(length, -(2**63), dtype="<i8"))})
    with pytest.raises(ModelFileError, match="size"):
        read(members | {"answers.npy": bytes_of(np.zeros(length + 1, dtype="<i8"))})
