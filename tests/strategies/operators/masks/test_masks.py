"""Masks: sets within sets, Kronecker products of columns, columns and Grams of grouped rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from mrf_matrix import Domain, RandomTrees, path_matrix
from strategies.operators import RowKronecker, RowScaled, Sparse, memory_cap
from strategies.operators.masks import mask_products
from strategies.operators.masks import packed_masks as attribute_sets
from strategies.operators.masks import packed_masks as module


@pytest.mark.parametrize("meeting", [0.0, np.inf])
def test_contained_sets_are_those_of_every_pair(monkeypatch, meeting: float) -> None:
    monkeypatch.setattr(attribute_sets, "MEETING", meeting)
    random = np.random.default_rng(0)
    inner, outer = random.random((20, 6)) < 0.3, random.random((15, 6)) < 0.6
    inner[3] = False
    expected = [[not (one & ~other).any() for other in outer] for one in inner]
    assert_array_equal(attribute_sets.contained(inner, outer).toarray(), expected)


@pytest.mark.parametrize("band", [1, 3, 2**15])
@pytest.mark.parametrize("entries", [[0, 1], [0, 1, 2], [0, 0.5, -1]], ids=str)
@pytest.mark.parametrize("columns", [1, 9])
def test_columns_are_kronecker_products(monkeypatch, band, entries, columns):
    monkeypatch.setattr(module, "ENTRIES", band)
    rng = np.random.default_rng(0)
    blocks = [rng.choice(entries, size=(size, columns)) for size in (3, 2, 4)]
    found = module.khatri_rao([sparse.csc_array(block) for block in blocks])
    expected = [np.kron(np.kron(a, b), c) for a, b, c in zip(*(x.T for x in blocks), strict=True)]
    np.testing.assert_array_equal(found.toarray(), np.transpose(expected))
    assert found.dtype == np.result_type(*blocks)
    assert found.has_sorted_indices


def test_products_without_entries(monkeypatch):
    monkeypatch.setattr(module, "ENTRIES", 2)
    empty = sparse.csc_array((3, 5), dtype=np.int64)
    assert module.khatri_rao([empty, sparse.csc_array(np.ones((2, 5)))]).nnz == 0


def grown(sizes, rng, depth):
    """Masks of a random tree's leaves, which partition the domain."""
    leaves = [[np.ones(n, dtype=bool) for n in sizes]]
    for _ in range(depth):
        leaf = leaves.pop(int(rng.integers(len(leaves))))
        i = int(rng.integers(len(sizes)))
        left = leaf[i] & (rng.random(sizes[i]) < 0.5)
        leaves += [
            [part if j == i else mask for j, mask in enumerate(leaf)]
            for part in (left, leaf[i] & ~left)
        ]
    return leaves


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    depths=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    seed=st.integers(0, 2**31),
    lost=st.booleans(),
)
def test_columns_equal_the_dense_ones(sizes, depths, seed, lost):
    rng = np.random.default_rng(seed)
    trees = [grown(sizes, rng, depth) for depth in depths]
    leaves = [leaf for tree in trees for leaf in tree]
    groups = np.repeat(rng.permutation(len(trees)), [len(tree) for tree in trees])
    order = rng.permutation(len(leaves))[: len(leaves) - lost * (len(leaves) // 2)]
    masks = [np.array([leaves[r][i] for r in order]).reshape(-1, n) for i, n in enumerate(sizes)]
    matrix = RowKronecker.from_masks(masks, groups=groups[order])
    cells = rng.integers(0, matrix.shape[1], size=7)
    found = matrix.columns(cells)
    np.testing.assert_array_equal(found.toarray(), matrix.to_dense()[:, cells])
    assert found.dtype == np.int64
    codes = np.stack(np.unravel_index(cells, matrix.sizes), axis=1)
    np.testing.assert_array_equal(matrix.columns(codes).toarray(), found.toarray())


def test_rows_taken_from_some_groups_only():
    matrix = path_matrix(RandomTrees(4, 2).grow(Domain.from_sizes([3, 2, 4]), random_state=0))
    rows = np.flatnonzero(np.isin(matrix.groups, [1, 3]))
    cells = np.arange(24)
    np.testing.assert_array_equal(
        matrix.take_rows(rows).columns(cells).toarray(), matrix.to_dense()[rows]
    )


def test_no_cells_and_many_blocks_of_them(monkeypatch):
    matrix = path_matrix(RandomTrees(3, 2).grow(Domain.from_sizes([3, 2, 4]), random_state=0))
    assert matrix.columns(np.zeros((0, 3), int)).shape == (matrix.shape[0], 0)
    monkeypatch.setattr(mask_products, "BLOCK_BITS", 1)
    cells = np.arange(24)
    np.testing.assert_array_equal(matrix.columns(cells).toarray(), matrix.to_dense())


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_weights_of_partitions_need_no_enumeration(norm, monkeypatch):
    """Eleven attributes of four codes: every cell meets a row of each tree, even or uneven."""
    forest = RandomTrees(3, 2).grow(Domain.from_sizes([4] * 11), random_state=0)
    matrix = path_matrix(forest)
    weights = np.array([9, -2, 4])[matrix.groups]
    scaled = RowScaled(weights, matrix)

    def enumerated(self):
        raise AssertionError("the domain's cells were enumerated")

    monkeypatch.setattr(RowKronecker, "to_sparse", enumerated)
    expected = 15 if norm == "l1" else 81 + 4 + 16
    assert scaled.integer_sensitivity(norm) == expected
    assert scaled.sensitivity_is_exact(norm)
    assert scaled.sensitivity(norm) == pytest.approx(expected if norm == "l1" else expected**0.5)
    uneven = RowScaled(weights + (np.arange(len(weights)) == 0), matrix)
    assert uneven.integer_sensitivity(norm) == expected + (1 if norm == "l1" else 19)


@given(
    sizes=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    seed=st.integers(0, 2**31),
    even=st.booleans(),
)
def test_sensitivity_of_weighted_partitions_is_exact(sizes, seed, even):
    rng = np.random.default_rng(seed)
    matrix = path_matrix(RandomTrees(3, 1).grow(Domain.from_sizes(sizes), random_state=seed))
    weights = rng.integers(-5, 6, size=matrix.shape[0])
    weights = weights[matrix.groups] if even else weights
    scaled = RowScaled(weights, matrix)
    dense = scaled.to_dense()
    assert scaled.integer_sensitivity("l1") == np.abs(dense).sum(axis=0).max()
    assert scaled.integer_sensitivity("l2") == (dense**2).sum(axis=0).max()


@pytest.mark.parametrize("seed", range(6))
def test_squares_of_combined_rows_are_those_of_the_dense_product(seed, monkeypatch):
    monkeypatch.setattr(mask_products, "PAIRS", 40)  # several parts
    random = np.random.default_rng(seed)
    paths = RowKronecker.from_masks([random.integers(0, 2, (9, size)) for size in (4, 3, 10)])
    dense = random.integers(-2, 3, (13, 9)) * (random.random((13, 9)) < 0.3)
    dense[3] = 0
    left = sparse.csr_array(dense)
    product = Sparse(left) @ paths
    expected = np.sum((dense @ paths.to_dense()) ** 2, axis=1)
    with memory_cap(2000):
        found = product.row_squares()
    np.testing.assert_allclose(found, expected)
    assert found[3] == 0
