"""Private growth: what it holds at once, and what it refuses before anything is spent."""

import tracemalloc

import numpy as np
import pytest

from mrf_matrix.domain import Domain
from mrf_matrix.estimators import MultinomialForestClassifier
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.forests.growth import private as private_sizes
from mrf_matrix.forests.growth.private import GrowthSizes
from mrf_matrix.mechanisms import PrivacyLedger
from strategies.operators import MemoryCapError, memory_cap

DOMAIN = Domain.from_sizes([3, 4, 2], 2)


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, s, n) for s in DOMAIN.sizes], axis=1), rng.integers(0, 2, n)


def peak(grow):
    tracemalloc.start()
    grow()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


@pytest.mark.parametrize("disjoint", [False, True])
def test_memory_does_not_grow_with_records_times_trees(monkeypatch, disjoint):
    monkeypatch.setattr(private_sizes, "POINTS", 1 << 12)
    codes, labels = records(20_000)

    def grown(n_trees):
        trees = PrivateMultinomialTrees(1, n_trees, 2, structure_share=0.5, disjoint=disjoint)
        return lambda: trees.grow(DOMAIN, codes, labels)

    grown(1)()  # what is imported and kept once
    assert peak(grown(24)) < 1.5 * peak(grown(3))


@pytest.mark.parametrize("points", [1, 100, 1 << 20])
def test_the_forest_does_not_tell_how_many_trees_were_grown_together(monkeypatch, points):
    monkeypatch.setattr(private_sizes, "POINTS", points)
    codes, labels = records(40)
    grown = PrivateMultinomialTrees(1, 5, 6).grow(DOMAIN, codes, labels)
    forest = grown.forest
    assert np.array_equal(forest.roots, np.arange(5))
    assert np.array_equal(np.concatenate(forest.levels), np.arange(forest.n_nodes))


@pytest.mark.parametrize("points", [1, 100, 1 << 20])
def test_leaf_counts_are_of_the_points_that_the_structure_has_not_seen(monkeypatch, points):
    monkeypatch.setattr(private_sizes, "POINTS", points)
    codes, labels = records(200)
    grown = PrivateMultinomialTrees(1, 7, 3, structure_share=0.001).grow(DOMAIN, codes, labels)
    leaf = grown.forest.apply(codes)
    k = DOMAIN.n_classes
    all_of_them = np.zeros((grown.forest.n_leaves, k), dtype=int)
    np.add.at(all_of_them, (leaf, labels[:, None]), 1)
    assert (grown.leaf_counts <= all_of_them).all()
    assert grown.leaf_counts.sum() > 0.9 * 7 * 200
    nothing = PrivateMultinomialTrees(1, 7, 3).grow(DOMAIN, codes, labels)
    assert nothing.leaf_counts.sum() == 0


def test_sizes_bound_what_is_grown():
    for depth in range(6):
        bound = GrowthSizes(DOMAIN, 4, depth)
        forest = PrivateMultinomialTrees(1, 4, depth).grow(DOMAIN, *records(30)).forest
        assert forest.n_leaves <= bound.leaves
    assert GrowthSizes(DOMAIN, 4, 10**9).leaves == 4 * 24
    assert forest.n_leaves > GrowthSizes(DOMAIN, 4, 2).leaves


WIDE = Domain.from_sizes([16] * 6, 2)
TOO_LARGE = {
    "nodes": (WIDE, {"max_depth": 24, "n_trees": 4}, None, "above the limit"),
    "leaves": (DOMAIN, {"n_trees": 50}, 10_000, "class counts of all leaves"),
    "candidates": (
        Domain.from_sizes([5000, 2], 3),
        {"n_trees": 1, "max_depth": 1},
        200_000,
        "class counts of a node's candidates",
    ),
    "rate": (DOMAIN, {"epsilon": 10**9, "n_trees": 1, "label_score": "count"}, None, "rate="),
}


@pytest.mark.parametrize("name", TOO_LARGE)
@pytest.mark.parametrize("n", [6, 60])
def test_what_could_not_be_grown_is_refused_before_the_charge(name, n):
    domain, given, cap, said = TOO_LARGE[name]
    ledger = PrivacyLedger(epsilon=10**12)
    codes = np.zeros((n, domain.n_attributes), dtype=int)
    forest = MultinomialForestClassifier(domain, **({"epsilon": 1, "ledger": ledger} | given))
    with memory_cap(cap or 2**31), pytest.raises(ValueError, match=said) as error:
        forest.fit(codes, np.arange(n) % 2)
    assert ledger.spent == 0
    assert f"{n} " not in str(error.value)
    assert isinstance(error.value, MemoryCapError) == (cap is not None)
