"""PureTrees follow the papers' law: leaves and sides uniform, cuts uniform or in the middle."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chisquare

from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.forests import (
    PathSource,
    PureTrees,
    expected_height,
    height_probabilities,
    leaf_masks,
)
from mrf_matrix.forests.sources import pure as module

FINE = Domain.from_sizes([1 << 20, 1 << 20])
MANY = 12_000


def p_value(drawn: np.ndarray, law: np.ndarray) -> float:
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


def test_it_is_a_path_source():
    assert isinstance(PureTrees(), PathSource)
    forest = PureTrees(3, 5).grow(FINE, random_state=0)
    assert not forest.is_data_dependent
    assert not forest.provenance.unknown


@pytest.mark.parametrize("splits", ["uniform", "midpoint"])
@pytest.mark.parametrize("n_leaves", [1, 2, 3, 17])
def test_every_tree_has_k_leaves_of_binary_splits(splits, n_leaves):
    forest = PureTrees(7, n_leaves, splits).grow(FINE, random_state=0)
    assert (np.bincount(forest.leaf_tree) == n_leaves).all()
    assert set(forest.n_children.tolist()) <= {0, 2}


def test_the_same_seed_grows_the_same_forest_in_every_process():
    program = (
        "from hashlib import sha256\n"
        "from mrf_matrix.domain import Domain\n"
        "from mrf_matrix.forests import PureTrees\n"
        "f = PureTrees(20, 9).grow(Domain.from_sizes([64, 9]), 7)\n"
        "digest = sha256(f.attribute.tobytes() + f.pattern.tobytes()).hexdigest()\n"
    )
    here: dict[str, str] = {}
    exec(program, here)
    there = subprocess.run(
        [sys.executable, "-c", program + "print(digest)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here["digest"]
    for splits in ("uniform", "midpoint"):
        source = PureTrees(20, 9, splits)
        assert source.grow(FINE, 7) == source.grow(FINE, np.random.default_rng(7))
        assert source.grow(FINE, 7) != source.grow(FINE, 8)
        assert source.grow(FINE) != source.grow(FINE)


def test_the_leaf_to_split_is_uniform():
    # Of i leaves each is split with probability 1/i, so the number of the k leaves that end up
    # left of the first split is uniform on 1..k-1 (a Polya urn).
    for k in (3, 6):
        forest = PureTrees(MANY // 4, k).grow(FINE, random_state=k)
        assert p_value(leaves_left(forest) - 1, np.ones(k - 1)) > 1e-3


def test_negative_control_a_coin_between_the_sides_of_the_root_is_rejected():
    forest = PureTrees(2000, 6).grow(FINE, random_state=1)
    drawn = leaves_left(forest) - 1
    binomial = np.array([1, 4, 6, 4, 1]) / 16  # each split left or right by a coin
    assert p_value(drawn, binomial) < 1e-6


def test_the_attribute_is_uniform_and_independent_of_the_one_above():
    forest = PureTrees(MANY, 2).grow(Domain.from_sizes([1 << 10] * 3), random_state=2)
    assert p_value(forest.attribute[forest.roots], np.ones(3)) > 1e-3
    forest = PureTrees(MANY, 3).grow(Domain.from_sizes([1 << 10] * 3), random_state=3)
    second = (forest.parent >= 0) & (forest.attribute >= 0)
    pair = 3 * forest.attribute[forest.parent[second]] + forest.attribute[second]
    assert p_value(pair, np.ones(9)) > 1e-3


def test_uniform_cuts_are_uniform_over_the_codes_that_remain():
    size = 8
    forest = PureTrees(MANY, 3).grow(Domain.from_sizes([size]), random_state=4)
    cut = cuts(forest)
    assert p_value(cut[forest.roots] - 1, np.ones(size - 1)) > 1e-3
    inner = np.flatnonzero((forest.attribute >= 0) & (forest.parent >= 0))
    above = cut[forest.parent[inner]]
    is_left = inner == forest.first_child[forest.parent[inner]]
    for split in (3, 5):
        rows = inner[is_left & (above == split)]
        assert p_value(cut[rows] - 1, np.ones(split - 1)) > 1e-3
        rows = inner[~is_left & (above == split)]
        assert p_value(cut[rows] - split - 1, np.ones(size - split - 1)) > 1e-3


def test_negative_control_a_middle_heavy_cut_is_rejected():
    drawn = np.random.default_rng(5).binomial(6, 0.5, MANY)
    assert p_value(drawn, np.ones(7)) < 1e-6


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
    forest = PureTrees(MANY, 3).grow(Domain.from_sizes([3]), random_state=6)
    assert p_value(cuts(forest)[forest.roots] - 1, np.ones(2)) > 1e-3
    # Sizes 2 and 3: after cutting the first attribute both halves keep 3 codes of the second;
    # after cutting the second at 1, the leaf of one code still has the first attribute.
    forest = PureTrees(MANY, 3).grow(Domain.from_sizes([2, 3]), random_state=7)
    root = forest.attribute[forest.roots]
    assert p_value(leaves_left(forest)[:3000] - 1, np.ones(2)) > 1e-3
    assert p_value(root, np.ones(2)) > 1e-3


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
    assert p_value(inner.astype(int), np.ones(2)) > 1e-3


def test_only_the_named_attributes_are_split():
    domain = Domain([Attribute(name, size=9) for name in ("a", "b", "c")])
    forest = PureTrees(20, 9, attributes=["c", 0]).grow(domain, random_state=0)
    assert set(forest.attribute.tolist()) == {-1, 0, 2}
    assert PureTrees(2, 50, attributes=["b"]).grow(domain).n_leaves == 18


@pytest.mark.parametrize("splits", ["uniform", "midpoint"])
@pytest.mark.parametrize("k", [2, 10, 60])
def test_heights_of_a_records_leaf_follow_lemma_2_exactly(splits, k):
    forest = PureTrees(4000, k, splits).grow(FINE, random_state=9)
    record = np.array([[300_000, 777_777]])
    heights = forest.depth[forest.leaves[forest.apply(record)[0]]]
    law = height_probabilities(k)
    if k > 2:
        assert p_value(heights, law) > 1e-3
        assert p_value(np.minimum(heights + 1, k - 1), law) < 1e-6  # negative control
    standard_error = heights.std() / np.sqrt(len(heights))
    assert abs(heights.mean() - expected_height(k)) <= 4 * standard_error + 1e-12


def test_blocks_of_trees_grow_the_same_law(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 100)
    forest = PureTrees(500, 10).grow(FINE, random_state=10)
    assert (np.bincount(forest.leaf_tree) == 10).all()
    assert p_value(forest.attribute[forest.roots], np.ones(2)) > 1e-3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_trees": 0}, ValueError, "n_trees=0: expected at least 1"),
        ({"n_leaves": 0}, ValueError, "n_leaves=0: expected at least 1"),
        ({"n_leaves": 2.5}, TypeError, r"n_leaves=2\.5: expected an integer"),
        ({"n_trees": True}, TypeError, "n_trees=True: expected an integer"),
        ({"splits": "median"}, ValueError, "splits='median': expected one of 'uniform', 'mid"),
        ({"attributes": "age"}, TypeError, "expected a sequence"),
    ],
)
def test_parameters_are_checked(arguments, error, message):
    with pytest.raises(error, match=message):
        PureTrees(**arguments)


def test_a_forest_too_large_is_refused_before_it_is_grown():
    with pytest.raises(ValueError, match="lower n_trees or n_leaves"):
        PureTrees(10_000, 10_000).grow(FINE)
