"""Strategies in files: the same to the last bit, and nothing from a stranger is believed."""

import json
import zipfile

import numpy as np
import pytest

import strategies
from strategies import Strategy
from strategies.operator_files import OperatorFileError
from strategies.operators import Dense, Identity, Kronecker

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
