"""Gaussian batch prediction in closed form: the visited leaves, and the bound of row maxima."""

import numpy as np
import pytest
from scipy import sparse

from strategies import evaluate, select
from strategies.bounds.lower_bound import row_maximum_bound
from strategies.operators import Dense, Product, RowKronecker, RowScaled, Scaled, Sparse
from strategies.operators.base.recovery import row_errors
from strategies.problem.problem import Problem

SIZES = (3, 2, 3, 2)
TREES = 5


def trees(seed: int) -> RowKronecker:
    """Return the leaves of trees that split one attribute, and another below each code."""
    random = np.random.default_rng(seed)
    masks: list[list[np.ndarray]] = [[] for _ in SIZES]
    for _ in range(TREES):
        root = random.integers(len(SIZES))
        for code in range(SIZES[root]):
            below = random.choice([i for i in range(len(SIZES)) if i != root])
            for deeper in range(SIZES[below]):
                for i, size in enumerate(SIZES):
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
