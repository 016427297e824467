"""Every route to the cuts of a node against counting one record at a time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mrf_matrix.forests.growth import search as cuts_module
from mrf_matrix.forests.growth.growth import CRITERIA, Impurity
from mrf_matrix.forests.growth.records import Items
from mrf_matrix.forests.growth.search import find_code_cuts

ROUTES = ("_by_counts", "_by_sums", "_by_runs")


def random_items(seed, n_nodes, n_classes, size, n, estimation, criterion="gini"):
    """Return items sorted by (node, slot) with random codes; node 0 stays empty sometimes."""
    rng = np.random.default_rng(seed)
    slots = n_classes + estimation
    node = rng.integers(0, n_nodes, n)
    slot = rng.integers(0, slots, n)
    order = np.lexsort((slot, node))
    items = Items(
        np.arange(n), node[order], slot[order], n_nodes, n_classes, slots, Impurity(criterion)
    )
    return items, rng.integers(0, size, n).astype(np.int32)


def purity(counts, criterion):
    n = counts.sum()
    return (
        n * (1 - Impurity(criterion).of(counts))
        if criterion == "gini"
        else -n * Impurity(criterion).of(counts)
    )


def naive(items, codes, criterion, least, equal=False):
    """Return {(node, low, high): score} by looking at one candidate after the other."""
    found = {}
    for node in range(items.n_nodes):
        here = items.node == node
        is_class = here & (items.slot < items.n_classes)
        present = np.unique(codes[is_class])
        pairs = [(c, c) for c in present] if equal else list(pairwise(present))
        for low, high in pairs:
            left = codes == low if equal else codes <= low
            sides = [
                np.bincount(items.slot[is_class & side], minlength=items.n_classes)
                for side in (left, ~left)
            ]
            if not sides[0].sum() or not sides[1].sum():
                continue
            judged = here & (items.slot == items.n_classes)
            if items.n_slots == items.n_classes:
                judged = here
            if min((judged & left).sum(), (judged & ~left).sum()) < least:
                continue
            found[node, int(low), int(high)] = sum(purity(side, criterion) for side in sides)
    return found


def as_dict(found):
    cuts = found.cuts()
    return {
        (int(n), int(a), int(b)): s
        for n, a, b, s in zip(cuts.node, cuts.low, cuts.high, cuts.score, strict=True)
    }


def check(found, expected, n_nodes):
    got = as_dict(found)
    assert got.keys() == expected.keys()
    np.testing.assert_allclose(
        [got[key] for key in expected], list(expected.values()), rtol=1e-9, atol=1e-9
    )
    best = found.best()
    for node in range(n_nodes):
        scores = [s for key, s in expected.items() if key[0] == node]
        np.testing.assert_allclose(best[node], max(scores, default=-np.inf), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("estimation", [False, True])
@given(seed=st.integers(0, 10**6), least=st.integers(1, 3))
@example(seed=1573, least=1)  # a slot for estimation points, and none of them
def test_routes_agree_with_counting(route, criterion, estimation, seed, least):
    rng = np.random.default_rng(seed)
    n_nodes, k, size = rng.integers(1, 6), rng.integers(1, 5), rng.integers(2, 9)
    n = int(rng.integers(1, 60))
    items, codes = random_items(seed, int(n_nodes), int(k), size, n, estimation, criterion)
    found = getattr(cuts_module, route)(items, codes, int(size), least)
    check(found, naive(items, codes, criterion, least), items.n_nodes)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("estimation", [False, True])
@given(seed=st.integers(0, 10**6), least=st.integers(1, 3))
def test_one_code_cuts_agree_with_counting(criterion, estimation, seed, least):
    items, codes = random_items(seed, 4, 3, 5, 40, estimation, criterion)
    found = find_code_cuts(items, codes, 5, least)
    check(found, naive(items, codes, criterion, least, equal=True), 4)


def test_the_oracle_sees_a_wrong_score():
    items, codes = random_items(0, 2, 2, 4, 30, False)
    expected = naive(items, codes, "gini", 1)
    expected[next(iter(expected))] += 0.01
    with pytest.raises(AssertionError):
        check(cuts_module.find_cuts(items, codes, 4), expected, 2)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_scores_order_cuts_as_impurity_decreases_do(criterion):
    impurity = Impurity(criterion)
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 9, 4) + 1
    left = rng.integers(0, whole, size=(50, 4))
    decrease = impurity.decrease(left, whole - left)
    scores = [purity(a, criterion) + purity(whole - a, criterion) for a in left]
    slope = np.diff(scores) / np.where(np.diff(decrease) == 0, np.nan, np.diff(decrease))
    np.testing.assert_allclose(slope[np.isfinite(slope)], whole.sum(), rtol=1e-6)
    assert decrease.min() > -1e-12


def test_unknown_criterion_is_refused():
    with pytest.raises(ValueError, match=r"criterion='mse'.*'gini', 'entropy'"):
        Impurity("mse")
