"""C = T D: counting routed records equals the product with the contingency table."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.compilation import leaf_counts, path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.forests import RandomTrees
from strategies.operators import MemoryCapError, memory_cap


def some_records(sizes, n_records, n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n_records, len(sizes))).astype(np.int32)
    return codes, rng.integers(0, n_classes, size=n_records).astype(np.int32)


@given(data=st.data(), n_records=st.sampled_from([0, 1, 5, 400]), n_classes=st.integers(1, 3))
def test_counts_are_the_path_matrix_times_the_table(data, n_records, n_classes, any_forest):
    forest = data.draw(any_forest)
    seed = data.draw(st.integers(0, 2**31))
    codes, labels = some_records(forest.domain.sizes, n_records, n_classes, seed)
    D = np.zeros((forest.domain.size, n_classes))
    np.add.at(D, (np.ravel_multi_index(tuple(codes.T), forest.domain.sizes), labels), 1)
    C = leaf_counts(forest, codes, labels, n_classes)
    assert C.dtype == np.int64
    assert np.array_equal(C, path_matrix(forest).to_dense() @ D)


def test_both_routes_agree():
    """400 records over 36 cells are counted by cell; 30 of them one by one."""
    forest = RandomTrees(20, 2).grow(Domain.from_sizes([4, 3, 3]), random_state=0)
    codes, labels = some_records((4, 3, 3), 400, 3, 0)
    parts = [
        leaf_counts(forest, codes[s : s + 20], labels[s : s + 20], 3) for s in range(0, 400, 20)
    ]
    assert np.array_equal(leaf_counts(forest, codes, labels, 3), sum(parts))


def test_every_tree_counts_every_record_once():
    forest = RandomTrees(8, 3).grow(Domain.from_sizes([10] * 30), random_state=0)
    codes, labels = some_records([10] * 30, 3000, 4, 0)
    C = leaf_counts(forest, codes, labels, 4)
    totals = np.add.reduceat(C, np.searchsorted(forest.leaf_tree, np.arange(8)))
    assert np.array_equal(totals, np.tile(np.bincount(labels), (8, 1)))


def test_no_array_of_records_by_trees_is_made():
    forest = RandomTrees(64, 2).grow(Domain.from_sizes([4] * 20), random_state=0)
    codes, labels = some_records([4] * 20, 50_000, 2, 0)
    _ = forest.router, forest.leaf_index
    tracemalloc.start()
    C = leaf_counts(forest, codes, labels, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < C.nbytes + 2**21  # 50 000 x 64 states would be 25 MB


@pytest.mark.parametrize(
    ("codes", "labels", "n_classes", "message"),
    [
        ([[0, 0]], [2], 2, "labels leave the classes: expected 0 to 1"),
        ([[0, 0]], [-1], 2, "labels leave the classes"),
        ([[0, 0]], [0.0], 2, "float64"),
        ([[0, 0]], [0, 1], 2, "labels has the wrong shape"),
        ([[0, 0]], [0], 0, "n_classes=0: expected a positive integer"),
        ([[0, 0]], [0], 2.0, "n_classes=2.0"),
        ([[0, 2]], [0], 2, "'x1' leave the domain"),
        ([[0]], [0], 2, "codes has the wrong shape"),
    ],
)
def test_wrong_records(codes, labels, n_classes, message):
    forest = RandomTrees(2, 1).grow(Domain.from_sizes([2, 2]), random_state=0)
    with pytest.raises(ValueError, match=message):
        leaf_counts(forest, np.array(codes), np.array(labels), n_classes)


def test_counts_above_the_cap():
    forest = RandomTrees(100, 1).grow(Domain.from_sizes([2, 2]), random_state=0)
    with memory_cap(1000), pytest.raises(MemoryCapError, match="leaf counts"):
        leaf_counts(forest, np.zeros((1, 2), dtype=int), np.zeros(1, dtype=int), 2)
