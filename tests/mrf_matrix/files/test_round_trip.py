"""A release comes back from its file as it went in, and answers the same to the last bit."""

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from scipy import sparse

import strategies
from mrf_matrix import (
    ZCDP,
    Domain,
    PureDP,
    RandomTrees,
    load_dataset,
    load_release,
    measure,
    path_matrix,
    save_release,
)
from mrf_matrix.files import ReleaseFileError
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


def test_another_process_reads_the_same(tmp_path):
    release = measure(STRATEGIES["dense"], counts(), PureDP(1))
    save_release(release, tmp_path / "one.release")
    code = (
        "import sys, numpy as np, mrf_matrix as m; r = m.load_release(sys.argv[1]); "
        "print(m.reconstruct(r, np.eye(6)).tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "one.release")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == reconstruct(release, np.eye(6)).tobytes().hex()


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
