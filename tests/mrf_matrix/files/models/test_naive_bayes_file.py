"""Naive Bayes in files: predictions to the last bit, and nothing that its release contradicts."""

import json

import numpy as np
import pytest
from sklearn.base import clone

from mrf_matrix import (
    Attribute,
    Domain,
    PosteriorForestClassifier,
    PrivateNaiveBayesClassifier,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.estimators import ReleasedNaiveBayesClassifier
from mrf_matrix.files.models import ModelFileError

DATA = {name: load_dataset(name) for name in ("monks_1", "car")}
CLAIMS = {
    "pure": {"epsilon": 0.5},
    "zCDP": {"rho": 0.1, "neighboring": "replace_one"},
    "approximate": {"epsilon": 1, "delta": 1e-6, "alpha": 0.5},
}


def fitted(name="monks_1", **parameters):
    data = DATA[name]
    return PrivateNaiveBayesClassifier(data.domain, **parameters).fit(data.X, data.y)


@pytest.fixture
def read(reader):
    return reader(load_model, "again.mrf")


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_loaded_classifier_predicts_identically(tmp_path, name, claim):
    model, X = fitted(name, **CLAIMS[claim]), DATA[name].X
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert isinstance(loaded, ReleasedNaiveBayesClassifier)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.privacy_report_ == model.privacy_report_
    assert loaded.spent == model.release_.budget
    loaded.save(tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()
    smoothed = [one.set_params(alpha=9.0).predict_proba(X) for one in (model, loaded)]
    assert np.array_equal(*smoothed)  # post-processing


def test_it_is_fitted_and_cannot_be_fitted_again(tmp_path):
    fitted().save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert clone(loaded) is loaded
    with pytest.raises(TypeError, match="PrivateNaiveBayesClassifier"):
        loaded.fit(DATA["monks_1"].X, DATA["monks_1"].y)
    assert "6 attributes" in repr(loaded)


def test_attributes_of_one_code_are_left_out_of_the_file_too(tmp_path):
    domain = Domain([Attribute("a", size=3), Attribute("b", size=1)], Attribute("class", size=2))
    X, y = np.array([[0, 0], [1, 0], [2, 0]] * 20), np.array([0, 1, 1] * 20)
    model = PrivateNaiveBayesClassifier(domain, epsilon=1).fit(X, y)
    model.save(tmp_path / "m")
    assert np.array_equal(load_model(tmp_path / "m").predict(X), model.predict(X))


def test_another_measurement_is_no_naive_bayes(tmp_path, unzipped, read):
    data = DATA["monks_1"]
    singles = [[i] for i in range(data.domain.n_attributes)]
    posterior = PosteriorForestClassifier(data.domain, blocks=singles).fit(data.X, data.y)
    found = []
    for model in (fitted(), posterior):
        save_model(model, tmp_path / "m")
        found.append(unzipped((tmp_path / "m").read_bytes()))
    own, other = found
    assert read(own).predict(data.X).shape == data.y.shape  # the control
    mixed = json.loads(own["model.json"]) | {
        "release": json.loads(other["model.json"])["release"],
        "report": json.loads(other["model.json"])["report"],
    }
    with pytest.raises(ModelFileError, match="did not measure"):
        read(other | {"model.json": json.dumps(mixed).encode()})


def test_more_privacy_than_the_noise_gives_is_refused(tmp_path, unzipped, read):
    fitted(epsilon=2).save(tmp_path / "m")
    members = unzipped((tmp_path / "m").read_bytes())
    text = members["model.json"].replace(b"PureDP(epsilon=2)", b"PureDP(epsilon=1)")
    assert text != members["model.json"]
    with pytest.raises(ModelFileError, match="report"):
        read(members | {"model.json": text})
