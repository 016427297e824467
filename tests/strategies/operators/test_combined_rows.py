"""Combinations of rows of masks: norms without multiplying out, and rows of their own."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from strategies.operators import (
    Dense,
    Operator,
    Product,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    error_trace,
    estimate,
    row_errors,
)
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
    assert not matrix.has_rule_for(other)
    assert not matrix.has_rule_for(combined(LEFT[:4]))


def test_a_sensitivity_beyond_64_bits_is_a_number() -> None:
    path = RowKronecker.from_masks([np.array([[True, False]])] * 40)  # cells beyond any array
    matrix = Product(Dense(np.array([[3 * 2**40]])), path)
    assert matrix.integer_sensitivity("l2") >= 9 * 2**80  # a bound above it at worst
    assert matrix.sensitivity("l2") == pytest.approx(3.0 * 2**40, rel=1e-9)


WHOLE = st.lists(st.integers(-9, 9), min_size=5, max_size=5)
NONZERO = st.lists(st.integers(1, 9) | st.integers(-9, -1), min_size=5, max_size=5)


@given(weights=WHOLE, signed=st.booleans(), norm=st.sampled_from(["l1", "l2"]))
def test_norms_of_weighted_combinations_are_the_dense_ones(weights, signed, norm) -> None:
    signs = np.where(np.arange(12) % 2, -1 if signed else 1, 1)
    matrix = RowScaled(weights, combined(LEFT * signs))
    dense = np.abs(np.array(weights)[:, None] * (LEFT * signs) @ PATHS.to_dense())
    sums = (dense if norm == "l1" else dense**2).sum(axis=0)
    assert_array_equal(matrix.integer_column_sums(norm), sums)
    assert matrix.integer_sensitivity(norm) == sums.max()
    assert_allclose(matrix.column_norms(norm), sums if norm == "l1" else np.sqrt(sums))


def test_weighted_combinations_are_summed_without_their_entries(monkeypatch) -> None:
    matrix, weights = combined(LEFT), np.arange(1, 6)
    expected = weights @ LEFT @ PATHS.to_dense()
    monkeypatch.delattr(Product, "to_sparse")
    monkeypatch.delattr(Product, "to_dense")
    monkeypatch.delattr(Operator, "to_dense")
    assert_array_equal(RowScaled(weights, matrix).integer_column_sums("l1"), expected)
    assert_allclose(RowScaled(weights / 2, matrix).column_norms("l1"), expected / 2)


@pytest.mark.parametrize("largest", [2**49, 2**53])
def test_sums_of_weighted_combinations_are_exact_beyond_doubles(largest: int) -> None:
    weights = [largest + 1, 1, 0, 0, largest - 1]
    entries = np.array(weights, dtype=object)[:, None] * combined(LEFT).to_dense().astype(int)
    sums = RowScaled(weights, combined(LEFT)).integer_column_sums("l1")
    assert sums.tolist() == entries.sum(axis=0).tolist()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=NONZERO, theirs=WHOLE, factor=st.sampled_from([-2.0, 0.5]))
def test_weighted_rows_stand_alone_as_theirs_do(monkeypatch, ours, theirs, factor) -> None:
    monkeypatch.setattr(recovery, "BEARABLE", -1.0)
    monkeypatch.setattr(recovery, "is_explicit", lambda matrix: False)
    ratio, answers = np.array(theirs) / np.array(ours), np.arange(10.0).reshape(5, 2)
    rows: list[Operator] = [combined(LEFT), PATHS.take_rows(slice(5))]
    for inner in rows:
        strategy, workload = RowScaled(ours, inner), RowScaled(theirs, inner)
        twin, wanted = strategy.to_dense(), workload.to_dense()
        assert_allclose(row_errors(workload, strategy), ratio**2)
        assert_allclose(estimate(workload, strategy, answers), ratio[:, None] * answers)
        assert_allclose(ratio[:, None] * twin, wanted)  # unbiased
        least = np.sum((wanted @ np.linalg.pinv(twin)) ** 2, axis=1)
        assert (least <= row_errors(workload, strategy) + 1e-9).all()
        twice = Scaled(factor, strategy)
        assert_allclose(row_errors(workload, twice), (ratio / factor) ** 2)
        assert_allclose(
            estimate(Scaled(factor, workload), twice, answers[:, 0]), ratio * answers[:, 0]
        )


def test_rows_that_are_not_measured_do_not_stand_alone(monkeypatch) -> None:
    monkeypatch.setattr(recovery, "BEARABLE", -1.0)
    monkeypatch.setattr(recovery, "is_explicit", lambda matrix: False)
    inner = combined(LEFT)
    assert RowScaled([1, 2, 3, 4, 5], inner).has_rule_for(inner)
    assert not RowScaled([1, 2, 0, 4, 5], inner).has_rule_for(inner)
    assert not RowScaled([1, 2, 3, 4, 5], inner).has_rule_for(combined(LEFT[::-1]))
