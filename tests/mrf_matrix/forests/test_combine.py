"""Trees are taken out of forests and put together without changing what they say."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Provenance, PureDP
from mrf_matrix.domain import Domain
from mrf_matrix.forests import RandomTrees, concatenate, take_trees

DOMAIN = Domain.from_sizes([5, 4, 3])
CODES = np.random.default_rng(0).integers(0, 3, size=(100, 3))


@given(data=st.data())
def test_trees_taken_route_as_before(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    trees = data.draw(st.permutations(range(forest.n_trees)))
    trees = trees[: data.draw(st.integers(1, forest.n_trees))]
    some = take_trees(forest, trees)
    cells = all_cells(forest.domain.sizes)
    whole, part = forest.apply(cells), some.apply(cells)
    first = np.searchsorted(forest.leaf_tree, np.arange(forest.n_trees))
    first_taken = np.searchsorted(some.leaf_tree, np.arange(some.n_trees))
    assert np.array_equal(part - first_taken, (whole - first)[:, trees])


def test_together_and_apart_again():
    parts = [
        RandomTrees(3, 2).grow(DOMAIN, random_state=0),
        RandomTrees(2, 3, "binary").grow(DOMAIN, random_state=1),
        RandomTrees(1, 0).grow(DOMAIN),
    ]
    whole = concatenate(parts)
    before = np.cumsum([0] + [part.n_leaves for part in parts])
    expected = [part.apply(CODES) + n for part, n in zip(parts, before, strict=False)]
    assert np.array_equal(whole.apply(CODES), np.concatenate(expected, axis=1))
    assert len(whole.branches) == len(parts[0].branches)  # equal pools are kept once
    assert whole.source == "random multi-way trees + random binary trees"
    assert np.array_equal(take_trees(whole, [3, 4]).apply(CODES), parts[1].apply(CODES))


def test_what_the_parts_say_of_themselves_is_kept():
    plain = RandomTrees(1, 1).grow(DOMAIN)
    learned = replace(plain, provenance=Provenance.from_records("forest"))
    assert concatenate([plain, learned]).is_data_dependent
    assert not concatenate([plain, plain]).is_data_dependent
    first, second = (replace(plain, provenance=Provenance.spent(PureDP(1))) for _ in range(2))
    assert len(concatenate([first, second]).provenance.spendings) == 2
    assert len(concatenate([first, first]).provenance.spendings) == 1, "one charge is added once"


def test_what_cannot_be_combined():
    with pytest.raises(ValueError, match="forests is empty"):
        concatenate([])
    other = RandomTrees(1, 1).grow(Domain.from_sizes([5, 4]))
    with pytest.raises(ValueError, match=r"forests\[1\] has another domain"):
        concatenate([RandomTrees(1, 1).grow(DOMAIN), other])


@pytest.mark.parametrize("trees", [[], [3], [-1], [0, 0], [0.5], [[0]]])
def test_trees_that_are_not_there(trees):
    with pytest.raises(ValueError, match="trees="):
        take_trees(RandomTrees(3, 1).grow(DOMAIN), trees)


def test_pools_that_differ_are_joined():
    forest = RandomTrees(2, 3, "binary").grow(DOMAIN, random_state=0)
    moved = {"branches": np.append(7, forest.branches), "pattern": forest.pattern + 1}
    other = replace(forest, **moved)
    whole = concatenate([forest, other, forest])
    assert len(whole.branches) == len(forest.branches) + len(other.branches)
    leaves = forest.apply(CODES)
    expected = [leaves + i * forest.n_leaves for i in range(3)]
    assert np.array_equal(whole.apply(CODES), np.concatenate(expected, axis=1))
