"""RandomTrees draws what it says: uniform, independent, reproducible."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from mrf_matrix import path_matrix
from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.forests import BlockTrees, PathSource, RandomTrees, leaf_masks
from mrf_matrix.forests.sources.ensembles import balanced_blocks
from mrf_matrix.forests.sources.random_trees import draw_available

CAR = Domain.from_sizes([4, 4, 4, 3, 3, 3])
MANY = 6000


def p_value(drawn: np.ndarray, outcomes: int) -> float:
    """Return the chi-square p-value of the drawn outcomes against the uniform law."""
    return float(chisquare(np.bincount(drawn, minlength=outcomes)).pvalue)


def test_it_is_a_path_source():
    assert isinstance(RandomTrees(), PathSource)


def test_the_same_seed_grows_the_same_forest_in_every_process():
    program = (
        "from hashlib import sha256\n"
        "from mrf_matrix.domain import Domain\n"
        "from mrf_matrix.forests import RandomTrees\n"
        "domain = Domain.from_sizes([4, 4, 3, 3])\n"
        "grown = [RandomTrees(20, 3, s).grow(domain, 7) for s in ('multiway', 'binary')]\n"
        "parts = [f.attribute.tobytes() + f.pattern.tobytes() for f in grown]\n"
        "digests = [sha256(part).hexdigest() for part in parts]\n"
    )
    here = {}
    exec(program, here)
    there = subprocess.run(
        [sys.executable, "-c", program + "print(*digests)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == here["digests"]
    assert len(set(here["digests"])) == 2
    for splits in ("multiway", "binary"):
        source = RandomTrees(20, 3, splits)
        assert source.grow(CAR, 7) == source.grow(CAR, np.random.default_rng(7))
        assert source.grow(CAR, 7) != source.grow(CAR, 8)
    assert source.grow(CAR) != source.grow(CAR)


def test_multiway_trees_of_the_paper():
    forest = RandomTrees(n_trees=128, max_depth=4).grow(CAR, random_state=0)
    assert forest.n_trees == 128
    paths = forest.paths()
    assert ((paths >= 0).sum(axis=1) == 4).all()  # every path fixes four attributes, once each
    inner = forest.attribute >= 0
    assert (forest.n_children[inner] == np.asarray(CAR.sizes)[forest.attribute[inner]]).all()
    assert (forest.depth[forest.leaves] == 4).all()


def test_binary_trees_are_balanced_where_codes_suffice():
    forest = RandomTrees(16, 3, "binary").grow(Domain.from_sizes([16] * 3), random_state=0)
    assert set(np.unique(forest.n_children)) == {0, 2}
    assert forest.max_depth == 3
    masks = leaf_masks(forest)
    for mask in masks:  # every leaf holds a run of codes
        assert (np.abs(np.diff(mask.astype(int), axis=1)).sum(axis=1) <= 2).all()
        assert mask.any(axis=1).all()


def test_binary_trees_stop_where_codes_run_out():
    forest = RandomTrees(4, 50, "binary").grow(Domain.from_sizes([3, 2]), random_state=0)
    assert forest.n_leaves == 4 * 6  # every leaf a single cell
    assert forest.max_depth <= 3


def test_attributes_of_one_code_are_never_split():
    domain = Domain.from_sizes([1, 3, 1, 2])
    for splits in ("multiway", "binary"):
        forest = RandomTrees(50, 2, splits).grow(domain, random_state=0)
        assert set(forest.attribute.tolist()) == {-1, 1, 3}


def test_only_the_named_attributes_are_split():
    domain = Domain([Attribute(name, size=3) for name in ("a", "b", "c", "d")])
    for chosen in (["d", "b"], [3, 1], np.array([1, 3])):
        forest = RandomTrees(50, 2, attributes=chosen).grow(domain, random_state=0)
        assert set(forest.attribute.tolist()) == {-1, 1, 3}


def test_depth_zero_is_the_whole_domain():
    forest = RandomTrees(3, 0).grow(CAR, random_state=0)
    assert (forest.n_leaves, forest.max_depth) == (3, 0)
    assert RandomTrees(3, 0).grow(Domain.from_sizes([1])).n_leaves == 3


def test_roots_are_uniform_over_attributes():
    domain = Domain.from_sizes([2, 7, 1, 3, 4])
    usable = np.array([0, 1, 3, 4])
    for splits in ("multiway", "binary"):
        forest = RandomTrees(MANY, 1, splits).grow(domain, random_state=1)
        drawn = np.searchsorted(usable, forest.attribute[forest.roots])
        assert p_value(drawn, 4) > 1e-3


def test_children_are_uniform_over_the_attributes_left_and_independent():
    forest = RandomTrees(MANY, 2).grow(Domain.from_sizes([2, 2, 2, 2]), random_state=2)
    root = forest.attribute[forest.roots]
    first = forest.first_child[forest.roots]
    left, right = forest.attribute[first], forest.attribute[first + 1]
    assert (left != root).all()
    assert (right != root).all()
    rank = [child - (child > root) for child in (left, right)]  # 0..2 among the three left
    assert p_value(9 * root + 3 * rank[0] + rank[1], 36) > 1e-3


def test_thresholds_are_uniform_among_the_codes_left():
    size = 7
    forest = RandomTrees(MANY, 2, "binary").grow(Domain.from_sizes([size]), random_state=3)
    cut = size - forest.pattern[forest.roots]
    assert p_value(cut - 1, size - 1) > 1e-3
    right = forest.first_child[forest.roots] + 1
    for low in range(1, size - 2):  # right children hold codes low .. size-1
        nodes = right[cut == low]
        below = size - forest.pattern[nodes] - (low + 1)
        assert p_value(below, size - 1 - low) > 1e-3


def test_binary_children_choose_among_attributes_that_keep_two_codes():
    forest = RandomTrees(MANY, 2, "binary").grow(Domain.from_sizes([2, 3, 9]), random_state=4)
    first = forest.first_child[forest.roots]
    on_two = forest.attribute[forest.roots] == 0  # its children have lost attribute 0
    assert p_value(forest.attribute[first[on_two]] - 1, 2) > 1e-3
    assert (forest.attribute[first[on_two] + 1] > 0).all()


def test_negative_control_a_draw_that_favours_large_attributes_is_rejected():
    rng = np.random.default_rng(5)
    sizes = np.array([2, 3, 4])
    biased = rng.choice(3, size=MANY, p=sizes / sizes.sum())
    assert p_value(biased, 3) < 1e-6


def test_negative_control_a_two_per_cent_bias_of_the_draw_is_rejected():
    available = np.ones((200_000, 3), dtype=bool)
    drawn = draw_available(available, np.random.default_rng(6))
    assert p_value(drawn, 3) > 1e-3
    moved = np.where((drawn == 0) & (np.random.default_rng(7).random(len(drawn)) < 0.02), 1, drawn)
    assert p_value(moved, 3) < 1e-6


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_trees": 0}, ValueError, "n_trees=0: expected at least 1"),
        ({"n_trees": 2.5}, TypeError, "n_trees=2.5"),
        ({"n_trees": True}, TypeError, "n_trees=True"),
        ({"max_depth": -1}, ValueError, "max_depth=-1: expected at least 0"),
        ({"splits": "ternary"}, ValueError, "'multiway' or 'binary'"),
        ({"attributes": "age"}, TypeError, "sequence of names"),
    ],
)
def test_wrong_parameters(options, error, message):
    with pytest.raises(error, match=message):
        RandomTrees(**options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"attributes": ["colour"]}, ValueError, "names 'colour': expected one of 'x0'"),
        ({"attributes": [6]}, ValueError, "index 6: expected 0 to 5"),
        ({"attributes": [1.5]}, TypeError, "1.5"),
        ({"attributes": [1, "x1"]}, ValueError, "twice"),
        ({"n_trees": 2**25, "max_depth": 0}, ValueError, "33,554,432 nodes, .*lower n_trees"),
    ],
)
def test_parameters_that_do_not_fit_the_domain(options, error, message):
    with pytest.raises(error, match=message):
        RandomTrees(**options).grow(CAR)


def test_depth_is_at_most_what_the_attributes_allow():
    assert RandomTrees(2, 9).grow(CAR, 0).max_depth == 6
    assert RandomTrees(2, 2, attributes=[0]).grow(CAR, 0).max_depth == 1
    assert RandomTrees(2, 3).grow(Domain.from_sizes([1, 1])).n_leaves == 2


@pytest.mark.parametrize("splits", ["multiway", "binary"])
def test_growth_stops_before_a_level_too_large(splits, monkeypatch):
    monkeypatch.setattr("mrf_matrix.forests.assembly.MOST_NODES", 1000)
    domain = Domain.from_sizes([4] * 12)
    assert RandomTrees(1, 4, splits).grow(domain).n_nodes <= 1000
    with pytest.raises(ValueError, match="limit of 1,000: lower n_trees or max_depth"):
        RandomTrees(1, 10, splits).grow(domain)


# Trees over blocks -------------------------------------------------------------------------------


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
