"""Comparison trees against a walk with distances, and their stopping rule."""

import numpy as np
import pytest
from rivals import comparison_trees as module
from rivals.comparison_trees import ComparisonTrees


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)


def walk(forest, x, tree):
    node = tree
    while forest.first[node] >= 0:
        a, b = forest.values[forest.first[node]], forest.values[forest.second[node]]
        node = forest.child[node] + (np.linalg.norm(x - b) < np.linalg.norm(x - a))
    return node


@pytest.mark.parametrize("supervised", [False, True])
def test_records_go_to_the_nearer_pivot(data, supervised, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 40)
    X, y = data
    forest = ComparisonTrees(5, supervised).grow(X, y, 3, 1)
    leaves = forest.apply(X[:40])
    for i in range(40):
        assert leaves[i].tolist() == [walk(forest, X[i], tree) for tree in range(5)]


def test_supervised_pivots_have_different_classes_and_leaves_are_small_or_pure(data):
    X, y = data
    forest = ComparisonTrees(5, supervised=True, min_points=4).grow(X, y, 3, 1)
    inner = forest.first >= 0
    assert (y[forest.first[inner]] != y[forest.second[inner]]).all()
    counts = forest.counts[~inner]
    assert ((counts.sum(axis=1) <= 4) | ((counts > 0).sum(axis=1) == 1)).all()
    leaves = forest.apply(X)
    for node in np.flatnonzero(~inner)[:50]:
        reached = (leaves == node).any(axis=1)
        np.testing.assert_array_equal(np.bincount(y[reached], minlength=3), forest.counts[node])


def test_equal_records_make_one_leaf():
    forest = ComparisonTrees(3, min_points=1).grow(np.ones((9, 2)), np.arange(9) % 2, 2, 0)
    assert len(forest.first) == 3


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="n_trees=0"):
        ComparisonTrees(0)
