"""Optimal combinations of paths for Gaussian noise, and leaves of predictions in closed form."""

import numpy as np
import pytest
from scipy import sparse

import strategies
from mrf_matrix import Domain, RandomTrees, path_matrix, prediction_workload, query_matrix
from mrf_matrix.mechanisms import ZCDP, calibrate
from strategies import Problem, evaluate, select
from strategies.bounds.lower_bound import row_maximum_bound
from strategies.bounds.path_climb import path_climb
from strategies.operators import Dense, Product, RowKronecker, RowScaled, Scaled, Sparse, row_errors

SIZES = (6, 5, 6, 4, 5)


@pytest.fixture
def small_limits(monkeypatch):
    """Let the family serve domains that can be enumerated, to compare with."""
    monkeypatch.setattr("strategies.methods.gaussian_optimal.LARGEST", 0)


def forest_paths(n_trees, depth=2, seed=0, splits="binary", sizes=SIZES):
    forest = RandomTrees(n_trees=n_trees, max_depth=depth, splits=splits)
    return path_matrix(forest.grow(Domain.from_sizes(sizes), random_state=seed))


def random_workload(seed):
    """Draw paths without any order, some weighted, some combined, over a small domain."""
    rng = np.random.default_rng(seed)
    sizes, count = rng.integers(2, 4, 3), int(rng.integers(2, 9))
    masks = [(rng.random((count, n)) < 0.6) | (rng.random(count) < 0.4)[:, None] for n in sizes]
    masks = [mask | ~mask.any(axis=1, keepdims=True) for mask in masks]
    rows = RowKronecker.from_masks(masks)
    kind = seed % 3
    if kind == 1:
        return RowScaled(rng.uniform(0.1, 3.0, count), rows)
    return (
        rows
        if kind == 0
        else Product(Dense(rng.normal(size=(int(rng.integers(1, 12)), count))), rows)
    )


@pytest.mark.parametrize("seed", range(9))
def test_bound_and_loss_enclose_the_optimum(seed):
    """The climb's bound is below the optimum of the dense problem, and near it."""
    workload = random_workload(seed)
    best = strategies.select(workload.to_dense(), "l2", "gaussian_optimal", random_state=0)
    climb = path_climb(Problem.of(workload, "l2"))
    climb.run(1e-3, 0.2)
    assert climb.certified_bound() <= best.loss * (1 + 1e-9)
    assert climb.certified_bound() >= best.lower_bound * 0.98


@pytest.mark.parametrize("seed", range(9))
def test_any_weights_prove_a_bound(seed):
    workload = random_workload(seed)
    best = strategies.select(workload.to_dense(), "l2", "gaussian_optimal", random_state=0)
    climb = path_climb(Problem.of(workload, "l2"))
    climb.begin()
    climb.highest = climb.last
    assert 0 < climb.certified_bound() <= best.loss * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_the_loss_is_that_of_the_explicit_matrix(small_limits, seed):
    workload = random_workload(seed)
    found = strategies.select(workload, "l2", "path_optimal", random_state=0, time_limit=0.3)
    twin = strategies.evaluate(workload.to_dense(), found.matrix.to_dense(), "l2")
    assert found.loss == pytest.approx(twin.loss, rel=1e-7)
    assert found.sensitivity == pytest.approx(twin.sensitivity, rel=1e-12)
    assert found.sensitivity_is_exact
    best = strategies.select(workload.to_dense(), "l2", "gaussian_optimal", random_state=0)
    assert found.loss <= 1.03 * best.loss


@pytest.mark.parametrize("seed", range(3))
def test_forests_are_certified_near_the_optimum(small_limits, seed):
    paths = forest_paths(6, seed=seed)
    found = strategies.select(paths, "l2", "path_optimal", random_state=0, time_limit=1.0)
    assert found.certified_ratio < 1.03
    plain = strategies.select(paths, "l2", "workload_itself", random_state=0)
    assert found.loss < 0.95 * plain.loss


def test_integer_rows_keep_the_row_space(small_limits):
    """No row is lost to rounding, what is measured is the strategy itself, and W = W A⁺ A."""
    paths = forest_paths(5)
    found = strategies.select(paths, "l2", "path_optimal", random_state=0, time_limit=1.0)
    rounded = calibrate(found, ZCDP(1), workload=paths).rounded
    assert rounded.matrix is found.matrix
    assert rounded.is_unbiased
    assert not rounded.is_lossy
    dense, wanted = found.matrix.to_dense(), paths.to_dense()
    assert np.linalg.matrix_rank(dense) == np.linalg.matrix_rank(wanted) == len(dense)
    np.testing.assert_allclose(wanted @ np.linalg.pinv(dense) @ dense, wanted, atol=1e-9)
    assert rounded.column_sum == (dense.astype(np.int64) ** 2).sum(axis=0).max()


def test_real_combinations_are_rounded_and_recovered(small_limits):
    """A user's real combinations of paths: measured as integers, recovered as they were."""
    paths = forest_paths(3)
    left = np.random.default_rng(0).normal(size=(40, paths.shape[0]))
    given = strategies.evaluate(paths, Product(Dense(left), paths), "l2")
    rounded = calibrate(given, ZCDP(1), workload=paths).rounded
    assert rounded.matrix.left.array.dtype == np.int64
    scale = float(rounded.scale)
    np.testing.assert_allclose(rounded.matrix.left.array, scale * left, atol=0.5)
    assert rounded.column_sum == (rounded.matrix.to_dense() ** 2).sum(axis=0).max()


def test_a_domain_beyond_enumeration_is_served_by_default():
    paths = forest_paths(3, sizes=(10,) * 12)
    found = strategies.select(paths, "l2", random_state=0, time_limit=1.0)
    assert found.method == "path_optimal"
    assert found.sensitivity_is_exact
    assert found.certified_ratio < 1.03


def test_many_queries_over_few_paths():
    """More rows than paths: as many dimensions as the paths have, whatever the rows."""
    paths = forest_paths(2, sizes=(10,) * 8)
    mix = np.random.default_rng(0).uniform(size=(50, paths.shape[0]))
    found = strategies.select(Product(Dense(mix), paths), "l2", random_state=0, time_limit=1.0)
    assert found.certified_ratio < 1.03


@pytest.mark.slow
def test_queries_of_leaves_keep_their_optimum():
    domain = Domain.from_sizes((10,) * 12)
    forest = RandomTrees(n_trees=4, max_depth=3, splits="binary").grow(domain, random_state=0)
    paths = path_matrix(forest)
    codes = np.random.default_rng(0).integers(0, 10, (20, 12))
    workload = prediction_workload(paths, query_matrix(codes, domain))
    found = strategies.select(workload, "l2", random_state=0, time_limit=1.0)
    assert found.certified_ratio < 1 + 1e-6


def test_a_search_dearer_than_its_limit_is_not_begun():
    paths = forest_paths(12, depth=4, sizes=(10,) * 8)
    found = strategies.select(paths, "l2", random_state=0, time_limit=0.05)
    note = next(one.note for one in found.candidates if one.family == "path_optimal")
    assert "more than is left" in note


FEW_SIZES = (3, 2, 3, 2)
TREES = 5


def trees(seed: int) -> RowKronecker:
    """Return the leaves of trees that split one attribute, and another below each code."""
    random = np.random.default_rng(seed)
    masks: list[list[np.ndarray]] = [[] for _ in FEW_SIZES]
    for _ in range(TREES):
        root = random.integers(len(FEW_SIZES))
        for code in range(FEW_SIZES[root]):
            below = random.choice([i for i in range(len(FEW_SIZES)) if i != root])
            for deeper in range(FEW_SIZES[below]):
                for i, size in enumerate(FEW_SIZES):
                    row = np.ones(size, dtype=bool)
                    if i in (root, below):
                        row = np.arange(size) == (code if i == root else deeper)
                    masks[i].append(row)
    return RowKronecker.from_masks([np.array(mask) for mask in masks])


def prediction(records: int, seed: int, scales: np.ndarray | None = None) -> Product:
    """Return ``diag(s) Q Tᵀ T`` with paths of several trees counted once."""
    paths = trees(seed)
    dense = paths.to_dense()
    cells = np.random.default_rng(seed).integers(0, dense.shape[1], records)
    first, inverse = np.unique(dense, axis=0, return_index=True, return_inverse=True)[1:]
    left = np.zeros((records, len(first)))
    np.add.at(left.T, inverse.ravel(), dense[:, cells])
    if scales is not None:
        left *= scales[:, None]
    return Product(Sparse(sparse.csr_array(left)), paths.take_rows(first))


@pytest.mark.parametrize("seed", range(4))
def test_every_query_is_optimal_at_once(seed: int) -> None:
    workload = prediction(6, seed)
    strategy = select(workload, "l2", random_state=0)
    leaves = select(workload, "l2", method="leaves")
    assert leaves.loss == pytest.approx(6 * TREES**2, rel=1e-9)
    assert strategy.loss <= leaves.loss * (1 + 1e-3)
    assert leaves.certified_ratio <= 1 + 1e-9
    errors = row_errors(workload, leaves.matrix) * leaves.sensitivity**2
    assert errors == pytest.approx(np.full(6, TREES**2), rel=1e-9)
    twin = evaluate(workload.to_dense(), leaves.matrix.to_dense(), "l2")
    assert twin.loss == pytest.approx(leaves.loss, rel=1e-9)


def test_leaves_that_no_query_visits_are_dropped() -> None:
    workload = prediction(2, 0)
    matrix = select(workload, "l2", method="leaves").matrix
    assert matrix.shape[0] < workload.right.shape[0]


def test_repeated_and_weighted_records() -> None:
    scales = np.array([1.0, 3.0, 0.5, 2.0])
    workload = prediction(4, 1, scales)
    strategy = select(Scaled(2.0, workload), "l2", method="leaves")
    assert strategy.loss == pytest.approx(4 * TREES**2 * np.sum(scales**2), rel=1e-9)
    again = select(RowScaled(scales, prediction(4, 1)), "l2", method="leaves")
    assert again.loss == pytest.approx(strategy.loss / 4, rel=1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_bound_of_row_maxima(norm: str) -> None:
    workload = prediction(6, 2)
    expected = np.sum(workload.to_dense().max(axis=1) ** 2)
    assert row_maximum_bound(Problem.of(workload, norm)) == pytest.approx(expected, rel=1e-9)
    unlisted = Problem(workload, norm, merging=None)
    assert row_maximum_bound(unlisted) == pytest.approx(expected, rel=1e-9)
    signed = Dense(np.array([[1.0, -3.0], [2.0, 0.0]]))
    assert row_maximum_bound(Problem.of(signed, norm)) == pytest.approx(13, rel=1e-9)


def test_rows_of_zeros_and_ones_are_bounded_by_their_structure() -> None:
    masks = [np.array([[1, 0], [1, 1], [0, 0]]), np.array([[1, 1, 0], [0, 1, 0], [1, 1, 1]])]
    workload = RowKronecker.from_masks(masks)
    expected = np.sum(workload.to_dense().max(axis=1) ** 2)
    assert row_maximum_bound(Problem.of(workload)) == pytest.approx(expected, rel=1e-9)


def test_rows_whose_paths_do_not_meet_prove_nothing() -> None:
    paths = RowKronecker.from_masks([np.eye(3)])
    workload = Product(Sparse(sparse.csr_array(np.array([[1.0, 1.0, 0.0]]))), paths)
    assert row_maximum_bound(Problem(workload, "l1", merging=None)) == 0.0


def test_only_combinations_of_paths_are_served() -> None:
    with pytest.raises(ValueError, match="cannot serve"):
        select(trees(0), "l2", method="leaves")
