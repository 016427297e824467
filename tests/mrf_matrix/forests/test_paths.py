"""Forest -> decision paths -> forest, and masks of every kind of split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.domain import Domain
from mrf_matrix.forests import ForestError, RandomTrees, forest_from_paths, leaf_masks

DOMAIN = Domain.from_sizes([3, 2, 4, 3])


@given(data=st.data())
def test_masks_hold_the_cells_that_reach_the_leaf(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    cells = all_cells(forest.domain.sizes)
    masks = leaf_masks(forest)
    inside = np.ones((forest.n_leaves, len(cells)), dtype=bool)
    for mask, column in zip(masks, cells.T, strict=True):
        inside &= mask[:, column]
    reached = np.zeros_like(inside)
    np.put_along_axis(reached, forest.apply(cells).T, True, axis=0)
    assert np.array_equal(inside, reached)


@given(st.integers(0, 4), st.integers(0, 2**31))
def test_paths_there_and_back(depth, seed):
    forest = RandomTrees(5, depth).grow(DOMAIN, random_state=seed)
    paths = forest.paths()
    shuffled = np.random.default_rng(seed).permutation(len(paths))
    again = forest_from_paths(paths[shuffled], forest.leaf_tree[shuffled], DOMAIN)
    for tree in range(5):
        mine = paths[forest.leaf_tree == tree].tolist()
        assert sorted(again.paths()[again.leaf_tree == tree].tolist()) == sorted(mine)


def test_paths_of_unequal_length():
    paths = np.array([[0, -1], [1, 0], [1, 1], [2, -1]])
    forest = forest_from_paths(paths, None, Domain.from_sizes([3, 2]))
    assert forest.paths().tolist() == paths.tolist()
    assert forest.source == "decision paths"


def test_trees_keep_the_order_of_their_ids():
    paths = np.array([[-1], [0], [1]])
    forest = forest_from_paths(paths, np.array([9, 4, 4]), Domain.from_sizes([2]))
    assert forest.paths().tolist() == [[0], [1], [-1]]


def test_two_codes_make_a_threshold_a_path():
    forest = RandomTrees(3, 1, "binary").grow(Domain.from_sizes([2, 2, 1]), random_state=0)
    assert ((forest.paths() >= 0).sum(axis=1) == 1).all()


def test_thresholds_have_no_codes_to_name():
    forest = RandomTrees(3, 1, "binary").grow(Domain.from_sizes([5]), random_state=0)
    with pytest.raises(ForestError, match=r"of the 5 codes of attribute 'x0'.*path_matrix"):
        forest.paths()


@pytest.mark.parametrize(
    ("paths", "tree_id", "error", "message"),
    [
        ([[0, -1], [1, 0]], None, ForestError, "no path holds code 1 of attribute 'x1'"),
        ([[0, -1], [0, -1]], None, ForestError, "no path holds code 1 of attribute 'x0'"),
        ([[0, -1], [0, -1], [1, -1]], None, ForestError, "2 paths.*fix no attribute in common"),
        ([[0, -1], [-1, 0], [1, 1]], None, ForestError, "fix no attribute in common"),
        ([[0, 0]], None, ForestError, "no path holds code 1"),
        ([[0], [1]], None, ValueError, "wrong shape"),
        ([[0.0, 1.0]], None, ValueError, "float64"),
        ([[2, -1]], None, ValueError, "'x0' leave the domain: expected -1 to 1"),
        (np.zeros((0, 2), dtype=int), None, ValueError, "paths is empty"),
        ([[0, -1], [1, -1]], [0], ValueError, r"tree_id has shape \(1,\)"),
    ],
)
def test_what_is_no_multiway_tree(paths, tree_id, error, message):
    with pytest.raises(error, match=message):
        forest_from_paths(np.array(paths), tree_id, Domain.from_sizes([2, 2]))
