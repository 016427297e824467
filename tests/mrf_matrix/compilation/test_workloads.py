"""Q, Q Tᵀ and Q Tᵀ T against their dense products."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.compilation import (
    leaf_incidence,
    path_matrix,
    path_matrix_from_codes,
    prediction_workload,
    query_codes,
    query_matrix,
)
from mrf_matrix.domain import Domain
from mrf_matrix.forests import RandomTrees
from strategies.operators import MemoryCapError, memory_cap


def records(draw: st.DrawFn, sizes: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    return rng.integers(0, sizes, size=(draw(st.integers(0, 12)), len(sizes)))


@given(data=st.data())
def test_dense_products(data, any_forest, brute_force):
    forest = data.draw(any_forest)
    sizes = forest.domain.sizes
    codes = records(data.draw, sizes)
    Q, T, dense = query_matrix(codes, forest.domain), path_matrix(forest), brute_force(forest)
    selection = np.zeros((len(codes), dense.shape[1]))
    selection[np.arange(len(codes)), np.ravel_multi_index(tuple(codes.T), sizes)] = 1
    assert np.array_equal(Q.to_dense(), selection)
    assert np.array_equal(query_codes(Q), codes)
    for paths in (T, forest):
        incidence = leaf_incidence(paths, Q)
        assert incidence.dtype == np.int64
        assert np.array_equal(incidence.toarray(), selection @ dense.T)
        W = prediction_workload(paths, Q)
        assert np.array_equal(W.to_dense(), selection @ dense.T @ dense)
        assert np.array_equal(W.to_sparse().toarray(), selection @ dense.T @ dense)
        x = np.random.default_rng(0).standard_normal(dense.shape[1])
        assert np.allclose(W @ x, selection @ dense.T @ dense @ x)


def test_each_distinct_path_that_is_reached_is_kept_once():
    domain = Domain.from_sizes([3, 2])
    forest = RandomTrees(50, 1).grow(domain, random_state=0)  # five distinct paths
    Q = query_matrix(np.array([[0, 0], [0, 1], [0, 0]]), domain)
    W = prediction_workload(path_matrix(forest), Q)
    assert W.right.shape[0] == 3  # x0 = 0, x1 = 0, x1 = 1
    assert W.left.to_sparse().sum(axis=1).tolist() == [50, 50, 50]


def test_a_large_domain_is_never_enumerated():
    domain = Domain.from_sizes([10] * 30)
    forest = RandomTrees(16, 3).grow(domain, random_state=0)
    codes = np.random.default_rng(0).integers(0, 10, size=(25, 30))
    Q = query_matrix(codes, domain)
    assert Q.shape == (25, 10**30)
    T = path_matrix(forest)
    assert (leaf_incidence(T, Q) != leaf_incidence(forest, Q)).nnz == 0
    W = prediction_workload(T, Q)
    assert W.shape == (25, 10**30)
    mine = W.columns(codes).toarray()  # trees in which two test records share a leaf
    leaves = forest.apply(codes)
    assert np.array_equal(mine, (leaves[:, np.newaxis] == leaves).sum(axis=2))


def test_no_queries():
    T = path_matrix_from_codes(np.array([[0], [1]]), [2])
    W = prediction_workload(T, query_matrix(np.zeros((0, 1), dtype=int), [2]))
    assert W.to_dense().shape == (0, 2)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.array([0, 1]), "wrong shape"),
        (np.array([[0]]), "wrong shape"),
        (np.array([[0.0, 1.0]]), "float64"),
        (np.array([[0, -1]]), "leave the domain: expected 0 to 1"),
        (np.array([[2, 0]]), "leave the domain"),
    ],
)
def test_wrong_codes(codes, message):
    with pytest.raises(ValueError, match=message):
        query_matrix(codes, [2, 2])


def test_queries_of_another_domain():
    T = path_matrix_from_codes(np.array([[0, -1], [1, -1]]), [2, 2])
    Q = query_matrix(np.array([[0, 2]]), [2, 3])
    for build in (leaf_incidence, prediction_workload):
        with pytest.raises(ValueError, match=r"sizes \(2, 3\) and paths over \(2, 2\)"):
            build(T, Q)


def test_rows_that_are_no_records():
    T = path_matrix_from_codes(np.array([[0, -1], [1, -1]]), [2, 2])
    with pytest.raises(ValueError, match="row 0 of queries does not hold exactly one cell"):
        query_codes(T)
    with pytest.raises(TypeError, match="ndarray: expected query_matrix"):
        query_codes(np.eye(2))


def test_queries_above_the_cap():
    with memory_cap(100), pytest.raises(MemoryCapError, match="unit vectors of the queries"):
        query_matrix(np.zeros((26, 2), dtype=int), [2, 2])
