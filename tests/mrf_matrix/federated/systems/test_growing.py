"""Trees of several parties: whose turn it is, what is kept, and what the leaves say."""

from dataclasses import replace

import numpy as np
import pytest

from mrf_matrix.compilation import leaf_counts
from mrf_matrix.domain import Domain
from mrf_matrix.federated.systems import adjusted_leaves, grow_collaboratively, grow_separately
from mrf_matrix.federated.systems.growing import node_counts
from mrf_matrix.forests import BreimanTrees, RandomTrees

K = 4
DOMAIN = Domain.from_sizes([2] * K, 2)
TREES = BreimanTrees(9, "entropy", 1, max_features=K)


def own_attribute(party, count=40):
    """Return records that only one attribute tells apart: the party's."""
    codes = np.zeros((count, K), dtype=int)
    codes[count // 2 :, party] = 1
    return codes, codes[:, party].copy()


def random_parts(sizes=(60, 0, 45, 20), seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 6, (sum(sizes), 3))
    labels = (codes[:, 0] + codes[:, 1] + rng.integers(0, 3, len(codes))) // 5
    ends = np.cumsum(sizes)[:-1]
    domain = Domain.from_sizes([6, 6, 6], 3)
    return domain, list(zip(np.split(codes, ends), np.split(labels, ends), strict=True))


def attributes_on_the_way(forest, tree):
    """Return the attributes that a record of zeros meets."""
    node, met = int(forest.roots[tree]), []
    while forest.attribute[node] >= 0:
        met.append(int(forest.attribute[node]))
        node = int(forest.first_child[node])
    return met


def test_every_party_grows_every_tree_once_and_in_the_published_order():
    parts = [own_attribute(party) for party in range(K)]
    forest = grow_collaboratively(DOMAIN, parts, TREES, random_state=0)
    subset = np.repeat(np.arange(K), [3, 2, 2, 2])  # nine trees in four subsets
    for tree, own in enumerate(subset):
        # in round r party i has subset (i + r) mod k, so subset s comes to party (s - r) mod k
        assert attributes_on_the_way(forest, tree) == [(own - r) % K for r in range(K)]


def test_one_party_grows_the_centralised_forest():
    domain, parts = random_parts((80,))
    alone = grow_collaboratively(domain, parts, TREES, random_state=3)
    central, shares = grow_separately(domain, parts, TREES, random_state=3)
    cells = np.indices(domain.sizes).reshape(3, -1).T
    np.testing.assert_array_equal(alone.apply(cells), central.apply(cells))
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_the_forest_depends_on_seeds_alone_and_on_the_passes():
    domain, parts = random_parts()
    one = grow_collaboratively(domain, parts, TREES, random_state=1)
    assert one == grow_collaboratively(domain, parts, TREES, random_state=1, n_jobs=2)
    assert one != grow_collaboratively(domain, parts, TREES, random_state=2)
    more = grow_collaboratively(domain, parts, TREES, n_passes=3, random_state=1)
    assert more.n_leaves > one.n_leaves
    assert one.n_trees == 9
    assert one.is_data_dependent
    assert not one.provenance.released


def test_every_leaf_that_parties_grew_has_records():
    domain, parts = random_parts()
    forest = grow_collaboratively(domain, parts, TREES, random_state=1)
    held = sum(leaf_counts(forest, *part, 3) for part in parts)
    assert held.sum(axis=1).min() > 0


def test_separate_trees_are_each_party_s_own():
    domain, parts = random_parts()
    parts = [(codes, np.full_like(labels, i % 3)) for i, (codes, labels) in enumerate(parts)]
    parts[3][1][:10] = 1
    forest, shares = grow_separately(domain, parts, TREES, random_state=0)
    assert forest.n_trees == 9  # three for each of the three that have records
    of_tree = [shares[forest.leaf_tree == tree] for tree in range(9)]
    assert all((rows == [1, 0, 0]).all() for rows in of_tree[:3])
    assert all((rows == [0, 0, 1]).all() for rows in of_tree[3:6])
    assert all((rows[:, 2] == 0).all() and len(rows) > 1 for rows in of_tree[6:])
    more, _ = grow_separately(domain, parts, TREES, trees_per_party=5, random_state=0)
    assert more.n_trees == 15
    few, _ = grow_separately(domain, parts, replace(TREES, n_trees=2), random_state=0)
    assert few.n_trees == 2


def vectors_by_hand(forest, parts, aggregate):
    """Return each leaf's vector from sets of records, one leaf at a time."""
    found = np.empty((forest.n_leaves, 3))
    for leaf in range(forest.n_leaves):
        node = int(forest.leaves[leaf])
        while True:
            below = [node]
            for one in below:
                if forest.attribute[one] >= 0:
                    first = int(forest.first_child[one])
                    below += range(first, first + int(forest.n_children[one]))
            held = {int(forest.leaf_index[one]) for one in below if forest.attribute[one] < 0}
            here = [
                np.bincount(labels[np.isin(forest.apply(codes), list(held)).any(axis=1)], None, 3)
                for codes, labels in parts
            ]
            if sum(map(np.sum, here)):
                break
            node = int(forest.parent[node])
        reached = [counts / counts.sum() for counts in here if counts.sum()]
        found[leaf] = {
            "reached": sum(reached) / len(reached),
            "all": sum(reached) / len(parts),
            "pooled": sum(here) / sum(map(np.sum, here)),
        }[aggregate]
    return found


@pytest.mark.parametrize("aggregate", ["reached", "all", "pooled"])
@pytest.mark.parametrize("structure", ["grown", "public"])
def test_leaves_hold_the_mean_of_what_parties_find(structure, aggregate):
    domain, parts = random_parts((30, 0, 8, 20))
    forest = (
        grow_collaboratively(domain, parts, replace(TREES, n_trees=4), random_state=0)
        if structure == "grown"
        else RandomTrees(3, 2, splits="multiway").grow(domain, random_state=0)
    )
    found = adjusted_leaves(forest, parts, aggregate)
    np.testing.assert_allclose(found, vectors_by_hand(forest, parts, aggregate))


def test_pooled_leaves_are_those_of_all_records_together():
    domain, parts = random_parts()
    forest = grow_collaboratively(domain, parts, TREES, random_state=0)
    whole = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    counts = leaf_counts(forest, *whole, 3)
    expected = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(adjusted_leaves(forest, parts, "pooled"), expected)
    for aggregate in ("all", "reached"):
        np.testing.assert_array_equal(adjusted_leaves(forest, [whole], aggregate), expected)
    roots = node_counts(forest, counts)[forest.roots]
    assert (roots == np.bincount(whole[1], minlength=3)).all()


def test_no_record_and_unknown_means_are_refused():
    domain, parts = random_parts((0, 0))
    for grow in (grow_collaboratively, grow_separately):
        with pytest.raises(ValueError, match="parts holds no record"):
            grow(domain, parts, TREES)
    forest = RandomTrees(1, 1).grow(domain)
    with pytest.raises(ValueError, match="aggregate='mean'"):
        adjusted_leaves(forest, parts, "mean")


def test_one_record_more_decides_whether_a_tree_is_split():
    """No finite ε holds of published growing: with one record of a class nothing is split."""
    codes, labels = np.zeros((30, 3), dtype=int), np.zeros(30, dtype=int)
    other = (np.append(codes, [[5, 5, 5]], axis=0), np.append(labels, 1))
    domain = Domain.from_sizes([6, 6, 6], 3)
    trees = replace(TREES, n_trees=40)
    without = grow_collaboratively(domain, [(codes, labels)], trees, random_state=0)
    with_it = grow_collaboratively(domain, [other], trees, random_state=0)
    assert without.n_leaves == 40
    assert with_it.n_leaves > 50  # it is in most bootstraps, and splits those trees
