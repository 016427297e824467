"""A posterior forest's file: predicts to the last bit, and claims no more than its release."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mrf_matrix import (
    Attribute,
    Domain,
    PosteriorForestClassifier,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.estimators import ReleasedPosteriorForestClassifier
from mrf_matrix.files.container import bytes_of
from mrf_matrix.files.models import ModelFileError
from strategies.operators import MemoryCapError, memory_cap

MODEL = "model.json"
DATA = {name: load_dataset(name) for name in ("monks_1", "car", "iris")}
HOSTILE = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
DESIGNS = {
    "pure": {},
    "blocks": {"n_blocks": 3},
    "Gaussian": {"epsilon": None, "rho": 0.5},
    "replace one": {"neighboring": "replace_one", "n_records": 500},
}


def fitted(name="monks_1", **parameters):
    data = DATA[name]
    return PosteriorForestClassifier(data.domain, **{"random_state": 0, **parameters}).fit(
        data.X, data.y
    )


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return a model file's bytes and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = fitted(n_blocks=3)
    save_model(model, path)
    return path.read_bytes(), model.predict(DATA["monks_1"].X)


@pytest.fixture
def read(reader):
    """Load members as a model file."""
    return reader(load_model, "model.mrf")


def with_json(members, **changes):
    return members | {MODEL: json.dumps(json.loads(members[MODEL]) | changes).encode()}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("design", DESIGNS)
def test_a_loaded_posterior_forest_predicts_identically(tmp_path, name, design):
    model, X = fitted(name, **DESIGNS[design]), DATA[name].X
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert isinstance(loaded, ReleasedPosteriorForestClassifier)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for one, other in zip(loaded.vote_intervals(X), model.vote_intervals(X), strict=True):
        assert np.array_equal(one, other)
    assert loaded.privacy_report_ == model.privacy_report_
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.domain_ == model.domain_
    save_model(loaded, tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_loaded_posterior_forest_is_fitted_and_cannot_be_fitted_again(tmp_path):
    save_model(fitted(), tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert clone(loaded) is loaded
    with pytest.raises(TypeError, match="cannot be fitted"):
        loaded.fit(DATA["monks_1"].X, DATA["monks_1"].y)
    assert "blocks" in repr(loaded)
    assert loaded.forest_.n_trees == len(loaded.measurement_.blocks) + 1
    assert loaded.n_features_in_ == DATA["monks_1"].domain.n_attributes
    assert loaded.score(DATA["monks_1"].X, DATA["monks_1"].y) > 0


def test_what_is_no_private_release_is_not_saved(tmp_path):
    for parameters, why in (
        ({"noise": "research", "noise_state": 0}, "seedable"),
        ({"epsilon": float("inf")}, "claims no privacy"),
    ):
        with pytest.raises(ModelFileError, match=why):
            save_model(fitted(**parameters), tmp_path / "m")
    assert not (tmp_path / "m").exists()
    save_model(fitted(**parameters), tmp_path / "m", allow_nonprivate=True)
    assert load_model(tmp_path / "m").privacy_report_.noise == "none"
    with pytest.raises(TypeError, match="not fitted"):
        save_model(PosteriorForestClassifier(DATA["car"].domain), tmp_path / "m")


@HOSTILE
@given(
    values=st.lists(
        st.sampled_from([0, 1, -1, 2**40, -(2**40), 2**61, -(2**61)]), min_size=6, max_size=6
    )
)
def test_any_answers_give_numbers_or_are_refused(members, read, values):
    shape = read(members).release_.answers.shape
    answers = np.resize(np.array(values, dtype="<i8"), shape)
    try:
        loaded = read(members | {"answers.npy": bytes_of(answers)})
    except ModelFileError:
        return
    assert np.isfinite(loaded.predict_proba(DATA["monks_1"].X)).all()


@pytest.mark.parametrize("value", [2**62 + 1, -(2**62) - 1, -(2**63)])
def test_answers_beyond_all_bounds_are_refused(members, read, value):
    answers = np.full(read(members).release_.answers.shape, value, dtype="<i8")
    with pytest.raises(ModelFileError, match="answers: expected whole numbers"):
        read(members | {"answers.npy": bytes_of(answers)})


def test_blocks_that_were_not_measured_are_refused(good, members, read):
    assert np.array_equal(read(members).predict(DATA["monks_1"].X), good[1])  # the control
    model = json.loads(members[MODEL])
    for blocks in (
        model["blocks"][::-1],
        model["blocks"][:-1],
        [[0], *model["blocks"]],
        [[0, 0]],
        [[]],
        [],
        [[-1]],
        [[6]],
        [[True]],
        [[5, 4], [0, 1, 2, 3]],
        "ab",
    ):
        with pytest.raises(ModelFileError):
            read(with_json(members, blocks=blocks))
    for weights in ([1, 1], [9, 4], [0, 3], [9], [9, -3], [9.0, 3], [2**40, 1], None):
        if weights != model["weights"]:
            with pytest.raises(ModelFileError):
                read(with_json(members, weights=weights))


def test_a_file_cannot_claim_more_privacy_than_its_noise_gives(members, read):
    release = json.loads(members[MODEL])["release"]
    with pytest.raises(ModelFileError, match="noise"):
        read(with_json(members, release=release | {"budget": {"epsilon": "1/10"}}))
    with pytest.raises(ModelFileError, match=r"noise|private"):
        read(with_json(members, release=release | {"noise": "research"}))
    domain = release["domain"] | {"target": None}
    with pytest.raises(ModelFileError, match="target"):
        read(with_json(members, release=release | {"domain": domain}))
    other = release["domain"] | {"attributes": release["domain"]["attributes"][::-1]}
    with pytest.raises(ModelFileError, match="attributes"):
        read(with_json(members, release=release | {"domain": other}))


def test_covariances_that_would_not_fit_are_refused_before_anything_is_spent():
    domain = Domain([Attribute("x", size=200)], target=Attribute("y", size=2))
    ledgerless = PosteriorForestClassifier(domain, n_blocks=1)
    with memory_cap(2**20), pytest.raises(MemoryCapError, match="covariance"):
        ledgerless.fit(np.zeros((3, 1), dtype=int), np.zeros(3, dtype=int))
    assert not hasattr(ledgerless, "release_")
