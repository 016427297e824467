"""SimplifiedBreimanTrees against Algorithm 1 written with a queue, and its laws of chance."""

from collections import deque
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from mrf_matrix.domain import Domain
from mrf_matrix.forests import SimplifiedBreimanTrees, impure_diameter, leaf_masks
from mrf_matrix.forests.learned import grown_trees as module


def is_pure(codes, labels, low, high):
    inside = ((codes >= low) & (codes < high)).all(axis=1)
    return len(set(labels[inside].tolist())) <= 1


def longest(low, high, sizes):
    """Return the longest sides, in exact arithmetic."""
    share = [
        Fraction(int(b - a), size) if b - a >= 2 else Fraction(0)
        for a, b, size in zip(low, high, sizes, strict=True)
    ]
    return [i for i, s in enumerate(share) if s > 0 and s == max(share)]


def replay(forest, tree, codes, labels, n_leaves):
    """Walk Algorithm 1 line by line along a tree, checking every decision it left a trace of."""
    sizes = forest.domain.sizes
    queue = deque([(forest.roots[tree], np.zeros(len(sizes), int), np.array(sizes))])
    n = 1
    while n < n_leaves and queue:
        node, low, high = queue.popleft()
        sides = longest(low, high, sizes)
        if is_pure(codes, labels, low, high) or not sides:
            assert forest.attribute[node] < 0
            continue
        i = forest.attribute[node]
        assert i in sides
        cut = (low[i] + high[i]) // 2
        table = forest.branches[forest.pattern[node] : forest.pattern[node] + sizes[i]]
        assert (table == (np.arange(sizes[i]) >= cut)).all()
        for side, bound in enumerate((high, low)):
            part = bound.copy()
            part[i] = cut
            corners = (low, part) if side == 0 else (part, high)
            queue.append((forest.first_child[node] + side, *corners))
        n += 1
    for node, _, _ in queue:
        assert forest.attribute[node] < 0
    return n


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    n_records=st.integers(0, 60),
    n_leaves=st.integers(1, 40),
    n_classes=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_every_tree_is_a_run_of_algorithm_1(sizes, n_records, n_leaves, n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n_records, len(sizes)))
    labels = rng.integers(0, n_classes, size=n_records)
    trees = SimplifiedBreimanTrees(n_trees=3, n_leaves=n_leaves)
    forest = trees.grow(Domain.from_sizes(sizes), codes, labels, seed)
    for tree in range(3):
        n = replay(forest, tree, codes, labels, n_leaves)
        assert n == np.count_nonzero(forest.leaf_tree == tree)


def noisy(n=400, sizes=(64, 64, 64), seed=0):
    rng = np.random.default_rng(seed)
    return Domain.from_sizes(sizes), rng.integers(0, sizes, (n, len(sizes))), rng.integers(0, 2, n)


def test_it_says_that_it_depends_on_the_records():
    domain, codes, labels = noisy()
    forest = SimplifiedBreimanTrees(2, 8).grow(domain, codes, labels, 0)
    assert forest.is_data_dependent
    assert not forest.provenance.released
    assert "data-dependent" in repr(forest)
    moved = labels.copy()
    moved[codes[:, 0] < 40] = 0
    other = SimplifiedBreimanTrees(2, 8).grow(domain, codes, moved, 0)
    assert forest != other


def test_without_records_it_explains():
    with pytest.raises(ValueError, match=r"needs codes and labels.*PureTrees or RandomTrees"):
        SimplifiedBreimanTrees().grow(Domain.from_sizes([4]))


def test_sides_are_drawn_uniformly_among_the_longest():
    domain, codes, labels = noisy(40)
    forest = SimplifiedBreimanTrees(6000, 2).grow(domain, codes, labels, 1)
    drawn = np.bincount(forest.attribute[forest.roots], minlength=3)
    assert chisquare(drawn).pvalue > 1e-3
    assert chisquare(drawn, np.array([0.4, 0.3, 0.3]) * 6000).pvalue < 1e-6  # negative control
    forest = SimplifiedBreimanTrees(6000, 3).grow(domain, codes, labels, 2)
    first = forest.attribute[forest.roots]
    second = forest.attribute[forest.first_child[forest.roots]]
    assert (second != first).all()  # halved once, a side is no longest side
    assert chisquare(np.bincount((second - first) % 3 - 1)).pvalue > 1e-3


def test_impure_leaves_are_small():
    domain, codes, labels = noisy(3000)
    for k in (5, 16, 33, 100):
        forest = SimplifiedBreimanTrees(3, k).grow(domain, codes, labels, 0)
        sides = np.stack([mask.sum(axis=1) for mask in leaf_masks(forest)], axis=1) / 64
        counts = np.zeros((forest.n_leaves, 2), int)
        for column in forest.apply(codes).T:
            np.add.at(counts, (column, labels), 1)
        impure = (counts > 0).all(axis=1)
        diameter = np.sqrt((sides[impure] ** 2).sum(axis=1)).max()
        assert diameter <= impure_diameter(k, 3) + 1e-12
        assert impure_diameter(k, 3) <= 2 * np.sqrt(3) * k ** (-1 / 3)


def test_blocks_of_trees_are_joined(monkeypatch):
    domain, codes, labels = noisy(100)
    monkeypatch.setattr(module, "BLOCK", 250)
    forest = SimplifiedBreimanTrees(7, 9).grow(domain, codes, labels, 0)
    assert (np.bincount(forest.leaf_tree) == 9).all()
    assert forest.is_data_dependent
    for tree in range(7):
        replay(forest, tree, codes, labels, 9)


def test_the_seed_decides():
    domain, codes, labels = noisy()
    grow = SimplifiedBreimanTrees(4, 30).grow
    assert grow(domain, codes, labels, 3) == grow(domain, codes, labels, 3)
    assert grow(domain, codes, labels, 3) != grow(domain, codes, labels, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.zeros(3, int)}, "labels has the wrong shape"),
        ({"labels": np.zeros(400)}, "type float64"),
        ({"codes": np.full((400, 3), 64)}, "expected 0 to 63"),
        ({"codes": np.zeros((400, 2), int)}, "wrong shape"),
    ],
)
def test_records_are_checked(changes, message):
    domain, codes, labels = noisy()
    with pytest.raises(ValueError, match=message):
        SimplifiedBreimanTrees(2).grow(domain, **({"codes": codes, "labels": labels} | changes))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"n_trees": 0}, ValueError),
        ({"n_leaves": "3"}, TypeError),
        ({"attributes": "a"}, TypeError),
    ],
)
def test_parameters_are_checked(arguments, error):
    with pytest.raises(error, match=next(iter(arguments))):
        SimplifiedBreimanTrees(**arguments)


def test_only_the_named_attributes_are_split():
    domain, codes, labels = noisy()
    trees = SimplifiedBreimanTrees(5, 20, attributes=["x2", "x0"])
    forest = trees.grow(domain, codes, labels, 0)
    assert set(forest.attribute.tolist()) == {-1, 0, 2}
