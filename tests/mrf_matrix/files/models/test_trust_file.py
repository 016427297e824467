"""The file of a private forest whose votes are believed as far as was chosen."""

import json

import numpy as np
import pytest

from mrf_matrix import Domain, PrivateForestClassifier, load_model, save_model
from mrf_matrix.files.models import ModelFileError

MODEL = "model.json"
CHANGES = {
    "another factor": {"factor": 1.3},
    "no number": {"factor": "1.25"},
    "too large": {"factor": 1e9},
    "another budget": {"budget": {"epsilon": "1/2"}},
    "of another kind": {"budget": {"rho": "3/50"}},
    "one key more": {"more": 1},
}


def fitted(n_classes, sizes=(3, 3, 3, 3), n=3000, **changes):
    domain = Domain.from_sizes(sizes, n_classes=n_classes)
    codes = np.random.default_rng(0).integers(0, sizes, (n, len(sizes)))
    given = {"domain": domain, "n_records": n, "random_state": 0} | changes
    return PrivateForestClassifier(**given).fit(codes, codes[:, 0] % n_classes), codes


@pytest.fixture
def read(reader):
    """Load members as a model file."""
    return reader(load_model, "model.mrf")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model, codes = fitted(3, epsilon=2)
    save_model(model, path)
    return path.read_bytes(), model.predict(codes)


@pytest.mark.parametrize("changes", [{}, {"epsilon": None, "rho": 0.1}])
def test_a_saved_model_believes_as_far(tmp_path, changes):
    model, codes = fitted(3, **({"epsilon": 2} | changes))
    assert model.trust_ is not None
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.trust_ == model.trust_
    assert np.array_equal(loaded.predict_proba(codes), model.predict_proba(codes))
    assert np.array_equal(loaded.vote_intervals(codes), model.vote_intervals(codes))
    save_model(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_another_choice_is_refused(members, read, change):
    data = json.loads(members[MODEL])
    data["trust"] |= change
    with pytest.raises(ModelFileError):
        read(members | {MODEL: json.dumps(data)})


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_file_of_two_classes_has_none(tmp_path, unzipped, read, epsilon):
    model, _ = fitted(2, sizes=(4,) * 6, n=1000, epsilon=epsilon)
    save_model(model, tmp_path / "m")
    members = unzipped((tmp_path / "m").read_bytes())
    data = json.loads(members[MODEL])
    data["trust"] = data["choices"].pop(0) | {"factor": 1.25}
    del data["trust"]["kind"]
    with pytest.raises(ModelFileError, match="several classes"):
        read(members | {MODEL: json.dumps(data)})
