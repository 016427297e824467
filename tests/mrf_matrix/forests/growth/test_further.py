"""Forests that are grown further: the same law as growing at once, and no split undone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests import (
    BreimanTrees,
    MultinomialTrees,
    RandomTrees,
)
from mrf_matrix.forests.assembly import graft
from mrf_matrix.forests.growth import grow as grow_module
from mrf_matrix.forests.growth.grow import bare_roots, grow_further
from mrf_matrix.mechanisms import PureDP

SIZES = (5, 3, 7, 2)
SOURCES = [
    BreimanTrees(9, "entropy", 1),
    BreimanTrees(9, nominal=("x1",)),
    MultinomialTrees(9, max_depth=2, nominal=(0, 3)),
]
GREEDY = BreimanTrees(6, "entropy", 1, max_features=4)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 300) for size in SIZES], axis=1)
    labels = (codes[:, 0] + codes[:, 2] + rng.integers(0, 4, 300)) // 5
    return Domain.from_sizes(SIZES, int(labels.max()) + 1), codes, labels


def further(forest, codes, labels, source, random_state=0):
    return grow_further(
        forest, codes, labels, source.growth, nominal=source.nominal, random_state=random_state
    )


@pytest.mark.parametrize("points", [grow_module.MOST_POINTS, 1000], ids=["at once", "in blocks"])
@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_from_bare_roots_it_is_the_forest_grown_at_once(
    source, points, data, all_cells, monkeypatch
):
    monkeypatch.setattr(grow_module, "MOST_POINTS", points)
    domain, codes, labels = data
    once = source.grow(domain, codes, labels, random_state=5).forest
    found = further(bare_roots(domain, 9), codes, labels, source, random_state=5)
    cells = all_cells(SIZES)
    np.testing.assert_array_equal(found.apply(cells), once.apply(cells))
    assert found.n_leaves == once.n_leaves
    assert found.is_data_dependent


def test_no_split_is_undone_and_leaves_are_cut_by_the_new_records_only(data, all_cells):
    domain, codes, labels = data
    cells = all_cells(SIZES)
    before = further(bare_roots(domain, 6), codes[:60], labels[:60], GREEDY)
    after = further(before, codes[60:], labels[60:], GREEDY)
    np.testing.assert_array_equal(after.attribute[after.roots], before.attribute[before.roots])
    old, new = before.apply(cells).ravel(), after.apply(cells).ravel()
    assert len(np.unique(new * before.n_leaves + old)) == after.n_leaves > before.n_leaves
    pure = np.zeros(240, dtype=int)
    unchanged = further(before, codes[60:], pure, GREEDY)
    np.testing.assert_array_equal(unchanged.apply(cells), before.apply(cells))


def test_the_depth_limit_counts_the_splits_above(data):
    domain, codes, labels = data
    source = replace(GREEDY, max_depth=3)
    forest = further(bare_roots(domain, 6), codes, labels, replace(GREEDY, max_depth=2))
    assert forest.max_depth == 2
    for _ in range(3):
        forest = further(forest, codes, labels, source)
    assert forest.max_depth == 3


@given(data=st.data())
def test_a_hung_tree_splits_its_leaf_alone(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    below = RandomTrees(forest.n_leaves, 1).grow(forest.domain, data.draw(st.integers(0, 9)))
    if any(size == 1 for size in forest.domain.sizes):
        return
    below, forest = replace(below, allow_empty=True), replace(forest, allow_empty=True)
    cells = all_cells(forest.domain.sizes)
    leaf, inside = forest.apply(cells), below.apply(cells)
    both = graft(forest, below).apply(cells)
    below_here = np.take_along_axis(inside, leaf, axis=1)
    # leaves are numbered left to right, as the trees below are: by leaf, then within its tree
    np.testing.assert_array_equal(both, below_here)


def test_what_cannot_be_hung_is_refused():
    domain = Domain.from_sizes([3, 2])
    forest = RandomTrees(2, 1).grow(domain, random_state=0)
    with pytest.raises(ValueError, match="subtrees has 1 trees: expected"):
        graft(forest, RandomTrees(1, 1).grow(domain))
    below = RandomTrees(forest.n_leaves, 0).grow(domain)
    np.testing.assert_array_equal(
        graft(forest, below).apply(np.array([[1, 1]])), forest.apply(np.array([[1, 1]]))
    )
    paid = replace(below, provenance=Provenance.spent(PureDP(1)))
    (charge,) = graft(forest, paid).provenance.spendings  # what it cost is kept
    assert charge.budget == PureDP(1)
