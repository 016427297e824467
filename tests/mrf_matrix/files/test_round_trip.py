"""Releases and models come back from their files as they went in, and hold nothing private."""

import json
import zipfile
from dataclasses import replace
from math import inf
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import strategies
from mrf_matrix import (
    ZCDP,
    Domain,
    MatrixForestClassifier,
    PureDP,
    RandomTrees,
    from_release,
    load_dataset,
    load_model,
    load_release,
    measure,
    path_matrix,
    save_model,
    save_release,
)
from mrf_matrix.estimators import PosteriorForestClassifier, ReleasedClassifier
from mrf_matrix.files import ModelFileError, ReleaseFileError
from mrf_matrix.mechanisms import count_cells, reconstruct, row_variances
from strategies.operators import (
    Dense,
    Gram,
    Grouping,
    Identity,
    Kronecker,
    Marginals,
    Product,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
    Transposed,
)

SIZES = (2, 3)
RNG = np.random.default_rng(5)
PATHS = RowKronecker.from_masks([RNG.random((7, 2)) < 0.7, RNG.random((7, 3)) < 0.7])
GROUPS = Grouping([0, 1, 0, 2, 3, 2], SIZES)
GRAM = RNG.normal(size=(8, 6))
STRATEGIES = {
    "identity": Identity(6, SIZES),
    "weighted identity": Scaled(0.1, Identity(6, SIZES)),
    "grouping": GROUPS,
    "dense": Dense(RNG.normal(size=(8, 6))),
    "dense by column": Dense(np.asfortranarray(RNG.normal(size=(8, 6)))),
    "deficient reals": Dense(RNG.normal(size=(8, 3)) @ RNG.integers(-2, 3, (3, 6))),
    "deficient by column": Dense(
        np.asfortranarray(RNG.normal(size=(8, 3)) @ RNG.integers(-2, 3, (3, 6)))
    ),
    "sparse": Sparse(sparse.csr_array(np.tri(6)), SIZES),
    "sparse reals": Sparse(sparse.csr_array(np.tri(6) / 3)),
    "gram": Gram(GRAM.T @ GRAM),
    "paths": PATHS,
    "weighted paths": RowScaled(RNG.random(7) + 0.1, PATHS),
    "marginals": Marginals(SIZES, [(0,), (1,)], [0.3, 0.7]),
    "kronecker": Kronecker([Dense(RNG.random((3, 2))), Dense(RNG.random((4, 3)))]),
    "kronecker of integers": Kronecker([Dense([[1, 1], [0, 1]]), Identity(3)]),
    "lifted": Product(Dense(RNG.normal(size=(5, 4))), GROUPS),
    "lifted deficient": Product(Dense(RNG.normal(size=(5, 2)) @ RNG.normal(size=(2, 4))), GROUPS),
    "stack": Stack([Scaled(0.4, Identity(6, SIZES)), Scaled(0.6, PATHS)]),
    "transposed": Transposed(Grouping([0, 1, 2, 3, 4, 5, 5, 5])),
}


def counts(sizes=SIZES, n=200, k=2):
    codes = np.stack([RNG.integers(0, size, n) for size in sizes], axis=1)
    return count_cells(codes, RNG.integers(0, k, n), sizes, k)


def saved(release, folder, **options):
    save_release(release, folder / "one.release", **options)
    return load_release(folder / "one.release")


def contents(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(0.1), ZCDP(0.25)])
@pytest.mark.parametrize("name", STRATEGIES)
def test_answers_come_back_to_the_last_bit(tmp_path, name, budget, neighboring):
    strategy = STRATEGIES[name]
    release = measure(strategy, counts(), budget, neighboring=neighboring)
    loaded = saved(release, tmp_path)
    assert np.array_equal(loaded.answers, release.answers)
    workload = RNG.integers(-2, 3, (9, strategy.shape[0])) @ strategy.to_dense()
    assert np.array_equal(reconstruct(loaded, workload), reconstruct(release, workload))
    assert np.array_equal(row_variances(loaded, workload), row_variances(release, workload))
    assert (str(loaded), repr(loaded)) == (str(release), repr(release))
    for field in ("budget", "neighboring", "noise", "law", "scale", "sizes", "measured"):
        assert getattr(loaded, field) == getattr(release, field)
    assert loaded.provenance == release.provenance
    ours, theirs = release.mechanism, loaded.mechanism
    assert theirs.squared_factor == ours.squared_factor
    assert theirs.rounded.is_unbiased == ours.rounded.is_unbiased
    assert theirs.rounded.is_lossy == ours.rounded.is_lossy


def test_every_kind_of_recovery_is_covered():
    kinds = {
        measure(s, counts(), PureDP(1)).mechanism.rounded.is_unbiased for s in STRATEGIES.values()
    }
    assert kinds == {True, False}


@pytest.mark.parametrize("method", ["identity", "p_identity"])
def test_selected_strategies_of_a_forest(tmp_path, method):
    data = load_dataset("monks_1")
    forest = RandomTrees(n_trees=6, max_depth=3).grow(data.domain, random_state=0)
    paths = path_matrix(forest)
    strategy = strategies.select(paths, method=method, random_state=0, time_limit=0.1)
    table = count_cells(data.codes, data.labels, data.domain.sizes, 2)
    release = measure(strategy, table, PureDP(1), workload=paths)
    loaded = saved(release, tmp_path, domain=data.domain)
    other = path_matrix(RandomTrees(n_trees=6, max_depth=2).grow(data.domain, random_state=0))
    assert np.array_equal(reconstruct(loaded, paths), reconstruct(release, paths))
    if method == "identity":
        assert np.array_equal(reconstruct(loaded, other), reconstruct(release, other))
    assert loaded.domain == data.domain
    assert loaded.method == strategy.method


def test_the_same_release_makes_the_same_file_also_when_loaded_in_between(tmp_path):
    release = measure(STRATEGIES["stack"], counts(), PureDP(1))
    for name in ("a", "b"):
        save_release(release, tmp_path / name)
    save_release(load_release(tmp_path / "a"), tmp_path / "c")
    first, second, third = ((tmp_path / name).read_bytes() for name in "abc")
    assert first == second == third


def test_the_size_that_the_page_on_releases_gives(tmp_path):
    sizes = (5,) * 20
    forest = RandomTrees(n_trees=10, max_depth=4).grow(Domain.from_sizes(sizes), random_state=0)
    release = measure(path_matrix(forest), counts(sizes), PureDP(1))
    assert len(release.answers) == 6250
    saved(release, tmp_path)
    with zipfile.ZipFile(tmp_path / "one.release") as file:
        packed = {info.filename: info.compress_size for info in file.infolist()}
    assert 32_000 < (tmp_path / "one.release").stat().st_size < 34_500
    assert 0.4 < packed["answers.npy"] / sum(packed.values()) < 0.6


def test_a_huge_domain_saves_in_kilobytes(tmp_path):
    sizes = (10,) * 40
    masks = [np.ones((100, 10), bool) for _ in sizes]
    for row in range(100):
        masks[row // 10 * 3][row] = np.arange(10) == row % 10
    leaves = RowKronecker.from_masks(masks, np.arange(100) // 10)
    measured = {
        "paths": RowScaled(np.full(100, 0.125), leaves),
        "tree and total": Stack([leaves, RowKronecker.from_masks([np.ones((1, 10))] * 40)]),
        "marginals": Marginals(sizes, [(3 * i,) for i in range(10)], [0.1] * 10),
    }
    asked = RowKronecker.from_masks([mask[::7] for mask in masks])
    for strategy in measured.values():
        release = measure(strategy, counts(sizes), PureDP(1))
        loaded = saved(release, tmp_path)
        assert (tmp_path / "one.release").stat().st_size < 8_000
        assert np.array_equal(reconstruct(loaded, asked), reconstruct(release, asked))
        assert np.array_equal(row_variances(loaded, asked), row_variances(release, asked))
        assert loaded.sensitivity == release.sensitivity


def test_the_file_holds_answers_and_public_things_only(tmp_path):
    seed = 918273645
    release = measure(Identity(6, SIZES), counts(), PureDP(1), noise="research", random_state=seed)
    save_release(release, tmp_path / "one.release", allow_nonprivate=True)
    members = contents(tmp_path / "one.release")
    assert set(members) == {"release.json", "answers.npy"}
    assert str(seed).encode() not in b"".join(members.values())
    assert set(json.loads(members["release.json"])) == {
        "format", "schema_version", "is_private", "noise", "noise_scale", "budget",
        "neighboring", "sizes", "n_classes", "strategy", "measured", "provenance", "domain",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("budget", "noise"), [(PureDP(1), "research"), (PureDP(inf), "exact"), (ZCDP(inf), "exact")]
)
def test_what_is_not_private_needs_consent_and_stays_labelled(tmp_path, budget, noise):
    release = measure(PATHS, counts(), budget, noise=noise)
    with pytest.raises(ReleaseFileError, match=r"NOT A PRIVATE RELEASE.*allow_nonprivate"):
        save_release(release, tmp_path / "one.release")
    loaded = saved(release, tmp_path, allow_nonprivate=True)
    assert not loaded.is_private
    assert loaded.noise == release.noise
    assert loaded.statement == release.statement
    assert json.loads(contents(tmp_path / "one.release")["release.json"])["is_private"] is False
    assert np.array_equal(reconstruct(loaded, PATHS), reconstruct(release, PATHS))
    with pytest.raises(ReleaseFileError, match="NOT A PRIVATE"):
        save_release(loaded, tmp_path / "two.release")


def test_budgets_are_exact(tmp_path):
    third = PureDP(1).split(3)[0]
    assert saved(measure(PATHS, counts(), third), tmp_path).budget == third
    text = json.loads(contents(tmp_path / "one.release")["release.json"])["budget"]
    assert text == {"epsilon": "1/3"}


def test_domain_and_its_absence(tmp_path):
    release = measure(PATHS, counts(), PureDP(1))
    domain = Domain.from_sizes(SIZES, n_classes=2)
    assert saved(release, tmp_path).domain is None
    assert saved(release, tmp_path, domain=domain).domain == domain
    assert saved(replace(release, domain=domain), tmp_path).domain == domain
    assert saved(replace(release, measured=None), tmp_path).measured is None
    with pytest.raises(ValueError, match="attributes of sizes"):
        saved(release, tmp_path, domain=Domain.from_sizes([6], n_classes=2))
    with pytest.raises(TypeError, match="expected a Domain"):
        saved(release, tmp_path, domain=SIZES)
    with pytest.raises(TypeError, match="expected a Release"):
        save_release(PATHS, tmp_path / "x")


def test_a_strategy_without_a_form_in_files_is_refused_by_name(tmp_path):
    class Foreign(Identity):
        pass

    odd = measure(Foreign(6), counts(), PureDP(1))
    assert not odd.is_private, "a stranger's class may answer anything for its sensitivity"
    with pytest.raises(ReleaseFileError, match="Foreign"):
        save_release(odd, tmp_path / "one.release")
    assert not list(tmp_path.iterdir())
    del Foreign


# Models -------------------------------------------------------------------------------------------


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


def saved_model(model, folder, **options):
    save_model(model, folder / "model.mrf", **options)
    return load_model(folder / "model.mrf")


@pytest.mark.parametrize(
    ("name", "design"),
    [*(("monks_1", design) for design in DESIGNS), ("car", "ensembles"), ("iris", "binary")],
)
def test_a_loaded_model_predicts_identically(tmp_path, name, design):
    model = fitted(name, **DESIGNS[design])
    loaded, X = saved_model(model, tmp_path), DATA[name].X
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(loaded.classes_, model.classes_)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.domain_ == model.domain_
    assert loaded.privacy_report_ == model.privacy_report_
    assert loaded.score(X, DATA[name].y) == model.score(X, DATA[name].y)


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
    loaded, X = saved_model(again, tmp_path), DATA["monks_1"].X  # the control
    assert np.array_equal(loaded.predict_proba(X), again.predict_proba(X))
    assert loaded.privacy_report_.measurements == again.privacy_report_.measurements
    noisier = replace(release, mechanism=mechanism.with_factor(4))
    odd = from_release(noisier, forest=model.forest_, domain=DATA["monks_1"].domain)
    with pytest.raises(ModelFileError, match="measured otherwise"):
        save_model(odd, tmp_path / "odd", allow_nonprivate=True)


@pytest.mark.parametrize("wrong", [None, "model", RandomTrees(2, 1)])
def test_only_released_forests_are_saved(tmp_path, wrong):
    with pytest.raises(TypeError, match="MatrixForestClassifier"):
        save_model(wrong, tmp_path / "m")


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(TypeError, match="not fitted"):
        save_model(MatrixForestClassifier(DATA["car"].domain), tmp_path / "m")


def test_a_loaded_model_is_a_fitted_classifier_that_refuses_to_fit(tmp_path):
    loaded = saved_model(fitted(), tmp_path)
    assert isinstance(loaded, ReleasedClassifier)
    check_is_fitted(loaded)
    assert clone(loaded) is loaded
    assert loaded.n_features_in_ == DATA["monks_1"].domain.n_attributes
    with pytest.raises(TypeError, match="MatrixForestClassifier"):
        loaded.fit(DATA["monks_1"].X, DATA["monks_1"].y)
    assert "6 trees" in repr(loaded)


def test_columns_are_matched_by_name(tmp_path):
    data = DATA["monks_1"]
    model = fitted()
    loaded = saved_model(model, tmp_path)
    other = data.X[list(reversed(list(data.X.columns)))].assign(comment="extra")
    assert np.array_equal(loaded.predict(other), model.predict(data.X))


# Claims ------------------------------------------------------------------------------------------


JSON = "model.json"
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
    changed = json.loads(members[JSON]) | {"notes": ["made in a hurry"]}
    loaded = read(members | {JSON: json.dumps(changed).encode()})
    assert loaded.privacy_report_.notes == ("made in a hurry",)
