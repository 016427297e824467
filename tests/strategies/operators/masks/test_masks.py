"""Masks: sets, columns and Grams of grouped rows, and the largest column norm of paths."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from mrf_matrix import Domain, RandomTrees, path_matrix
from strategies.operators import Dense, Product, RowKronecker, RowScaled, Sparse, memory_cap
from strategies.operators.masks import heaviest_cell as search
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
    assert_array_equal(attribute_sets.containment(inner, outer).toarray(), expected)


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


# The heaviest cell --------------------------------------------------------------------------------


def random_combination(seed, whole=True):
    """Combine random paths over a random domain; some test nothing, some nothing but one code."""
    rng = np.random.default_rng(seed)
    sizes, count = rng.integers(1, 5, rng.integers(1, 5)), int(rng.integers(1, 10))
    masks = [rng.random((count, size)) < 0.6 for size in sizes]
    masks = [mask | (rng.random(count) < 0.5)[:, None] for mask in masks]
    left = rng.integers(-50, 50, (int(rng.integers(1, 6)), count))
    left[0, 0] = 1
    return Product(Dense(left if whole else left / 7), RowKronecker.from_masks(masks))


def squares_by_cell(matrix):
    """Return the exact squared norm of every column, by their definition."""
    paths = matrix.right.to_dense().astype(np.int64)
    return ((matrix.left.array @ paths) ** 2).sum(axis=0)


@given(st.integers(0, 10**6))
def test_the_sensitivity_is_that_of_enumeration(seed):
    matrix = random_combination(seed)
    assert matrix.sensitivity_is_exact("l2")
    assert matrix.integer_sensitivity("l2") == squares_by_cell(matrix).max()


@example(226_714)  # all columns cancel: sums of the Gram end below zero
@given(st.integers(0, 10**6))
def test_real_combinations_have_real_sensitivities(seed):
    matrix = random_combination(seed, whole=False)
    expected = np.sqrt(squares_by_cell(matrix).max())
    assert matrix.sensitivity("l2") == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_a_search_in_small_blocks_finds_the_same(monkeypatch, seed):
    monkeypatch.setattr(search, "BLOCK", 3)
    matrix = random_combination(seed)
    assert matrix.integer_sensitivity("l2") == squares_by_cell(matrix).max()


@pytest.mark.parametrize("limit", ["MOST_SUMS", "MOST_ENTRIES", "MOST_TIES"])
@pytest.mark.parametrize("seed", range(20))
def test_a_search_that_ends_early_proves_a_bound(monkeypatch, limit, seed):
    monkeypatch.setattr(search, limit, 0)
    monkeypatch.setattr(search, "BLOCK", 2)
    matrix = random_combination(seed)
    found = matrix.integer_sensitivity("l2")
    assert isinstance(found, int)
    assert found >= squares_by_cell(matrix).max()
    assert matrix.sensitivity("l2") ** 2 == pytest.approx(found)
    if found > squares_by_cell(matrix).max():
        assert not matrix.sensitivity_is_exact("l2")


@pytest.mark.parametrize("seed", range(20))
def test_disjoint_paths_are_bounded_together(monkeypatch, seed):
    monkeypatch.setattr(search, "MOST_ENTRIES", 0)
    rng = np.random.default_rng(seed)
    trees = [np.kron(np.eye(3), np.ones((1, 1))), np.eye(4)]
    masks = [
        np.concatenate([trees[0], np.ones((4, 3))]),
        np.concatenate([np.ones((3, 4)), trees[1]]),
    ]
    groups = np.repeat([0, 1], [3, 4])
    left = rng.integers(-9, 9, (3, 7))
    apart = Product(Dense(left), RowKronecker.from_masks(masks))
    together = Product(Dense(left), RowKronecker.from_masks(masks, groups))
    most = squares_by_cell(apart).max()
    assert most <= together.integer_sensitivity("l2") <= apart.integer_sensitivity("l2")


def test_many_equal_cells_are_one_maximum():
    masks = [np.eye(6) for _ in range(2)]
    matrix = Product(Dense(1000 * np.eye(6, dtype=np.int64)), RowKronecker.from_masks(masks))
    assert matrix.integer_sensitivity("l2") == 10**6


def test_tables_of_one_union_take_the_room_of_one():
    """Of 10 attributes pairs are tested: 61,155 entries of tables, of which 20,655 are held."""
    pairs = list(combinations(range(10), 2))
    masks = [np.ones((len(pairs), 3), dtype=bool) for _ in range(10)]
    rng = np.random.default_rng(0)
    for row, pair in enumerate(pairs):
        for i in pair:
            masks[i][row] = np.arange(3) == rng.integers(3)
    matrix = Product(Dense(rng.integers(-9, 9, (5, 45))), RowKronecker.from_masks(masks))
    for room, is_exact in [(300_000, True), (150_000, False)]:
        with memory_cap(room):
            assert search.heaviest_cell(matrix.left.array, masks, None).is_exact == is_exact
    assert matrix.integer_sensitivity("l2") == squares_by_cell(matrix).max()


def test_large_integers_stay_exact():
    left = np.array([[2**30 + 1, 2**30 - 1], [1, 3]])
    masks = [np.array([[1, 1, 0], [0, 1, 1]])]
    matrix = Product(Dense(left), RowKronecker.from_masks(masks))
    assert matrix.integer_sensitivity("l2") == 2**62 + 16


def test_a_domain_beyond_enumeration():
    """Every path tests one of sixty attributes: the heaviest cell takes the larger of each."""
    d = 60
    masks = [np.ones((2 * d, 2), dtype=bool) for _ in range(d)]
    for i in range(d):
        masks[i][2 * i, 1] = masks[i][2 * i + 1, 0] = False
    weights = np.arange(1, 2 * d + 1)
    paths = RowKronecker.from_masks(masks, np.arange(2 * d) // 2)
    matrix = Product(Dense(np.diag(weights)), paths)
    assert matrix.shape[1] == 2**d
    assert matrix.integer_sensitivity("l2") == (weights[1::2] ** 2).sum()
    assert matrix.sensitivity_is_exact("l2")


def test_parts_that_share_attributes_are_bounded_apart(monkeypatch):
    """Rows that combine one tree each, both over the same attribute: their sum, and no less."""
    masks = [np.concatenate([np.eye(3), np.eye(3)])]
    paths = RowKronecker.from_masks(masks, np.repeat([0, 1], 3))
    left = np.diag([3, 2, 1, 1, 2, 3])
    whole = Product(Dense(left), paths)
    assert whole.integer_sensitivity("l2") == 10
    monkeypatch.setattr(search, "MOST_TOGETHER", 1)
    apart = Product(Dense(left), paths)
    assert apart.integer_sensitivity("l2") == 18
    assert not apart.sensitivity_is_exact("l2")


def test_products_of_sparse_combinations_count_their_columns():
    matrix = random_combination(3)
    plain = Product(Sparse(matrix.left.to_sparse()), matrix.right)
    assert plain.integer_sensitivity("l2") == matrix.integer_sensitivity("l2")


def test_brute_force_walks_all_cells():
    """The oracle itself, cell by cell."""
    matrix = random_combination(5)
    masks = matrix.right.all_masks()
    norms = []
    for cell in product(*map(range, matrix.right.sizes)):
        column = np.prod([m[:, c] for m, c in zip(masks, cell, strict=True)], axis=0)
        norms.append(((matrix.left.array @ column) ** 2).sum())
    np.testing.assert_array_equal(norms, squares_by_cell(matrix))


def test_a_search_cut_among_equal_cells_is_no_exact_one(monkeypatch):
    """What was not looked at may be heavier by rounding: the bound alone is proved."""
    masks = [np.ones((8, 2), dtype=bool) for _ in range(4)]
    for i in range(4):
        masks[i][2 * i, 1] = masks[i][2 * i + 1, 0] = False
    equal = Product(Dense(np.full((3, 8), 5)), RowKronecker.from_masks(masks))
    assert (equal.integer_sensitivity("l2"), equal.sensitivity_is_exact("l2")) == (1200, True)
    monkeypatch.setattr(search, "BLOCK", 1)
    monkeypatch.setattr(search, "MOST_SUMS", 8)  # some cells, not all
    cut = Product(equal.left, equal.right)
    assert cut.integer_sensitivity("l2") >= 1200
    assert not cut.sensitivity_is_exact("l2")


def test_sums_beyond_64_bits_are_exact():
    """Three paths of every cell: their sum does not wrap around."""
    masks = [np.ones((3, 2), dtype=bool)]
    matrix = Product(Dense(np.full((1, 3), 2**62)), RowKronecker.from_masks(masks))
    assert matrix.integer_sensitivity("l2") >= (3 * 2**62) ** 2
