"""The largest column norm of combined paths: enumeration, proved bounds, ties."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import memory_cap
from strategies.operators import Dense, Product, RowKronecker, Sparse
from strategies.operators.masks import heaviest_cell as search


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
