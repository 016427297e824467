"""The file of a tree of labels: predicts to the last bit, and claims no more than its plan."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import settings
from sklearn.base import clone

from mrf_matrix import Domain, LabelTreeClassifier, PrivateForestClassifier, load_model, save_model
from mrf_matrix.estimators import ReleasedLabelTreeClassifier
from mrf_matrix.files.models import ModelFileError

MODEL = "model.json"
QUICK = settings(settings.get_profile("hostile"), max_examples=25)
SIZES = (3, 2, 4, 2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(300, 4))
Y = (GENERATOR.random(300) < np.where(X[:, 0] + X[:, 1] > 1, 0.8, 0.3)).astype(int)
DESIGNS = {
    "pure": {"n_records": 300, "epsilon": 0.1},
    "no choice": {"n_records": 300, "epsilon": 0.01},
    "unknown number": {},
    "zCDP": {"rho": 0.05, "n_records": 300},
    "approximate": {"epsilon": 0.2, "delta": 1e-6, "n_records": 300},
    "replace one": {"neighboring": "replace_one", "n_records": 300},
    "five classes": {"k": 5, "n_records": 300},
}


def fitted(k=2, **parameters):
    domain = Domain.from_sizes(SIZES, n_classes=k)
    labels = Y if k == 2 else (Y + X[:, 2]) % k
    return LabelTreeClassifier(domain, random_state=0, **parameters).fit(X, labels)


@pytest.fixture
def read(reader):
    """Load members as a model file."""
    return reader(load_model, "model.mrf")


@pytest.mark.parametrize("design", DESIGNS)
def test_a_loaded_tree_predicts_identically(tmp_path, design):
    model = fitted(**DESIGNS[design])
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert isinstance(loaded, ReleasedLabelTreeClassifier)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.vote_intervals(X), model.vote_intervals(X))
    assert loaded.privacy_report_ == model.privacy_report_
    assert loaded.plan_.steps == model.plan_.steps
    assert loaded.halves_ == model.halves_
    assert clone(loaded) is loaded
    with pytest.raises(TypeError, match="LabelTreeClassifier"):
        loaded.fit(X, Y)
    save_model(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_a_private_forest_of_labels_is_a_file_too(tmp_path):
    domain = Domain.from_sizes(SIZES, n_classes=2)
    model = PrivateForestClassifier(domain, epsilon=0.1, n_records=300, random_state=0).fit(X, Y)
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert isinstance(loaded.forest_, ReleasedLabelTreeClassifier)
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    save_model(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = fitted(n_records=300)
    save_model(model, path)
    return path.read_bytes(), model.predict(X)


HUGE = {
    "codes": ("attributes", 0, {"name": "x0", "size": 2**31 - 1}),
    "classes": ("target", None, {"name": "class", "size": 2**31 - 1}),
    "some classes": ("target", None, {"name": "class", "size": 12_000}),
}


@pytest.mark.parametrize("what", HUGE)
def test_huge_domains_are_refused_before_they_are_written_out(members, read, what):
    data = json.loads(members[MODEL])
    part, place, value = HUGE[what]
    if place is None:
        data["domain"][part] = value
    else:
        data["domain"][part][place] = value
        data["attributes"] = [0, 1]
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError):
            read(members | {MODEL: json.dumps(data).encode()})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50e6


def test_what_could_not_be_read_is_not_written(tmp_path):
    model = fitted(n_records=10**30)
    with pytest.raises(ModelFileError, match="n_records"):
        save_model(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_arrays_are_refused(members, read):
    with pytest.raises(ModelFileError, match="arrays"):
        read(members | {"answers.npy": b""})
