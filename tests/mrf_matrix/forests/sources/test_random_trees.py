"""RandomTrees draws what it says: uniform, independent, reproducible."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chisquare

from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.forests import (
    BlockTrees,
    PureTrees,
    RandomTrees,
    expected_height,
    height_probabilities,
    leaf_masks,
)

CAR = Domain.from_sizes([4, 4, 4, 3, 3, 3])
MANY = 6000


def p_value(drawn: np.ndarray, outcomes: int) -> float:
    """Return the chi-square p-value of the drawn outcomes against the uniform law."""
    return float(chisquare(np.bincount(drawn, minlength=outcomes)).pvalue)


def test_the_same_seed_grows_the_same_forest_in_every_process():
    program = (
        "from hashlib import sha256\n"
        "from mrf_matrix.domain import Domain\n"
        "from mrf_matrix.forests import PureTrees, RandomTrees\n"
        "domain = Domain.from_sizes([4, 4, 3, 3])\n"
        "sources = PureTrees(20, 9), *(RandomTrees(20, 3, s) for s in ('multiway', 'binary'))\n"
        "grown = [source.grow(domain, 7) for source in sources]\n"
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
    assert len(set(here["digests"])) == 3
    for source in (PureTrees(20, 9, "midpoint"), *here["sources"]):
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


def grown(make, over=CAR, **options):
    return lambda: make(**options).grow(over)


PAIR = Domain.from_sizes([2, 2])
REFUSED = [
    (lambda: RandomTrees(n_trees=0), "n_trees=0: expected at least 1"),
    (lambda: RandomTrees(n_trees=2.5), "n_trees=2.5"),
    (lambda: RandomTrees(n_trees=True), "n_trees=True"),
    (lambda: RandomTrees(max_depth=-1), "max_depth=-1: expected at least 0"),
    (lambda: RandomTrees(splits="ternary"), "'multiway', 'binary'"),
    (lambda: RandomTrees(attributes="age"), "sequence of names"),
    (grown(RandomTrees, attributes=["colour"]), "holds 'colour': expected one of 'x0'"),
    (grown(RandomTrees, attributes=[6]), "holds 6: expected one of .* or an index from 0 to 5"),
    (grown(RandomTrees, attributes=[1.5]), "1.5"),
    (grown(RandomTrees, attributes=[1, "x1"]), "twice"),
    (grown(RandomTrees, n_trees=2**25, max_depth=0), "33,554,432 nodes, .*lower n_trees"),
    *((lambda b=b: BlockTrees(b), "blocks") for b in ([], [[]], [[0], [0, 1]], [[0, 0]], [[-1]])),
    (grown(BlockTrees, PAIR, blocks=[[0], [2]]), "attribute 2: the domain has 2"),
    (grown(BlockTrees, Domain.from_sizes([3] * 40), blocks=[range(40)]), "smaller blocks"),
    (lambda: PureTrees(n_trees=0), "n_trees=0: expected at least 1"),
    (lambda: PureTrees(n_leaves=0), "n_leaves=0: expected at least 1"),
    (lambda: PureTrees(n_leaves=2.5), r"n_leaves=2\.5: expected an integer"),
    (lambda: PureTrees(n_trees=True), "n_trees=True: expected an integer"),
    (lambda: PureTrees(splits="median"), "splits='median': expected one of 'uniform', 'mid"),
    (lambda: PureTrees(attributes="age"), "expected a sequence"),
    (grown(PureTrees, n_trees=10_000, n_leaves=10_000), "lower n_trees or n_leaves"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_grows_no_trees_is_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_depth_is_at_most_what_the_attributes_allow():
    assert RandomTrees(2, 9).grow(CAR, 0).max_depth == 6
    assert RandomTrees(2, 2, attributes=[0]).grow(CAR, 0).max_depth == 1
    assert RandomTrees(2, 3).grow(Domain.from_sizes([1, 1])).n_leaves == 2


@pytest.mark.parametrize("splits", ["multiway", "binary"])
def test_growth_stops_before_a_level_too_large(splits, monkeypatch):
    monkeypatch.setattr("mrf_matrix.forests.forest.MOST_NODES", 1000)
    domain = Domain.from_sizes([4] * 12)
    assert RandomTrees(1, 4, splits).grow(domain).n_nodes <= 1000
    with pytest.raises(ValueError, match="limit of 1,000: lower n_trees or max_depth"):
        RandomTrees(1, 10, splits).grow(domain)


# Trees over blocks -------------------------------------------------------------------------------


def test_class_totals_can_be_left_out():
    forest = BlockTrees([[1], [0, 2]], class_totals=False).grow(Domain.from_sizes([2, 3, 2]))
    assert forest.n_trees == 2
    assert forest.n_leaves == 7


# Pure trees ---------------------------------------------------------------------------------------

FINE = Domain.from_sizes([1 << 20, 1 << 20])
PURE_MANY = 12_000


def pure_p_value(drawn: np.ndarray, law: np.ndarray) -> float:
    """Return the chi-square p-value of drawn outcomes, rare ones lumped together."""
    seen = np.bincount(drawn, minlength=len(law))
    expected = law / law.sum() * len(drawn)
    common = expected >= 5
    pooled = [np.append(x[common], x[~common].sum()) for x in (seen, expected)]
    return (
        float(chisquare(*pooled).pvalue)
        if pooled[1][-1]
        else float(chisquare(pooled[0][:-1], pooled[1][:-1]).pvalue)
    )


def cuts(forest) -> np.ndarray:
    """Return every node's threshold."""
    return max(forest.domain.sizes) - forest.pattern


def leaves_left(forest) -> np.ndarray:
    """Return the number of leaves left of each tree's root split."""
    left = forest.first_child[forest.roots]
    return np.array(
        [np.count_nonzero(np.isin(forest.leaves, below)) for below in descendants(forest, left)]
    )


def descendants(forest, nodes):
    for node in nodes:
        below = level = np.array([node])
        while level.size:
            inner = level[forest.n_children[level] > 0]
            level = np.concatenate([forest.first_child[inner], forest.first_child[inner] + 1])
            below = np.concatenate([below, level])
        yield below


@pytest.mark.parametrize("splits", ["uniform", "midpoint"])
@pytest.mark.parametrize("n_leaves", [1, 2, 3, 17])
def test_every_tree_has_k_leaves_of_binary_splits(splits, n_leaves):
    forest = PureTrees(7, n_leaves, splits).grow(FINE, random_state=0)
    assert (np.bincount(forest.leaf_tree) == n_leaves).all()
    assert set(forest.n_children.tolist()) <= {0, 2}


def test_the_leaf_to_split_is_uniform():
    # Of i leaves each is split with probability 1/i, so the number of the k leaves that end up
    # left of the first split is uniform on 1..k-1 (a Polya urn).
    for k in (3, 6):
        forest = PureTrees(PURE_MANY // 4, k).grow(FINE, random_state=k)
        assert pure_p_value(leaves_left(forest) - 1, np.ones(k - 1)) > 1e-3


def test_negative_control_a_coin_between_the_sides_of_the_root_is_rejected():
    forest = PureTrees(2000, 6).grow(FINE, random_state=1)
    drawn = leaves_left(forest) - 1
    binomial = np.array([1, 4, 6, 4, 1]) / 16  # each split left or right by a coin
    assert pure_p_value(drawn, binomial) < 1e-6


def test_the_attribute_is_uniform_and_independent_of_the_one_above():
    forest = PureTrees(PURE_MANY, 2).grow(Domain.from_sizes([1 << 10] * 3), random_state=2)
    assert pure_p_value(forest.attribute[forest.roots], np.ones(3)) > 1e-3
    forest = PureTrees(PURE_MANY, 3).grow(Domain.from_sizes([1 << 10] * 3), random_state=3)
    second = (forest.parent >= 0) & (forest.attribute >= 0)
    pair = 3 * forest.attribute[forest.parent[second]] + forest.attribute[second]
    assert pure_p_value(pair, np.ones(9)) > 1e-3


def test_uniform_cuts_are_uniform_over_the_codes_that_remain():
    size = 8
    forest = PureTrees(PURE_MANY, 3).grow(Domain.from_sizes([size]), random_state=4)
    cut = cuts(forest)
    assert pure_p_value(cut[forest.roots] - 1, np.ones(size - 1)) > 1e-3
    inner = np.flatnonzero((forest.attribute >= 0) & (forest.parent >= 0))
    above = cut[forest.parent[inner]]
    is_left = inner == forest.first_child[forest.parent[inner]]
    for split in (3, 5):
        rows = inner[is_left & (above == split)]
        assert pure_p_value(cut[rows] - 1, np.ones(split - 1)) > 1e-3
        rows = inner[~is_left & (above == split)]
        assert pure_p_value(cut[rows] - split - 1, np.ones(size - split - 1)) > 1e-3


def test_negative_control_a_middle_heavy_cut_is_rejected():
    drawn = np.random.default_rng(5).binomial(6, 0.5, PURE_MANY)
    assert pure_p_value(drawn, np.ones(7)) < 1e-6


def test_midpoint_cuts_halve_the_codes_that_remain():
    forest = PureTrees(50, 40, "midpoint").grow(Domain.from_sizes([1 << 10, 1 << 10]), 0)
    widths = np.stack([mask.sum(axis=1) for mask in leaf_masks(forest)], axis=1)
    assert (np.bitwise_count(widths) == 1).all()  # powers of two
    depth = forest.depth[forest.leaves]
    assert (20 - np.log2(widths).sum(axis=1) == depth).all()
    odd = PureTrees(1, 2, "midpoint").grow(Domain.from_sizes([7]), 0)
    assert cuts(odd)[0] == 3


def test_where_codes_run_out_the_leaves_that_can_be_split_are_drawn_uniformly():
    # Sizes 2 and 4: whatever the first steps, 8 leaves are the 8 cells.
    domain = Domain.from_sizes([2, 4, 1])
    for splits in ("uniform", "midpoint"):
        forest = PureTrees(30, 100, splits).grow(domain, random_state=0)
        assert forest.n_leaves == 30 * 8
    # One attribute of 3 codes, cut at 1 or 2: the second cut must be in the part of two codes.
    forest = PureTrees(PURE_MANY, 3).grow(Domain.from_sizes([3]), random_state=6)
    assert pure_p_value(cuts(forest)[forest.roots] - 1, np.ones(2)) > 1e-3
    # Sizes 2 and 3: after cutting the first attribute both halves keep 3 codes of the second;
    # after cutting the second at 1, the leaf of one code still has the first attribute.
    forest = PureTrees(PURE_MANY, 3).grow(Domain.from_sizes([2, 3]), random_state=7)
    root = forest.attribute[forest.roots]
    assert pure_p_value(leaves_left(forest)[:3000] - 1, np.ones(2)) > 1e-3
    assert pure_p_value(root, np.ones(2)) > 1e-3


def test_closed_leaves_leave_a_uniform_choice_among_the_open_ones():
    # 0|1..6: the left part is a single code; the next cut must fall on the right part, and of
    # three leaves with two open ones, each is taken half of the time.
    forest = PureTrees(40_000, 4).grow(Domain.from_sizes([7]), random_state=8)
    cut, left = cuts(forest), forest.first_child
    root = forest.roots
    right = left[root] + 1
    chosen = root[(cut[root] == 1) & (cut[right] == 4)]  # leaves {0}, {1 2 3}, {4 5 6}
    inner = forest.attribute[left[left[chosen] + 1]] >= 0
    assert len(inner) > 500
    assert pure_p_value(inner.astype(int), np.ones(2)) > 1e-3


def test_pure_only_the_named_attributes_are_split():
    domain = Domain([Attribute(name, size=9) for name in ("a", "b", "c")])
    forest = PureTrees(20, 9, attributes=["c", 0]).grow(domain, random_state=0)
    assert set(forest.attribute.tolist()) == {-1, 0, 2}
    assert PureTrees(2, 50, attributes=["b"]).grow(domain).n_leaves == 18


@pytest.mark.parametrize("splits", ["uniform", "midpoint"])
@pytest.mark.parametrize("k", [2, 60])
def test_heights_of_a_records_leaf_follow_lemma_2_exactly(splits, k):
    forest = PureTrees(4000, k, splits).grow(FINE, random_state=9)
    record = np.array([[300_000, 777_777]])
    heights = forest.depth[forest.leaves[forest.apply(record)[0]]]
    law = height_probabilities(k)
    if k > 2:
        assert pure_p_value(heights, law) > 1e-3
        assert pure_p_value(np.minimum(heights + 1, k - 1), law) < 1e-6  # negative control
    standard_error = heights.std() / np.sqrt(len(heights))
    assert abs(heights.mean() - expected_height(k)) <= 4 * standard_error + 1e-12
