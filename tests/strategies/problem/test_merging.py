"""Merging equal columns loses nothing, and its hashes decide nothing by themselves."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

import strategies
from strategies import merge_columns
from strategies.operators import Dense, Gram, Identity, Kronecker, Operator, RowKronecker, Sparse
from strategies.problem import merging as module


@st.composite
def repetitive(draw: st.DrawFn) -> np.ndarray:
    q, g, n = (draw(st.integers(1, high)) for high in (6, 5, 12))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = random.choice([0.0, -0.0, 1.0, -1.0, 0.1, 1e300, 5e-324], size=(q, g))
    return columns[:, random.integers(0, g, size=n)]


def oracle(matrix: np.ndarray) -> np.ndarray:
    """Number the distinct columns by first occurrence, one by one."""
    seen: dict[tuple[float, ...], int] = {}
    return np.array([seen.setdefault(tuple(column), len(seen)) for column in matrix.T.tolist()])


@given(repetitive())
def test_groups_are_the_distinct_columns(matrix: np.ndarray) -> None:
    for form in (matrix, sparse.csr_array(matrix), Dense(matrix), sparse.csr_matrix(matrix)):
        merging = merge_columns(form)
        assert_array_equal(merging.groups, oracle(matrix))
        merged = merging.apply(form)
        assert_array_equal(merged.to_dense()[:, merging.groups], matrix)
        assert merging.n_groups == merged.shape[1]


def test_explicit_zeros_do_not_matter() -> None:
    form = sparse.csr_array(np.array([[1.0, 1.0, 2.0], [3.0, 3.0, 3.0]]))
    form.data[[0, 1]] = 0.0
    assert_array_equal(merge_columns(form).groups, [0, 0, 1])


def test_a_gram_merges_like_its_workload() -> None:
    workload = np.array([[1.0, 1.0, 0.0, 2.0], [1.0, 1.0, 3.0, 0.0]])
    merging = merge_columns(Gram(workload.T @ workload))
    assert_array_equal(merging.groups, [0, 0, 1, 2])
    merged = merging.apply(Gram(workload.T @ workload))
    first = workload[:, [0, 2, 3]]
    assert_array_equal(merged.gram_dense(), first.T @ first)


@pytest.mark.parametrize(
    "workload",
    [
        RowKronecker.from_masks([np.array([[1, 1, 0], [0, 1, 1]]), np.array([[1, 1], [1, 0]])]),
        Kronecker([Dense(np.ones((1, 3))), Identity(4)]),
        Sparse(sparse.eye_array(5)),
    ],
)
def test_structured_workloads(workload: Operator) -> None:
    merging = merge_columns(workload)
    assert_array_equal(merging.groups, oracle(workload.to_dense()))
    assert merging.grouping.sizes == workload.sizes


@pytest.mark.parametrize(("q", "distinct"), [(40, True), (4, False)])
def test_distinct_columns_of_paths_are_told_without_writing_them_out(
    q: int, distinct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    masks = [(rng.random((q, size)) < 0.6).astype(int) for size in (3, 4, 5)]
    paths = RowKronecker.from_masks(masks)
    expected = oracle(paths.to_dense())
    assert module.sums_differ(paths) is distinct
    assert bool(expected.max() == 59) is distinct
    if distinct:
        monkeypatch.setattr(RowKronecker, "to_sparse", None)
    assert_array_equal(merge_columns(paths).groups, expected)


@given(repetitive(), st.integers(0, 2**32), st.sampled_from(["l1", "l2"]))
def test_lifted_strategies_keep_norm_and_loss(matrix: np.ndarray, seed: int, norm: str) -> None:
    matrix = np.clip(matrix, -2, 2)
    if not np.abs(matrix).max() > 1e-3:
        return
    merging = merge_columns(matrix)
    g = merging.n_groups
    small = np.random.default_rng(seed).normal(size=(g + 2, g))
    lifted = strategies.evaluate(matrix, merging.invert(small), norm)
    merged = strategies.evaluate(merging.apply(matrix), small, norm)
    assert lifted.loss == pytest.approx(merged.loss, rel=1e-9)
    assert lifted.sensitivity == pytest.approx(merged.sensitivity)
    explicit = strategies.evaluate(matrix, merging.invert(small).to_dense(), norm)
    assert explicit.loss == pytest.approx(merged.loss, rel=1e-7)


def test_averaging_never_costs() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        workload = random.normal(size=(4, 3))[:, random.integers(0, 3, size=8)]
        merging = merge_columns(workload)
        matrix = random.normal(size=(9, 8))
        for norm in ("l1", "l2"):
            before = strategies.evaluate(workload, matrix, norm)
            after = strategies.evaluate(workload, merging.invert(merging.average(matrix)), norm)
            assert after.sensitivity <= before.sensitivity * (1 + 1e-12)
            assert after.loss <= before.loss * (1 + 1e-9)


def test_averages_of_sparse_and_lifted_strategies() -> None:
    merging = merge_columns([[1, 1, 2], [0, 0, 1]])
    matrix = np.array([[1.0, 3.0, 5.0]])
    assert_array_equal(merging.average(matrix).to_dense(), [[2.0, 5.0]])
    assert_array_equal(merging.average(sparse.csr_array(matrix)).to_dense(), [[2.0, 5.0]])
    inner = Dense(np.eye(2))
    assert merging.average(merging.invert(inner)) is inner
    assert merging.average(Identity(3)).shape == (2, 2)
    trivial = merge_columns(np.eye(3))
    assert trivial.is_trivial
    assert trivial.average(inner @ Dense(np.ones((2, 3)))).shape == (2, 3)
    assert isinstance(trivial.invert(Identity(3)), Identity)


def test_a_collision_of_hashes_only_costs_the_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: with a hash that says all columns are equal, nothing is merged."""
    monkeypatch.setattr(module, "mixed_words", lambda word: np.zeros_like(word))
    for form in (np.eye(3), sparse.csr_array(np.eye(3))):
        assert_array_equal(merge_columns(form).groups, [0, 1, 2])


def test_bands_of_a_tall_matrix() -> None:
    matrix = np.random.default_rng(0).normal(size=(3000, 2))[:, [0, 1, 0]]
    whole = module.dense_keys(matrix)
    assert_array_equal(merge_columns(matrix).groups, [0, 1, 0])
    assert_array_equal(whole[0], whole[2])
    matrix[2999, 2] = np.nextafter(matrix[2999, 2], 1)
    assert_array_equal(merge_columns(matrix).groups, [0, 1, 2])


@pytest.mark.parametrize("value", [1.0, -0.5])
def test_entries_of_one_value_are_hashed_by_row(value: float) -> None:
    """As the general hash does, entry by entry."""
    mask = np.random.default_rng(0).random((6, 40)) < 0.3
    form = sparse.csc_array(value * mask)
    entries = module.hash_entries(form.indices, form.data)
    sums = [entries[a:b].sum(axis=0, dtype=np.uint64) for a, b in pairwise(form.indptr)]
    assert_array_equal(module.sparse_keys(form), sums)
