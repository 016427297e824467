"""A tree as text."""

import re

import numpy as np
import pytest

from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.forests import Forest, RandomTrees, branch_pool, subset_patterns

DOMAIN = Domain(
    [Attribute("sky", categories=["sun", "cloud", "rain"]), Attribute("age", edges=range(10))]
)


def test_every_kind_of_split():
    pool, starts = subset_patterns(branch_pool(DOMAIN.sizes), [np.array([0, 1, 0])])
    forest = Forest(
        domain=DOMAIN,
        roots=np.array([0]),
        attribute=np.array([1, 0, -1, -1, -1]),
        first_child=np.array([1, 3, 2, 3, 4]),
        pattern=np.array([9 - 6, starts[0], 0, 0, 0]),
        branches=pool,
    )
    assert forest.export_text() == "\n".join(
        [
            "tree 0",
            "├── age in [0, 1) .. [5, 6)",
            "│   ├── sky in {sun, rain}: leaf 0",
            "│   └── sky = cloud: leaf 1",
            "└── age in {[6, 7), [7, 8), [8, 9]}: leaf 2",
        ]
    )


def test_every_leaf_is_drawn_once_and_long_trees_are_cut():
    forest = RandomTrees(2, 2).grow(DOMAIN, random_state=0)
    text = forest.export_text(tree=1)
    mine = np.flatnonzero(forest.leaf_tree == 1).tolist()
    assert [int(leaf) for leaf in re.findall(r": leaf (\d+)", text)] == mine
    short = forest.export_text(tree=1, max_leaves=4)
    assert short.endswith(f"... {len(mine) - 4} more leaves; raise max_leaves to see them")
    assert short.count("leaf ") == 4


def test_a_single_leaf():
    assert RandomTrees(2, 0).grow(DOMAIN).export_text(1) == "tree 1: leaf 1"


def test_many_scattered_categories_are_shortened():
    domain = Domain.from_sizes([20])
    pool, starts = subset_patterns(branch_pool([20]), [np.arange(20) % 2])
    forest = Forest(
        domain=domain,
        roots=np.array([0]),
        attribute=np.array([0, -1, -1]),
        first_child=np.array([1, 1, 2]),
        pattern=np.array([starts[0], 0, 0]),
        branches=pool,
    )
    assert "x0 in {0, 2, 4, 6, 8, 10, ... 4 more}: leaf 0" in forest.export_text()


@pytest.mark.parametrize("tree", [-1, 2])
def test_no_such_tree(tree):
    with pytest.raises(ValueError, match="expected 0 to 1"):
        RandomTrees(2, 0).grow(DOMAIN).export_text(tree)
    with pytest.raises(TypeError, match="expected an integer"):
        RandomTrees(2, 0).grow(DOMAIN).export_text("first")
