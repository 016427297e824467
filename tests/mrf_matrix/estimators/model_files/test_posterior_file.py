"""A posterior forest's file: predicts to the last bit, and claims no more than its release."""

import io
import json
import zipfile

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
from mrf_matrix.estimators import ModelFileError, ReleasedPosteriorForestClassifier
from mrf_matrix.mechanisms.files.npy import bytes_of
from strategies.operators import MemoryCapError, memory_cap

MODEL = "model.json"
DATA = {name: load_dataset(name) for name in ("monks_1", "car", "iris")}
QUICK = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
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
    """Return a model file's members and what it predicts."""
    path = tmp_path_factory.mktemp("good") / "model.mrf"
    model = fitted(n_blocks=3)
    save_model(model, path)
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}, model.predict(DATA["monks_1"].X)


@pytest.fixture
def read(tmp_path):
    """Load members as a model file."""

    def load(members):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in members.items():
                file.writestr(name, content)
        (tmp_path / "model.mrf").write_bytes(buffer.getvalue())
        return load_model(tmp_path / "model.mrf")

    return load


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
        ({"epsilon": float("inf")}, "no private release"),
    ):
        with pytest.raises(ModelFileError, match=why):
            save_model(fitted(**parameters), tmp_path / "m")
    assert not (tmp_path / "m").exists()
    save_model(fitted(**parameters), tmp_path / "m", allow_nonprivate=True)
    assert load_model(tmp_path / "m").privacy_report_.noise == "none"
    with pytest.raises(TypeError, match="not fitted"):
        save_model(PosteriorForestClassifier(DATA["car"].domain), tmp_path / "m")


def places(data, path=()):
    yield path
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*path, key))


def changed(data, path, value):
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


ODD = st.one_of(
    st.none(),
    st.integers(-3, 5),
    st.sampled_from([2**31, 2**63, 10**400, 0.5, "1/3", "x", [], {}, [[0]], [0, 0], "\x1b[31m"]),
)


@QUICK
@given(data=st.data())
def test_any_value_of_the_json_may_be_wrong(good, read, data):
    model = json.loads(good[0][MODEL])
    path = data.draw(st.sampled_from(list(places(model))))
    odd = changed(model, path, data.draw(ODD))
    try:
        loaded = read(good[0] | {MODEL: json.dumps(odd).encode()})
    except ModelFileError:
        return
    codes = np.zeros((3, loaded.domain_.n_attributes), dtype=int)
    shares = loaded.predict_proba(loaded.domain_.decode(codes, numeric="midpoint"))
    assert np.isfinite(shares).all()


@settings(QUICK, max_examples=15)
@given(
    values=st.lists(
        st.sampled_from([0, 1, -1, 2**40, -(2**40), 2**61, -(2**61)]), min_size=6, max_size=6
    )
)
def test_any_answers_give_numbers_or_are_refused(good, read, values):
    shape = read(good[0]).release_.answers.shape
    answers = np.resize(np.array(values, dtype="<i8"), shape)
    try:
        loaded = read(good[0] | {"answers.npy": bytes_of(answers)})
    except ModelFileError:
        return
    assert np.isfinite(loaded.predict_proba(DATA["monks_1"].X)).all()


def test_blocks_that_were_not_measured_are_refused(good, read):
    members, expected = good
    assert np.array_equal(read(members).predict(DATA["monks_1"].X), expected)  # the control
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


def test_a_file_cannot_claim_more_privacy_than_its_noise_gives(good, read):
    release = json.loads(good[0][MODEL])["release"]
    with pytest.raises(ModelFileError, match="noise"):
        read(with_json(good[0], release=release | {"budget": {"epsilon": "1/10"}}))
    with pytest.raises(ModelFileError, match=r"noise|private"):
        read(with_json(good[0], release=release | {"noise": "research"}))
    domain = release["domain"] | {"target": None}
    with pytest.raises(ModelFileError, match="target"):
        read(with_json(good[0], release=release | {"domain": domain}))
    other = release["domain"] | {"attributes": release["domain"]["attributes"][::-1]}
    with pytest.raises(ModelFileError, match="attributes"):
        read(with_json(good[0], release=release | {"domain": other}))


def test_covariances_that_would_not_fit_are_refused_before_anything_is_spent():
    domain = Domain([Attribute("x", size=200)], target=Attribute("y", size=2))
    ledgerless = PosteriorForestClassifier(domain, n_blocks=1)
    with memory_cap(2**20), pytest.raises(MemoryCapError, match="covariance"):
        ledgerless.fit(np.zeros((3, 1), dtype=int), np.zeros(3, dtype=int))
    assert not hasattr(ledgerless, "release_")
