"""Combinations of rows of masks: norms without multiplying out, and rows of their own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from strategies.operators import Product, RowKronecker, Sparse, error_trace, estimate
from strategies.operators.base import recovery

RANDOM = np.random.default_rng(0)
PATHS = RowKronecker.from_masks([RANDOM.random((12, size)) < 0.6 for size in (3, 4, 2)])
LEFT = RANDOM.integers(0, 3, (5, 12))


def combined(left: np.ndarray) -> Product:
    return Product(Sparse(sparse.csr_array(left)), PATHS)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("sign", [1, -1])
def test_norms_are_the_dense_ones(norm: str, sign: int) -> None:
    matrix = combined(LEFT * np.where(np.arange(12) % 2, sign, 1))
    dense = np.abs(matrix.to_dense())
    sums = dense.sum(axis=0) if norm == "l1" else (dense**2).sum(axis=0)
    assert_array_equal(matrix.integer_column_sums(norm), sums)
    assert_allclose(matrix.column_norms(norm), sums if norm == "l1" else np.sqrt(sums))


def test_rows_too_dear_to_be_solved_with_answer_for_themselves(monkeypatch) -> None:
    matrix, answers = combined(LEFT), RANDOM.normal(size=(5, 2))
    monkeypatch.setattr(recovery, "BEARABLE", -1.0)
    monkeypatch.setattr(recovery, "is_explicit", lambda matrix: False)
    for workload in (matrix, combined(LEFT)):
        assert error_trace(workload, matrix) == 5.0
        assert_array_equal(estimate(workload, matrix, answers), answers)
    other = combined(LEFT[::-1])
    assert not matrix.check_rows(other)
    assert not matrix.check_rows(combined(LEFT[:4]))
