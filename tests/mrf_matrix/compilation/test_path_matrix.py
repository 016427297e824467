"""T against the dense matrix that walking every cell gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.compilation import path_matrix, path_matrix_from_codes
from mrf_matrix.domain import Domain
from mrf_matrix.forests import RandomTrees
from strategies.operators import MemoryCapError, memory_cap


@given(data=st.data())
def test_every_product_agrees_with_the_dense_matrix(data, any_forest, brute_force):
    forest = data.draw(any_forest)
    dense = brute_force(forest)
    T = path_matrix(forest)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(dense.shape[1]), rng.standard_normal((len(dense), 2))
    assert np.array_equal(T.to_dense(), dense)
    assert np.array_equal(T.to_sparse().toarray(), dense)
    assert np.allclose(T @ x, dense @ x)
    assert np.allclose(T.rmatmat(y), dense.T @ y)
    assert np.array_equal(T.row_gram(), dense @ dense.T)
    assert np.array_equal(T.gram_dense(), dense.T @ dense)
    assert np.array_equal(T.row_sums(), dense.sum(axis=1))
    assert np.array_equal(T.column_norms("l1"), dense.sum(axis=0))


@given(data=st.data())
def test_duplicate_rows(data, any_forest, brute_force):
    forest = data.draw(any_forest)
    dense = brute_force(forest)
    distinct, inverse, counts = path_matrix(forest).unique_rows()
    assert np.array_equal(distinct.to_dense()[inverse], dense)
    assert len(np.unique(dense, axis=0)) == distinct.shape[0] == len(counts)
    assert np.array_equal(np.bincount(inverse), counts)


@given(data=st.data())
def test_columns_are_what_routing_reaches(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    cells = all_cells(forest.domain.sizes)
    columns = path_matrix(forest).columns(cells).toarray()
    assert np.array_equal(np.sort(forest.apply(cells), axis=1).T, by_tree(columns))


def by_tree(columns: np.ndarray) -> np.ndarray:
    """Return the rows of the ones of each column, in order: one a tree."""
    return np.stack([np.flatnonzero(column) for column in columns.T], axis=1)


@given(data=st.data())
def test_the_sensitivity_is_the_number_of_trees(data, any_forest):
    forest = data.draw(any_forest)
    T = path_matrix(forest)
    assert T.sensitivity("l1") == forest.n_trees
    assert T.sensitivity("l2") == pytest.approx(np.sqrt(forest.n_trees))
    assert T.is_partition
    assert np.array_equal(T.groups, forest.leaf_tree)


@given(st.integers(0, 3), st.integers(0, 2**31))
def test_paths_as_codes_give_the_same_matrix(depth, seed):
    domain = Domain.from_sizes([3, 2, 4])
    forest = RandomTrees(4, depth).grow(domain, random_state=seed)
    T = path_matrix(forest)
    for sizes in (domain, domain.sizes, list(domain.sizes)):
        from_codes = path_matrix_from_codes(forest.paths(), sizes, forest.leaf_tree)
        assert np.array_equal(from_codes.bits, T.bits)
        assert np.array_equal(from_codes.groups, T.groups)
    assert path_matrix_from_codes(forest.paths(), domain).groups is None


def test_a_domain_of_any_size_is_no_burden():
    domain = Domain.from_sizes([10] * 30)  # 10^30 cells
    forest = RandomTrees(16, 3).grow(domain, random_state=0)
    T = path_matrix(forest)
    assert T.shape == (16 * 1000, 10**30)
    assert T.bits.nbytes <= 16_000 * (300 / 8 + 1)
    assert T.sensitivity("l1") == 16
    assert set(T.row_sums()) == {10**27}
    codes = np.random.default_rng(0).integers(0, 10, size=(20, 30))
    assert np.array_equal(by_tree(T.columns(codes).toarray()), forest.apply(codes).T)
    # two leaves that fix 3 attributes each and share s of them meet in 10**(24 + s) cells or none
    gram = T.take_rows(slice(0, 2000)).row_gram()
    shared = np.log10(gram[gram > 0]) - 24
    assert np.allclose(shared, np.rint(shared))
    with pytest.raises(MemoryCapError):
        T.to_dense()


def test_fine_codes_and_thresholds():
    domain = Domain.from_sizes([2000, 3000])
    forest = RandomTrees(4, 6, "binary").grow(domain, random_state=0)
    T = path_matrix(forest)
    assert T.row_sums().sum() == 4 * domain.size


def test_masks_above_the_cap_are_refused_before_they_are_made():
    forest = RandomTrees(16, 3).grow(Domain.from_sizes([10] * 5), random_state=0)
    with memory_cap(16_000 * 50 - 1), pytest.raises(MemoryCapError, match="masks of the paths"):
        path_matrix(forest)
    paths = forest.paths()
    with memory_cap(16_000 * 50 - 1), pytest.raises(MemoryCapError, match="masks of the paths"):
        path_matrix_from_codes(paths, [10] * 5)


@pytest.mark.parametrize(
    ("paths", "sizes", "tree_id", "message"),
    [
        ([[0, 1]], [2, 2, 2], None, "paths has the wrong shape"),
        ([[0.5, 1.0]], [2, 2], None, "float64"),
        ([[0, 2]], [2, 2], None, "attribute 1 leave the domain: expected -1 to 1"),
        ([[-2, 0]], [2, 2], None, "attribute 0 leave the domain"),
        ([[0, 0]], [2, 0], None, r"sizes=\(2, 0\): expected positive"),
        (np.zeros((1, 0), dtype=int), [], None, r"sizes=\(\): expected positive"),
        ([[0, -1], [-1, 0]], [2, 2], [0, 0], "share a cell"),
        ([[0, -1], [1, -1]], [2, 2], [0], "groups"),
    ],
)
def test_wrong_paths(paths, sizes, tree_id, message):
    with pytest.raises(ValueError, match=message):
        path_matrix_from_codes(np.array(paths), sizes, tree_id)


def test_a_forest_is_expected():
    with pytest.raises(TypeError, match="ndarray: expected a Forest"):
        path_matrix(np.eye(2))
