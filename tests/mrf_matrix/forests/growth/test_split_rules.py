"""Choices follow their rules: chi-square, with controls that must fail."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from mrf_matrix.domain import Domain
from mrf_matrix.forests.growth import search as cuts_module
from mrf_matrix.forests.growth.grow import grow_forest
from mrf_matrix.forests.growth.growth import (
    CRITERIA,
    AllAttributes,
    Bootstrap,
    Everything,
    Growth,
    Impurity,
    Partition,
    RandomAttributes,
    Softmax,
    Stopping,
)
from mrf_matrix.forests.growth.level import choose_in_groups, choose_rows, public_labels
from mrf_matrix.forests.growth.records import Items
from mrf_matrix.forests.growth.search import find_code_cuts
from mrf_matrix.mechanisms.selection import Bits, Rate, coin_exp, probabilities, select

TREES = 20_000
SIZES = (4, 3, 5)


def p_value(observed, expected):
    expected = np.asarray(expected, dtype=float)
    if (np.asarray(observed)[expected == 0] > 0).any():
        return 0.0
    kept = expected > 0
    if kept.sum() == 1:
        return 1.0
    return stats.chisquare(np.asarray(observed)[kept], expected[kept]).pvalue


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, 60) for size in SIZES], axis=1)
    labels = (codes[:, 0] + rng.integers(0, 3, 60) > 3).astype(int) + (codes[:, 2] > 3)
    return codes, labels


def law(codes, labels, b1, b2):
    """Return the root's law over (attribute, cut) straight from the paper's formulas."""
    tables = []
    for i, size in enumerate(SIZES):
        counts = np.stack([np.bincount(labels[codes[:, i] == c], minlength=3) for c in range(size)])
        left = np.cumsum(counts, axis=0)[:-1]
        tables.append(Impurity("gini").decrease(left, counts.sum(axis=0) - left))

    def softmax(scores, b):
        scaled = (scores - scores.min()) / (scores.max() - scores.min())
        if np.isinf(b):
            return (scaled == 1) / (scaled == 1).sum()
        weights = np.exp(b / 2 * scaled)
        return weights / weights.sum()

    of_attribute = softmax(np.array([table.max() for table in tables]), b1)
    return np.concatenate([p * softmax(t, b2) for p, t in zip(of_attribute, tables, strict=True)])


def roots(codes, labels, b1, b2, seed):
    growth = Growth(Everything(), AllAttributes(), Softmax(b1, b2), Stopping(1, max_depth=1))
    domain = Domain.from_sizes(SIZES, 3)
    forest = grow_forest(domain, codes, labels, growth, TREES, random_state=seed).forest
    threshold = max(SIZES) - forest.pattern[forest.roots]
    first = np.cumsum([0, *(size - 1 for size in SIZES)])
    number = first[forest.attribute[forest.roots]] + threshold - 1
    return np.bincount(number, minlength=first[-1])


@pytest.mark.parametrize(("b1", "b2"), [(0, 0), (3, 7), (10, 10), (np.inf, 2), (np.inf, np.inf)])
def test_attributes_and_cuts_follow_the_two_softmax_laws(records, b1, b2):
    counts = roots(*records, b1, b2, seed=1)
    assert p_value(counts, TREES * law(*records, b1, b2)) > 1e-4


@pytest.mark.parametrize(("b1", "b2"), [(4, 7), (3, 8)])
def test_a_slightly_different_law_is_rejected(records, b1, b2):
    counts = roots(*records, 3, 7, seed=1)
    assert p_value(counts, TREES * law(*records, b1, b2)) < 1e-6


def test_rows_and_groups_choose_alike():
    rng = np.random.default_rng(0)
    scores = np.array([0.0, 1.0, 3.0, -np.inf, 2.0])
    n = 40_000
    b, uniform = np.full(n, 2.0), rng.random(n)
    rows = choose_rows(np.tile(scores[:, None], n), b, uniform)
    some = np.isfinite(scores)
    groups = choose_in_groups(
        np.repeat(np.arange(n), some.sum()), np.tile(scores[some], n), b, uniform, n
    )
    position = np.flatnonzero(some)[groups - some.sum() * np.arange(n)]
    assert (rows == position).mean() > 0.9999  # up to rounding of the running sums
    weights = np.where(some, np.exp(np.where(some, scores, 0) / 3), 0)
    assert p_value(np.bincount(rows, minlength=5), n * weights / weights.sum()) > 1e-4


def test_equal_scores_are_chosen_uniformly_whatever_b():
    scores = np.zeros((3, 30_000))
    for b in (0.0, 5.0, np.inf):
        rng = np.random.default_rng(1)
        rows = choose_rows(scores, np.full(30_000, b), rng.random(30_000))
        assert p_value(np.bincount(rows), [10_000] * 3) > 1e-4


def test_no_option_gives_minus_one():
    scores = np.array([[-np.inf, 0.0]])
    assert choose_rows(scores, np.ones(2), np.zeros(2)).tolist() == [-1, 0]
    empty = np.empty(0)
    assert (
        choose_in_groups(empty.astype(int), empty, np.ones(2), np.zeros(2), 2).tolist() == [-1] * 2
    )


@pytest.mark.parametrize("b3", [0.0, 4.0, np.inf])
def test_labels_follow_their_softmax(b3):
    counts = np.tile([3, 1, 3, 0], (40_000, 1))
    labels = public_labels(counts, b3, np.random.default_rng(0))
    shares = np.array([3, 1, 3, 0]) / 7
    weights = (shares == shares.max()) if np.isinf(b3) else np.exp(b3 * shares / 2)
    weights = weights / weights.sum()
    assert p_value(np.bincount(labels, minlength=4), 40_000 * weights) > 1e-4
    if np.isfinite(b3):
        wrong = np.exp((b3 + 0.5) * shares / 2)
        wrong /= wrong.sum()
        assert p_value(np.bincount(labels, minlength=4), 40_000 * wrong) < 1e-3


@pytest.mark.parametrize("noise", [Bits(), Bits(np.random.default_rng(5))])
def test_coins_of_exp_have_their_probability(noise):
    n, shift = 240_000, 20  # the control is 14 standard deviations off: true coins pass it
    for x in (0.0, 0.3, 1.0, 2.5):
        heads = coin_exp(np.full(n, round(x * 2**shift)), shift, noise).sum()
        assert abs(heads - n * np.exp(-x)) <= 5 * np.sqrt(n * np.exp(-x) * (1 - np.exp(-x)))
    wrong = abs(heads - n * np.exp(-2.4)) / np.sqrt(n * np.exp(-2.4))
    assert wrong > 5


def test_selection_follows_its_law_and_not_another():
    gaps = np.array([[0], [3], [10], [1]]).repeat(40_000, axis=1)
    options = np.array([[True], [True], [True], [False]]).repeat(40_000, axis=1)
    rate = Rate(1 << 18, 20)
    rows = select(gaps, options, rate, Bits(np.random.default_rng(0)))
    observed = np.bincount(rows, minlength=4)
    expected = 40_000 * probabilities(gaps[:, :1], options[:, :1], rate)[:, 0]
    assert p_value(observed, expected) > 1e-4
    other = 40_000 * probabilities(gaps[:, :1], options[:, :1], Rate(1 << 18, 19))[:, 0]
    assert p_value(observed, other) < 1e-6


def test_infinite_rate_is_uniform_among_the_best():
    gaps = np.array([[0], [0], [1]]).repeat(20_000, axis=1)
    options = np.ones_like(gaps, dtype=bool)
    rows = select(gaps, options, Rate(None), Bits(np.random.default_rng(0)))
    assert p_value(np.bincount(rows, minlength=3), [10_000, 10_000, 0]) > 1e-4


def test_uniform_integers_below_a_limit_are_uniform():
    drawn = Bits().below(np.full(70_000, 7))
    assert p_value(np.bincount(drawn, minlength=7), [10_000] * 7) > 1e-4


def test_attribute_laws_draw_distinct_attributes_of_the_right_number():
    rng = np.random.default_rng(0)
    n, d = 20_000, 9
    for attributes, number in (
        (RandomAttributes(), np.full(1, 3)),
        (RandomAttributes(5), np.full(1, 5)),
    ):
        drawn = attributes.draw(n, d, rng)
        found = (drawn >= 0).sum(axis=0)
        assert (found == number).all()
        for column in drawn.T[:200]:
            kept = column[column >= 0]
            assert len(set(kept.tolist())) == len(kept)
        seen = np.bincount(drawn[drawn >= 0], minlength=d)
        assert p_value(seen, np.full(d, seen.sum() / d)) > 1e-4
    assert AllAttributes().draw(3, d, rng) is None


def test_points_partition_or_bootstrap():
    rng = np.random.default_rng(0)
    (tree, record), (tree_e, record_e) = Partition(3.0).draw(1000, 20, rng)
    both = np.sort(np.concatenate([tree * 1000 + record, tree_e * 1000 + record_e]))
    np.testing.assert_array_equal(both, np.arange(20_000))
    assert stats.binomtest(len(tree), 20_000, 0.75).pvalue > 1e-4
    (tree, record), same = Bootstrap().draw(50, 400, rng)
    assert same[1] is record
    assert (np.bincount(tree) == 50).all()
    assert p_value(np.bincount(record), [400] * 50) > 1e-4


@pytest.mark.parametrize("bad", [-1, float("nan"), "10", True])
def test_sharpness_is_checked(bad):
    with pytest.raises((ValueError, TypeError), match="b1"):
        Softmax(bad, 1)


def test_exact_bits_refuse_a_seed():
    with pytest.raises(ValueError, match="cannot be seeded"):
        Bits.of("exact", 3)
    with pytest.raises(ValueError, match="expected 'exact' or 'research'"):
        Bits.of("fast")


# Cuts of a node ----------------------------------------------------------------------------------


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
