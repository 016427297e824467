"""Counts above several cuts at once, and those of the nodes below: against the definition."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Domain
from mrf_matrix.forests.sources.cuts import public_cuts
from mrf_matrix.labels import joint_counts as module
from mrf_matrix.labels.joint_counts import joint_counts
from strategies.operators import MemoryCapError, memory_cap

DOMAIN = Domain.from_sizes([3, 2, 4], n_classes=3)
CUTS = public_cuts(DOMAIN, 5, np.random.default_rng(0))
ATTRIBUTES = (0, 1, 2)


def drawn(seed, n=40):
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, DOMAIN.sizes, size=(n, 3))
    return codes, generator.integers(0, 5, size=(n, 3))


def above(codes, chosen):
    """Return which cells lie above all of some cuts, from the cuts' definition."""
    found = np.ones(len(codes), dtype=bool)
    for cut in chosen:
        found &= cut.upper[codes[:, cut.attribute]]
    return found


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@given(seed=st.integers(0, 10**6))
def test_counts_are_those_above_all_of_the_cuts(order, seed):
    codes, counts = drawn(seed)
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, order)
    assert found.total.tolist() == counts.sum(axis=0).tolist()
    assert found.above.dtype == np.int64
    for places in product(range(len(CUTS)), repeat=order):
        here = above(codes, [CUTS[i] for i in places])
        assert found.above[places].tolist() == counts[here].sum(axis=0).tolist()


@pytest.mark.parametrize("short", [-1, 0, 7, 2**30])
def test_many_records_are_counted_to_the_last(short):
    """Single precision ends at 2**24: odd numbers beyond it would be rounded."""
    codes = np.array([(1, 1, 3), (2, 1, 3), (2, 1, 2)])
    counts = np.array([[module.SINGLE + short - 3, 0, 0], [0, 1, 1], [1, 0, 0]])
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, 2)
    for places in product(range(len(CUTS)), repeat=2):
        here = above(codes, [CUTS[i] for i in places])
        assert found.above[places].tolist() == counts[here].sum(axis=0).tolist()


def test_single_precision_would_not_do_for_more(monkeypatch):
    """The negative control."""
    monkeypatch.setattr(module, "SINGLE", 2**40)
    codes, counts = np.array([(2, 1, 3)] * 2), np.array([[2**24, 0, 0], [1, 0, 0]])
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, 1)
    assert found.above.max() == 2**24


def assert_node(node, codes, counts):
    """Assert that a node has the counts of some records, above all cuts that are left to it."""
    expected = joint_counts(CUTS, ATTRIBUTES, codes, counts, max(node.order, 1))
    np.testing.assert_array_equal(node.total, expected.total)
    if node.order:
        np.testing.assert_array_equal(node.above, expected.above)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_nodes_below_have_the_counts_of_their_records(order):
    codes, counts = drawn(order)
    nodes = [(joint_counts(CUTS, ATTRIBUTES, codes, counts, order), codes, counts)]
    generator = np.random.default_rng(0)
    for _ in range(order):
        below = []
        for node, x, n in nodes:
            lower, upper = node.split()
            for place, cut in enumerate(CUTS):
                side = cut.upper[x[:, cut.attribute]]
                assert_node(lower.at(place), x[~side], n[~side])
                assert_node(upper.at(place), x[side], n[side])
            place = int(generator.integers(len(CUTS)))
            side = CUTS[place].upper[x[:, CUTS[place].attribute]]
            below += [
                (lower.at(place), x[~side], n[~side]),
                (upper.at(place), x[side], n[side]),
            ]
        nodes = below


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_parts_of_the_records_add_up(order, monkeypatch):
    codes, counts = drawn(3, n=100)
    whole = joint_counts(CUTS, ATTRIBUTES, codes, counts, order)
    monkeypatch.setattr(module, "CHUNK", 200)
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, order)
    np.testing.assert_array_equal(found.above, whole.above)


def test_large_counts_are_summed_exactly():
    codes = np.zeros((3, 3), dtype=np.int64)
    counts = np.array([[2**51 + 1, 0, 0], [2**51 + 1, 0, 0], [0, 2**40 + 1, 1]])
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, 2)
    lower, _ = found.split()
    assert lower.total[0].tolist() == [2**52 + 2, 2**40 + 1, 1]
    assert found.above.sum() == 0  # the first code is below every cut
    found = joint_counts(CUTS, ATTRIBUTES, codes + np.array([2, 1, 3]), counts, 2)
    assert found.above[1, 1].tolist() == [2**52 + 2, 2**40 + 1, 1]


def test_too_many_are_refused_before_they_are_counted():
    codes, counts = drawn(0)
    with memory_cap(1000), pytest.raises(MemoryCapError, match="above several cuts at once"):
        joint_counts(CUTS, ATTRIBUTES, codes, counts, 3)
