"""A model file predicts what the fitted forest predicted, and holds nothing private."""

import json
import zipfile
from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    RandomTrees,
    from_release,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.estimators import PosteriorForestClassifier, ReleasedClassifier
from mrf_matrix.files import ModelFileError

DATA = {name: load_dataset(name) for name in ("monks_1", "car", "iris")}
DESIGNS = {
    "multiway": {},
    "binary": {"splits": "binary", "max_depth": 3},
    "weight votes": {"voting": "weight"},
    "product votes": {"voting": "product"},
    "posterior votes": {"voting": "shares", "shrinkage": "leaves"},
    "odds per tree": {"voting": "posterior", "allocation": "per_tree", "n_ensembles": 2},
    "per tree": {"allocation": "per_tree"},
    "disjoint": {"allocation": "disjoint"},
    "Gaussian": {"epsilon": None, "rho": 0.5},
    "replace one": {"neighboring": "replace_one"},
    "ensembles": {"n_ensembles": 3, "max_features": 2},
    "given forest": {"forest": RandomTrees(2, 1)},
}


def fitted(name="monks_1", **parameters):
    data = DATA[name]
    settings = {"n_trees": 6, "max_depth": 2, "strategy": "identity", "random_state": 0}
    return MatrixForestClassifier(data.domain, **{**settings, **parameters}).fit(data.X, data.y)


def saved(model, folder, **options):
    save_model(model, folder / "model.mrf", **options)
    return load_model(folder / "model.mrf")


@pytest.mark.parametrize(
    ("name", "design"),
    [*(("monks_1", design) for design in DESIGNS), ("car", "ensembles"), ("iris", "binary")],
)
def test_a_loaded_model_predicts_identically(tmp_path, name, design):
    model = fitted(name, **DESIGNS[design])
    loaded, X = saved(model, tmp_path), DATA[name].X
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.classes_, model.classes_)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.domain_ == model.domain_
    assert loaded.privacy_report_ == model.privacy_report_
    assert loaded.score(X, DATA[name].y) == model.score(X, DATA[name].y)


def test_the_same_model_makes_the_same_file_also_when_loaded_in_between(tmp_path):
    model = fitted()
    for name in ("a", "b"):
        save_model(model, tmp_path / name)
    save_model(load_model(tmp_path / "a"), tmp_path / "c")
    first, second, third = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == second == third
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c"}


def test_the_file_holds_the_release_no_seed_and_no_record(tmp_path):
    model = fitted("car", random_state=987654321)
    save_model(model, tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as file:
        members = set(file.namelist())
        described = json.loads(file.read("model.json"))
    assert described["plan"]["ensembles"][0]["strategy"]["kind"] == "grouping"
    assert members == {"model.json", "answers.npy", "ensemble_0/0.npy"} | {
        f"ensemble_0/{name}.npy"
        for name in ("roots", "attribute", "first_child", "pattern", "branches")
    }
    assert "987654321" not in json.dumps(described)


def test_numpy_opens_the_arrays(tmp_path):
    model = fitted()
    save_model(model, tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as file:
        assert np.array_equal(file["answers"], model.release_.answers.ravel())
        for name in ("roots", "attribute", "first_child", "pattern", "branches"):
            assert np.array_equal(file[f"ensemble_0/{name}"], getattr(model.forest_, name))


def test_a_strategy_of_any_size_is_saved_and_read_with_leave():
    """Of 600 cells it has 2.9 MB, which is more than this reader allows."""
    domain = Domain.from_sizes([20, 30], n_classes=2)
    matrix = np.eye(600) + np.tri(600, k=-1) * (np.arange(600) % 30 == 0)
    forest = MatrixForestClassifier(
        domain, n_trees=2, max_depth=1, strategy=matrix, noise="exact", random_state=0
    )
    codes = np.random.default_rng(0).integers(domain.sizes, size=(500, 2))
    forest.fit(codes, codes[:, 0] % 2)
    with TemporaryDirectory() as folder:
        save_model(forest, f"{folder}/m")
        with pytest.raises(ModelFileError, match="Raise max_bytes if you trust the file"):
            load_model(f"{folder}/m", max_bytes=2**20)
        loaded = load_model(f"{folder}/m")
    assert (loaded.predict_proba(codes) == forest.predict_proba(codes)).all()


def test_a_release_that_was_measured_otherwise_is_not_saved_as_a_model(tmp_path):
    """The file would hold a strategy, whose answers are other ones."""
    model = fitted(strategy="p_identity", time_limit=0.2)
    release, mechanism = model.release_, model.release_.mechanism
    again = from_release(release, forest=model.forest_, domain=DATA["monks_1"].domain)
    loaded, X = saved(again, tmp_path), DATA["monks_1"].X  # the control
    assert np.array_equal(loaded.predict_proba(X), again.predict_proba(X))
    assert loaded.privacy_report_.measurements == again.privacy_report_.measurements
    noisier = replace(release, mechanism=mechanism.with_factor(4))
    odd = from_release(noisier, forest=model.forest_, domain=DATA["monks_1"].domain)
    with pytest.raises(ModelFileError, match="measured otherwise"):
        save_model(odd, tmp_path / "odd", allow_nonprivate=True)


@pytest.mark.parametrize(
    ("parameters", "doubt"),
    [
        ({"epsilon": float("inf")}, "no noise"),
        ({"noise": "research", "noise_state": 0}, "research noise"),
    ],
)
def test_what_is_no_private_release_is_saved_only_when_asked(tmp_path, parameters, doubt):
    model = fitted(**parameters)
    with pytest.raises(ModelFileError, match=doubt):
        save_model(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())
    loaded = saved(model, tmp_path, allow_nonprivate=True)
    assert loaded.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")


@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_a_domain_from_the_records_is_saved_only_when_asked(tmp_path):
    data = DATA["iris"]
    model = MatrixForestClassifier(
        "from_data", n_trees=2, max_depth=1, strategy="identity", random_state=0
    ).fit(data.array(), data.y)
    with pytest.raises(ModelFileError, match="read off the records"):
        save_model(model, tmp_path / "m")
    save_model(model, tmp_path / "m", allow_nonprivate=True)


@pytest.mark.parametrize("wrong", [None, "model", RandomTrees(2, 1)])
def test_only_released_forests_are_saved(tmp_path, wrong):
    with pytest.raises(TypeError, match="MatrixForestClassifier"):
        save_model(wrong, tmp_path / "m")


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(TypeError, match="not fitted"):
        save_model(MatrixForestClassifier(DATA["car"].domain), tmp_path / "m")


def test_a_loaded_model_is_a_fitted_classifier_that_refuses_to_fit(tmp_path):
    loaded = saved(fitted(), tmp_path)
    assert isinstance(loaded, ReleasedClassifier)
    check_is_fitted(loaded)
    assert clone(loaded) is loaded
    assert loaded.n_features_in_ == DATA["monks_1"].domain.n_attributes
    with pytest.raises(TypeError, match="MatrixForestClassifier"):
        loaded.fit(DATA["monks_1"].X, DATA["monks_1"].y)
    assert "6 trees" in repr(loaded)


def test_voting_may_be_changed_at_no_cost(tmp_path):
    model = fitted("car")
    loaded = saved(model, tmp_path).voted_by("weight")
    X = DATA["car"].X
    assert np.array_equal(loaded.predict(X), model.voted_by("weight").predict(X))


def test_columns_are_matched_by_name(tmp_path):
    data = DATA["monks_1"]
    model = fitted()
    loaded = saved(model, tmp_path)
    other = data.X[list(reversed(list(data.X.columns)))].assign(comment="extra")
    assert np.array_equal(loaded.predict(other), model.predict(data.X))


# Claims ------------------------------------------------------------------------------------------


MODEL = "model.json"
MONKS = load_dataset("monks_1")


def members_of(model, folder, **options):
    save_model(model, folder / "model.mrf", allow_nonprivate=True, **options)
    with zipfile.ZipFile(folder / "model.mrf") as file:
        return {name: file.read(name) for name in file.namelist()}


def posterior(**parameters):
    settings = {"epsilon": 50, "n_blocks": 3, "random_state": 0} | parameters
    return PosteriorForestClassifier(MONKS.domain, **settings).fit(MONKS.X, MONKS.y)


def matrix(**parameters):
    settings = {"epsilon": 50, "n_trees": 4, "max_depth": 2, "strategy": "identity"} | parameters
    return MatrixForestClassifier(MONKS.domain, random_state=0, **settings).fit(MONKS.X, MONKS.y)


@pytest.fixture
def read(reader):
    return reader(load_model, "again.mrf")


# -- kinds that have a plan: the report follows from it -------------------------------------------


def test_notes_are_the_writers_word(tmp_path, read):
    members = members_of(posterior(), tmp_path)
    changed = json.loads(members[MODEL]) | {"notes": ["made in a hurry"]}
    loaded = read(members | {MODEL: json.dumps(changed).encode()})
    assert loaded.privacy_report_.notes == ("made in a hurry",)


@pytest.mark.filterwarnings("ignore::mrf_matrix.domain.PrivacyLeakWarning")
def test_a_report_may_deny_what_its_release_claims(tmp_path, read):
    model = PosteriorForestClassifier("from_data", n_blocks=3, random_state=0).fit(MONKS.X, MONKS.y)
    members = members_of(model, tmp_path)
    assert read(members).privacy_report_ == model.privacy_report_
    assert "read off the records" in read(members).privacy_report_.statement


@pytest.mark.parametrize("make", [posterior, matrix])
def test_displays_of_what_is_no_private_release_say_so(tmp_path, read, make):
    for other in ({"noise": "research"}, {"epsilon": np.inf}):
        loaded = read(members_of(make(**other), tmp_path))
        assert "NOT A PRIVATE RELEASE" in repr(loaded)
        assert "NOT A PRIVATE RELEASE" in loaded.privacy_report_._repr_html_()
        assert "NOT A PRIVATE RELEASE" in str(loaded.privacy_report_)
    assert "NOT" not in repr(read(members_of(make(), tmp_path)))
