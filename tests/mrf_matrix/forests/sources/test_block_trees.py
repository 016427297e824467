"""Trees over blocks: leaves partition, in the order of the block's tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Domain, path_matrix
from mrf_matrix.forests import BlockTrees
from mrf_matrix.forests.sources.ensembles import balanced_blocks


@st.composite
def domains_and_blocks(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    order = draw(st.permutations(range(len(sizes))))
    used = draw(st.integers(1, len(sizes)))
    n_blocks = draw(st.integers(1, used + 2))
    return sizes, balanced_blocks(order[:used], sizes, n_blocks), order[:used]


@given(drawn=domains_and_blocks())
def test_leaves_partition_and_lie_in_the_order_of_codes(drawn):
    sizes, blocks, used = drawn
    assert sorted(i for block in blocks for i in block) == sorted(used)
    forest = BlockTrees(blocks).grow(Domain.from_sizes(sizes))
    cells = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)
    leaves = forest.apply(cells)
    assert leaves.shape == (len(cells), len(blocks) + 1)
    start = 0
    for tree, block in enumerate(blocks):
        fans = [sizes[i] for i in block]
        expected = start + np.ravel_multi_index(tuple(cells[:, list(block)].T), fans)
        np.testing.assert_array_equal(leaves[:, tree], expected)
        start += int(np.prod(fans))
    assert (leaves[:, -1] == start).all()
    assert forest.n_leaves == start + 1
    dense = path_matrix(forest).to_dense()
    np.testing.assert_array_equal(dense.sum(axis=0), len(blocks) + 1)
    np.testing.assert_array_equal(np.flatnonzero(dense[:, 0]), np.sort(leaves[0]))


def test_class_totals_can_be_left_out():
    forest = BlockTrees([[1], [0, 2]], class_totals=False).grow(Domain.from_sizes([2, 3, 2]))
    assert forest.n_trees == 2
    assert forest.n_leaves == 7


@pytest.mark.parametrize("blocks", [[], [[]], [[0], [0, 1]], [[0, 0]], [[-1]]])
def test_bad_blocks_are_refused(blocks):
    with pytest.raises(ValueError, match="blocks"):
        BlockTrees(blocks)


def test_attributes_and_leaves_out_of_reach_are_refused():
    with pytest.raises(ValueError, match="attribute 2: the domain has 2"):
        BlockTrees([[0], [2]]).grow(Domain.from_sizes([2, 2]))
    with pytest.raises(ValueError, match="smaller blocks"):
        BlockTrees([list(range(40))]).grow(Domain.from_sizes([3] * 40))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_blocks_are_balanced(count):
    sizes = [2, 2, 2, 2, 4, 4, 8, 1, 3]
    blocks = balanced_blocks(range(9), sizes, count)
    weights = [np.log2([sizes[i] for i in block]).sum() for block in blocks]
    assert max(weights) - min(weights) <= 3  # no more than the largest attribute


def test_more_blocks_than_attributes_leave_none_empty():
    assert sorted(balanced_blocks([2, 0], [3, 9, 2], 5)) == [(0,), (2,)]
    with pytest.raises(ValueError, match="n_blocks=0"):
        balanced_blocks([0], [2], 0)
