"""The bound from row Grams: valid for every strategy, tight where weights can be, certified."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from strategies.bounds import path_bounds as bounds
from strategies.bounds.lower_bound import row_maximum_bound
from strategies.bounds.path_bounds import (
    certified_bound,
    climb,
    distinct_paths,
    even_weights,
    heaviest_rows,
    pinched_bound,
    weighted_gram,
)
from strategies.bounds.path_climb import paths_bound
from strategies.operators import Dense, Identity, Product, RowKronecker, RowScaled, memory_cap
from strategies.operators.base.arrays import MemoryCapError
from strategies.operators.masks.components import mask_rows
from strategies.problem.problem import Problem

SIZES = (3, 2, 4)


def random_rows(sizes, count, seed, share=0.6):
    rng = np.random.default_rng(seed)
    return RowKronecker.from_masks([rng.uniform(size=(count, n)) < share for n in sizes])


def cell_weights(weights):
    """Spell the product out over the cells."""
    total = np.ones(1)
    for factor in weights:
        total = np.kron(total, factor)
    return total


def gaussian_optimum(workload, steps=400):
    """Climb over all distributions: the exact optimum for Gaussian noise."""
    gram = workload.T @ workload
    y = np.full(len(gram), 1 / len(gram))
    for _ in range(steps):
        root = np.sqrt(y)
        values, vectors = linalg.eigh(root[:, None] * gram * root)
        values = np.sqrt(np.maximum(values, 0))
        y = (vectors**2 @ values) / values.sum()
    return values.sum() ** 2


@pytest.mark.parametrize("mixed", [False, True])
def test_the_value_is_the_squared_nuclear_norm_under_its_weights(mixed):
    rows = random_rows(SIZES, 6, 0)
    mix = np.random.default_rng(1).normal(size=(4, 6))
    workload = Product(Dense(mix), rows) if mixed else rows
    paths = distinct_paths(mask_rows(workload))
    rng = np.random.default_rng(0)
    weights = tuple(rng.dirichlet(np.ones(n)) for n in SIZES)
    bound = certified_bound(paths, weights)
    expected = linalg.svdvals(workload.to_dense() * np.sqrt(cell_weights(weights))).sum() ** 2
    assert bound == pytest.approx(expected, rel=1e-6)
    assert bound <= expected


def test_weights_climb():
    paths = distinct_paths(mask_rows(random_rows(SIZES, 8, 3)))
    weights = even_weights(paths)
    values = []
    for _ in range(15):
        value, weights = climb(paths, weights)
        values.append(value)
        assert sum(own.sum() for own in weights) == pytest.approx(len(SIZES))
    assert (np.diff(values) > -1e-9 * values[0]).all()
    assert values[-1] > values[0] * 1.001


def test_weighted_gram_matches_the_dense_one():
    rows = random_rows(SIZES, 7, 4)
    paths = distinct_paths(mask_rows(rows))
    rng = np.random.default_rng(0)
    weights = tuple(rng.dirichlet(np.ones(n)) for n in SIZES)
    dense = RowKronecker.from_masks(paths.masks()).to_dense()
    expected = (dense * cell_weights(weights)) @ dense.T
    np.testing.assert_allclose(weighted_gram(paths, weights), expected)


@pytest.mark.parametrize("mixed", [False, True])
def test_it_reaches_the_gaussian_optimum(mixed):
    rows = random_rows((4, 3), 12, 5)
    mix = np.random.default_rng(2).integers(0, 3, size=(4, 12)).astype(float)
    workload = Product(Dense(mix), rows) if mixed else rows
    best = gaussian_optimum(workload.to_dense())
    bound = paths_bound(workload)
    assert bound <= best * (1 + 1e-9)
    assert bound >= 0.99 * best


def test_duplicates_are_weights():
    rows = random_rows(SIZES, 5, 6)
    twice = rows.take_rows(np.repeat(np.arange(5), 2))
    once = paths_bound(rows)
    assert paths_bound(twice) == pytest.approx(2 * once, rel=1e-3)
    assert paths_bound(RowScaled(np.full(5, np.sqrt(2)), rows)) == pytest.approx(2 * once, rel=1e-3)


def test_truncation_only_lowers_the_bound():
    rows = random_rows(SIZES, 20, 7)
    paths = distinct_paths(mask_rows(rows))
    cut = heaviest_rows(paths, 6)
    assert cut.n_paths <= 6
    uniform = even_weights(paths)
    assert certified_bound(cut, uniform) <= certified_bound(paths, uniform)
    mixed = Product(Dense(np.eye(20) + np.eye(20, k=1)), rows)
    assert 0 < paths_bound(mixed, most=6) <= gaussian_optimum(mixed.to_dense())


@pytest.mark.parametrize("mixed", [False, True])
def test_where_masks_are_many_the_heaviest_rows_prove_the_bound(monkeypatch, mixed):
    rows = random_rows(SIZES, 40, 5)
    mix = np.random.default_rng(1).normal(size=(12, 40)) * (
        np.arange(40) % 12 == np.arange(12)[:, None]
    )
    workload = Product(Dense(mix), rows) if mixed else rows
    whole = paths_bound(workload)
    monkeypatch.setattr(bounds, "MOST_MASKS", 20 * len(SIZES))
    assert 0 < paths_bound(workload) <= 0.9 * whole


def test_astronomical_domain():
    """One tree over 2**150 cells: the leaves are the optimum, and the bound says so."""
    d, masks = 150, [np.ones((4, 2), dtype=bool) for _ in range(150)]
    masks[3][:2, 0] = masks[3][2:, 1] = False
    masks[9][[0, 2], 0] = masks[9][[1, 3], 1] = False
    leaves = RowKronecker.from_masks(masks)
    assert leaves.shape == (4, 2**d)
    assert paths_bound(leaves) == pytest.approx(4.0)


def test_refusals():
    assert paths_bound(Identity(5)) is None
    with pytest.raises(MemoryCapError, match="row Grams"), memory_cap(1000):
        paths_bound(random_rows(SIZES, 40, 0))


@given(st.data())
def test_never_above_the_loss_of_a_strategy(data):
    """Against the Gaussian optimum, which no strategy of either norm can beat."""
    sizes = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    count = data.draw(st.integers(1, 6))
    seed = data.draw(st.integers(0, 10**6))
    rows = random_rows(sizes, count, seed)
    mixed = data.draw(st.booleans())
    rng = np.random.default_rng(seed)
    workload = Product(Dense(rng.normal(size=(2, count))), rows) if mixed else rows
    dense = workload.to_dense()
    bound = paths_bound(workload, data.draw(st.sampled_from([0.0, 1.0])))
    identity = float(np.sum(dense**2))
    assert bound <= identity * (1 + 1e-9) + 1e-300
    if identity > 0:
        assert bound <= gaussian_optimum(dense, 200) * (1 + 1e-4)


def multiway_leaves(sizes, trees, depth, seed):
    """Grow trees with one branch a code and return their leaves."""
    rng = np.random.default_rng(seed)
    paths = []
    for _ in range(trees):
        stack = [np.full(len(sizes), -1)]
        while stack:
            path = stack.pop()
            if (path >= 0).sum() == rng.integers(1, depth + 1) or (path >= 0).all():
                paths.append(path)
                continue
            chosen = rng.choice(np.flatnonzero(path < 0))
            for code in range(sizes[chosen]):
                child = path.copy()
                child[chosen] = code
                stack.append(child)
    table = np.array(paths)
    masks = [(table[:, [i]] == np.arange(s)) | (table[:, [i]] < 0) for i, s in enumerate(sizes)]
    return RowKronecker.from_masks(masks)


@pytest.mark.parametrize("seed", range(4))
def test_pinching_stays_below_the_nuclear_norm(seed, monkeypatch):
    """Paths of several depths, so that some sets are not maximal; duplicates as weights."""
    workload = multiway_leaves((3, 4, 3, 2), 6, 3, seed)
    dense = workload.to_dense()
    whole = linalg.svdvals(dense).sum() ** 2 / dense.shape[1]
    found = pinched_bound(distinct_paths(mask_rows(workload)))
    assert 0.5 * whole < found <= whole
    for limit, most in (("MOST_ROWS", 5), ("MOST_COLUMNS", 12), ("MOST_SHARED", 6)):
        with monkeypatch.context() as patch:
            patch.setattr(f"strategies.bounds.path_bounds.{limit}", most)
            assert 0 < pinched_bound(distinct_paths(mask_rows(workload))) < found


def test_rows_without_an_entry_at_hand_prove_nothing(monkeypatch):
    problem = Problem.of(0.1 * np.eye(3))
    assert row_maximum_bound(problem) == pytest.approx(0.03)
    monkeypatch.setattr("strategies.bounds.lower_bound.MOST_ENTRIES", 0)
    assert row_maximum_bound(problem) == 0.0


def test_pinching_is_exact_on_one_table():
    """A full marginal's rows reach their own component and the coarser ones, nothing is lost."""
    workload = RowKronecker.from_masks([np.eye(5), np.ones((5, 4))])
    assert pinched_bound(distinct_paths(mask_rows(workload))) == pytest.approx(5.0)


def test_pinching_refuses_combinations():
    mixed = Product(Dense(np.ones((2, 6))), random_rows(SIZES, 6, 0))
    with pytest.raises(ValueError, match="one path in each row"):
        pinched_bound(distinct_paths(mask_rows(mixed)))


@pytest.mark.parametrize("most", [0, 6000])
def test_very_many_paths_are_bounded_together(monkeypatch, most):
    monkeypatch.setattr(bounds, "MOST_WHOLE", most)
    workload = multiway_leaves((4, 4, 4), 8, 2, 1)
    bound = paths_bound(workload, most=8)
    dense = workload.to_dense()
    assert 0 < bound <= linalg.svdvals(dense).sum() ** 2 / dense.shape[1]


def test_grams_of_many_equal_eigenvalues_are_factorised():
    """Four trees of two attributes each, chained: not every LAPACK driver ends on them."""
    masks = [np.ones((400, 10), dtype=bool) for _ in range(8)]
    codes = np.divmod(np.arange(100), 10)
    for tree in range(4):
        for attribute, code in zip((tree, tree + 1), codes, strict=True):
            own = slice(100 * tree, 100 * tree + 100)
            masks[attribute][own] = code[:, None] == np.arange(10)
    assert paths_bound(RowKronecker.from_masks(masks)) == pytest.approx(1460.64, rel=1e-3)
