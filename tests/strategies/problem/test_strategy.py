"""A strategy as a value and in files: errors by row, certificates, nothing believed unchecked."""

import json
import pickle
import zipfile
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from scipy import sparse

import strategies
from strategies import Candidate, Strategy, evaluate, select
from strategies.operator_files import OperatorFileError
from strategies.operators import Dense, Identity, Kronecker


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
