"""Matrices in files of our own and of other tools."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import io, sparse

import strategies
import strategies.operators as ops
from strategies.operator_files import OperatorFileError
from strategies.operators import MemoryCapError, memory_cap

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
