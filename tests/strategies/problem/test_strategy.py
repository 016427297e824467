"""A strategy as a value, in one's hands (A, AᵀA, A⁺, W A⁺) and in files: nothing unchecked."""

import json
import pickle
import zipfile
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import io, sparse

import strategies
import strategies.operators as ops
from mrf_matrix import ZCDP, RandomTrees, load_dataset, measure, path_matrix, reconstruct
from mrf_matrix.mechanisms import count_cells
from strategies import Candidate, Strategy, evaluate, select
from strategies.operator_files import OperatorFileError
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    Marginals,
    MemoryCapError,
    PrefixSums,
    RowSpaceError,
    Stack,
    memory_cap,
)


def test_parts() -> None:
    strategy = evaluate(np.tri(4), 2 * np.eye(4), "l2")
    assert isinstance(strategy.matrix, Dense)
    assert (strategy.norm, strategy.sensitivity, strategy.method) == ("l2", 2.0, "given")
    assert strategy.loss == pytest.approx(10.0)
    assert strategy.candidates == ()
    assert not strategy.truncated
    assert "candidates" not in repr(strategy)
    assert strategy.sensitivity_is_exact
    assert strategy.certified_ratio == strategy.loss / strategy.lower_bound >= 1.0
    without = replace(strategy, certificate=lambda: 0.0)
    assert without.certified_ratio == float("inf")
    assert str(without).endswith("no lower bound is known, so it may be far from the optimum")
    assert f"at most {strategy.certified_ratio:.4g} times" in str(strategy)
    with pytest.raises(FrozenInstanceError):
        strategy.loss = 0.0
    assert "loss" in repr(strategy)


def test_row_errors_are_shares_of_the_loss() -> None:
    workload = np.random.default_rng(0).normal(size=(30, 4))
    strategy = evaluate(workload, np.tri(4))
    errors = strategy.row_errors(workload)
    assert errors.shape == (30,)
    assert errors.sum() == pytest.approx(strategy.loss)
    for r in (0, 17):
        expected = strategy.sensitivity**2 * np.sum((workload[r] @ np.linalg.inv(np.tri(4))) ** 2)
        assert errors[r] == pytest.approx(expected)
    other = strategy.row_errors(sparse.csr_array(np.eye(4)))
    assert other == pytest.approx([16.0, 32.0, 32.0, 32.0])
    with pytest.raises(ValueError, match=r"A \(strategy matrix\) has 4 columns"):
        strategy.row_errors(np.eye(3))


def test_rows_it_cannot_answer_have_infinite_errors() -> None:
    strategy = evaluate([[1.0, 1.0]], [[2.0, 2.0]])
    assert strategy.row_errors([[1.0, 0.0], [3.0, 3.0]]) == pytest.approx([np.inf, 9.0])


def test_the_certificate_waits_until_asked() -> None:
    calls = []

    def certificate() -> float:
        calls.append(1)
        return 3.0

    strategy = replace(evaluate(np.tri(4), np.eye(4)), certificate=certificate)
    assert calls == []
    assert strategy.lower_bound == 3.0
    assert strategy.lower_bound == 3.0
    assert calls == [1]


def test_a_tight_certificate_is_not_above_the_loss_by_rounding() -> None:
    base = evaluate(np.eye(3), np.eye(3))
    rounding = replace(base, certificate=lambda: base.loss * (1 + 1e-13))
    assert rounding.lower_bound == base.loss
    wrong = replace(base, certificate=lambda: base.loss * 1.01)
    assert wrong.lower_bound > wrong.loss  # a contradiction is shown, never hidden


def test_pickling_keeps_everything() -> None:
    strategy = select(np.tri(6), random_state=0, time_limit=0.2)
    copy = pickle.loads(pickle.dumps(strategy))
    assert isinstance(copy, Strategy)
    assert copy.loss == strategy.loss
    assert copy.lower_bound == strategy.lower_bound
    assert np.array_equal(copy.matrix.to_dense(), strategy.matrix.to_dense())


def test_alternatives_are_the_other_matrices() -> None:
    own, other = Dense(np.eye(2)), Dense(2 * np.eye(2))
    found = replace(
        evaluate(np.eye(2), own),
        matrix=own,
        candidates=(
            Candidate("best", 2.0, 0.0, matrix=own),
            Candidate("second", 3.0, 0.0, matrix=other),
            Candidate("failed", float("inf"), 0.0),
        ),
    ).alternatives
    assert [(one.method, one.loss, one.sensitivity) for one in found] == [("second", 3.0, 2.0)]
    assert found[0].matrix is other


CASES = {
    "dense": (np.tri(4), np.eye(4) + 0.5, "l1"),
    "kronecker": (
        Kronecker([Dense(np.tri(3)), Identity(2)]),
        Kronecker([Identity(3), Identity(2)]),
        "l2",
    ),
    "identity": (np.tri(5), Identity(5), "l1"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_strategy_comes_back_from_its_file(case, tmp_path):
    workload, matrix, norm = CASES[case]
    made = strategies.evaluate(workload, matrix, norm=norm)
    made.save(tmp_path / "a.strategy")
    read = Strategy.load(tmp_path / "a.strategy")
    assert np.array_equal(read.matrix.to_dense(), made.matrix.to_dense())
    for name in ("norm", "sensitivity", "loss", "lower_bound", "method", "objective"):
        assert getattr(read, name) == getattr(made, name)
    assert np.allclose(read.row_errors(workload), made.row_errors(workload), rtol=1e-12)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.strategy"], "no draft is left"


def changed(path, change):
    """Write the file again with other plain values."""
    with np.load(path) as held:
        arrays = {name: held[name] for name in held.files}
    values = change(json.loads(arrays.pop("values.json").tobytes()))
    text = np.frombuffer(json.dumps(values).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **{"values.json": text}, **arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v | {"loss": -1.0},
        lambda v: v | {"loss": "small"},
        lambda v: v | {"norm": "l7"},
        lambda v: v | {"method": "red\x1b[31m"},
        lambda v: v | {"more": 1},
        lambda v: {k: v[k] for k in v if k != "operator"},
        lambda v: v | {"operator": {"kind": "unknown"}},
        lambda v: [],
    ],
)
def test_a_changed_file_is_refused(change, tmp_path):
    path = tmp_path / "a.strategy"
    strategies.evaluate(np.tri(3), np.eye(3)).save(path)
    changed(path, change)
    with pytest.raises(OperatorFileError):
        Strategy.load(path)


def test_other_files_and_large_ones_are_refused(tmp_path):
    path = tmp_path / "b.strategy"
    path.write_bytes(b"not a zip")
    with pytest.raises(OperatorFileError):
        Strategy.load(path)
    with pytest.raises(FileNotFoundError):
        Strategy.load(tmp_path / "none")
    strategies.evaluate(np.eye(200), np.eye(200) + 0.5).save(path)
    with strategies.memory_cap(1000), pytest.raises(strategies.MemoryCapError):
        Strategy.load(path)
    with zipfile.ZipFile(path) as archive:
        assert not any(name.endswith(".pkl") for name in archive.namelist())


def test_the_sensitivity_is_that_of_the_matrix(tmp_path):
    path = tmp_path / "c.strategy"
    strategies.evaluate(np.tri(3), 5 * np.eye(3)).save(path)
    assert Strategy.load(path).sensitivity == 5


# Strategies by hand -------------------------------------------------------------------------------


RANDOM = np.random.default_rng(0)
WORKLOADS = {
    "prefix sums": np.tri(6),
    "random rows": RANDOM.normal(size=(9, 5)),
    "few rows": RANDOM.normal(size=(2, 5)),
    "marginals": Marginals((2, 3), [(0,), (1,)], [1, 2]),
    "tables": Stack(
        [Kronecker([PrefixSums(3), Identity(4)]), Kronecker([Identity(3), PrefixSums(4)])]
    ),
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_matrices_are_those_of_numpy(name, norm):
    W = WORKLOADS[name]
    found = strategies.select(W, norm, time_limit=0.2, random_state=0)
    A, entries = np.asarray(found.matrix), np.asarray(W)
    assert_allclose(np.asarray(found.gram), A.T @ A, atol=1e-9)
    back = np.asarray(found.reconstruction(W))
    assert_allclose(back @ A, entries, atol=1e-7)
    assert_allclose(entries @ np.asarray(found.pinv), back, atol=1e-7)
    assert found.error == pytest.approx((back**2).sum(), rel=1e-7)
    assert found.loss == pytest.approx(found.sensitivity**2 * found.error)
    assert_allclose(found.row_errors(W), found.sensitivity**2 * (back**2).sum(axis=1), rtol=1e-6)
    assert f"{found.error:.6g}" in str(found)


def test_the_pseudo_inverse_is_that_of_least_norm():
    found = strategies.evaluate(WORKLOADS["few rows"])
    assert_allclose(np.asarray(found.pinv), np.linalg.pinv(WORKLOADS["few rows"]), atol=1e-12)


def test_a_matrix_alone_is_its_own_workload():
    one, both = strategies.evaluate(np.tri(5)), strategies.evaluate(np.tri(5), np.tri(5))
    assert (one.loss, one.error) == (both.loss, both.error)


def test_what_is_not_determined_or_too_large_is_refused():
    found = strategies.evaluate(np.eye(3)[:2])
    with pytest.raises(RowSpaceError):
        found.reconstruction(np.ones((1, 3)))
    large = strategies.evaluate(Identity(3000))
    with memory_cap(10**6):
        for refused in (
            lambda: large.pinv,
            lambda: large.gram,
            lambda: large.reconstruction(Identity(3000)),
        ):
            with pytest.raises(MemoryCapError):
                refused()


def test_a_release_is_taken_back_step_by_step():
    """``W A⁺ y`` by hand is what `reconstruct` gives, and ``A D`` is what is measured."""
    car = load_dataset("car")
    T = path_matrix(RandomTrees(n_trees=4, max_depth=2).grow(car.domain, random_state=0))
    A = strategies.select(T, "l2", random_state=0)
    labels = car.domain.encode_target(car.y)
    counts = count_cells(car.codes, labels, car.domain.sizes, car.domain.n_classes)
    release = measure(A, counts, ZCDP(1), noise="research", random_state=0)
    y = release.values
    assert_allclose(np.asarray(A.reconstruction(T)) @ y, reconstruct(release, T), atol=1e-6)
    assert_allclose(np.asarray(T @ A.pinv), np.asarray(A.reconstruction(T)), atol=1e-9)


# Files of matrices --------------------------------------------------------------------------------


REAL = np.random.default_rng(0).normal(size=(3, 4)) * np.array([1e-9, 1.0, 1e9, 0.0])
PATHS = ops.RowKronecker.from_masks([np.array([[1, 0], [0, 1]]), np.array([[1, 1, 0], [0, 1, 1]])])


@pytest.mark.parametrize("ending", ["npy", "npz", "mtx", "csv", "operator", ""])
@pytest.mark.parametrize("matrix", [REAL, sparse.csr_array(REAL), PATHS, ops.Identity(3)])
def test_entries_come_back_exactly(tmp_path, ending, matrix):
    path = tmp_path / f"matrix.{ending}"
    strategies.save(matrix, path)
    loaded = strategies.load(path)
    assert_array_equal(loaded.toarray(), ops.as_operator(matrix).toarray())
    assert ending not in ("operator", "") or type(loaded) is type(ops.as_operator(matrix))


@pytest.mark.parametrize("ending", ["strategy", "npz", "csv"])
def test_a_strategy_is_kept_whole_in_our_form_alone(tmp_path, ending):
    found = strategies.select(np.tri(4), random_state=0, time_limit=0.05)
    strategies.save(found, tmp_path / f"prefix.{ending}")
    loaded = strategies.load(tmp_path / f"prefix.{ending}")
    if ending == "strategy":
        assert (loaded.loss, loaded.lower_bound) == (found.loss, found.lower_bound)
        loaded = loaded.matrix
    assert_array_equal(loaded.toarray(), found.matrix.toarray())


def test_files_of_other_tools_are_read(tmp_path):
    np.savez(tmp_path / "one.npz", REAL)
    sparse.save_npz(tmp_path / "two.npz", sparse.coo_matrix(REAL))
    io.mmwrite(tmp_path / "three.mtx", REAL)
    for name in ("one.npz", "two.npz", "three.mtx"):
        assert_array_equal(strategies.load(tmp_path / name).toarray(), REAL)


def test_what_is_no_matrix_is_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.savez(tmp_path / "two.npz", REAL, REAL)
    (tmp_path / "text.csv").write_text("1,two\n", "utf-8")
    (tmp_path / "nan.csv").write_text("1,nan\n", "utf-8")
    (tmp_path / "half.mtx").write_text(
        "%%MatrixMarket matrix array real general\n2 2\n1\n", "utf-8"
    )
    (tmp_path / "any.operator").write_bytes(b"nothing")
    for path in tmp_path.iterdir():
        with pytest.raises(OperatorFileError):
            strategies.load(path)
    with pytest.raises(FileNotFoundError, match="no file there"):
        strategies.load(tmp_path / "none.csv")


def test_sizes_are_checked_before_entries_are_read(tmp_path):
    text = "%%MatrixMarket matrix array real general\n100000 100000\n"
    (tmp_path / "huge.mtx").write_text(text, "utf-8")
    np.savez_compressed(tmp_path / "zeros.npz", np.zeros((1000, 1000)))
    with memory_cap(10**6):
        for name in ("huge.mtx", "zeros.npz"):
            with pytest.raises(MemoryCapError):
                strategies.load(tmp_path / name)
        with pytest.raises(MemoryCapError):
            strategies.save(ops.Identity(10**4), tmp_path / "large.csv")
