"""Permute-and-flip: its law against all permutations, its sampler, and its privacy counted out."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.growth.private.permute_and_flip import flip_probabilities, permute_and_flip
from mrf_matrix.forests.growth.private.selection import Rate, probabilities

EPSILONS = [0.05, 0.5, 1.0, 3.0]
MOST = {2: 7, 3: 4}
"""Largest count of a class among the tables that are gone through, by the number of classes."""


def gaps_of(counts):
    """Return gaps of shape (classes, tables) from counts of shape (tables, classes)."""
    counts = np.asarray(counts)
    return (counts.max(axis=1, keepdims=True) - counts).T


def flip_law(counts, rate):
    """Return the law of the label of each table, shape (tables, classes)."""
    return flip_probabilities(gaps_of(counts), rate).T


def exponential_law(counts, rate):
    weights = np.exp(-rate * gaps_of(counts).T)
    return weights / weights.sum(axis=1, keepdims=True)


def tables(k):
    return np.array(list(product(range(MOST[k] + 1), repeat=k)))


def added(k):
    """Return tables and the same with one record more, pair by pair."""
    return np.repeat(tables(k), k, axis=0), (tables(k)[:, None] + np.eye(k, dtype=int)).reshape(
        -1, k
    )


def replaced(k):
    """Return tables of which one record of either is of another class in the other."""
    one = [(table + a, table + b) for table in tables(k) for a, b in permutations(np.eye(k), 2)]
    return np.array([a for a, _ in one]), np.array([b for _, b in one])


def largest_loss(law, pairs, rate):
    return float(np.abs(np.log(law(pairs[0], rate) / law(pairs[1], rate))).max())


def over_all_orders(gaps, rate):
    """Return the law by its definition: the mean over all orders in which options are tried."""
    accepted = np.exp(-rate * np.array(gaps, dtype=float))
    found, orders = np.zeros(len(gaps)), list(permutations(range(len(gaps))))
    for order in orders:
        left = 1.0
        for i in order:
            found[i] += left * accepted[i]
            left *= 1 - accepted[i]
    return found / len(orders)


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.7, 5.0])
@pytest.mark.parametrize(
    "gaps", [[0], [0, 0], [0, 1], [3, 0, 0], [0, 1, 2], [2, 0, 7, 1], [0, 0, 1, 1, 4, 0]]
)
def test_the_law_is_the_mean_over_all_orders(gaps, rate):
    found = flip_probabilities(np.array(gaps)[:, None], rate)[:, 0]
    np.testing.assert_allclose(found, over_all_orders(gaps, rate), rtol=1e-12)


@settings(deadline=None, max_examples=60)
@given(
    gaps=st.lists(st.integers(0, 12), min_size=1, max_size=5).map(lambda one: [*one, 0]),
    rate=st.floats(0, 4),
)
def test_any_law_is_the_mean_over_all_orders(gaps, rate):
    found = flip_probabilities(np.array(gaps)[:, None], rate)[:, 0]
    np.testing.assert_allclose(found, over_all_orders(gaps, rate), rtol=1e-9, atol=1e-300)


@settings(deadline=None, max_examples=60)
@given(
    gaps=st.lists(st.floats(0, 1e6), min_size=1, max_size=40).map(lambda one: [*one, 0.0]),
    rate=st.floats(0, 1e9),
)
def test_probabilities_sum_to_one(gaps, rate):
    found = flip_probabilities(np.array(gaps)[:, None], rate)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, rel=1e-12)


def test_many_columns_are_each_their_own():
    gaps = np.random.default_rng(0).integers(0, 5, (4, 30))
    gaps -= gaps.min(axis=0)
    together = flip_probabilities(gaps, 0.4)
    for column in range(30):
        alone = flip_probabilities(gaps[:, [column]], 0.4)
        np.testing.assert_allclose(together[:, [column]], alone, rtol=1e-12)


def test_equal_options_are_as_likely():
    found = flip_probabilities(np.array([[0], [2], [0], [2], [2]]), 0.8)[:, 0]
    assert found[0] == pytest.approx(found[2], rel=1e-12)
    np.testing.assert_allclose(found[[1, 3]], found[4], rtol=1e-12)
    np.testing.assert_allclose(flip_probabilities(np.zeros((7, 1)), 0.8), 1 / 7, rtol=1e-12)


@pytest.mark.parametrize("rate", [float("inf"), 1e9])
def test_without_noise_one_of_the_best_has_the_whole_law(rate):
    found = flip_probabilities(np.array([[3], [0], [1], [0]]), rate)[:, 0]
    np.testing.assert_allclose(found, [0, 0.5, 0, 0.5], atol=1e-300, rtol=1e-12)


@pytest.mark.parametrize(
    ("gaps", "rate"),
    [([0, 1], 1.0), ([2, 0, 1], 0.5), ([0, 0, 3], 0.4), ([1, 4, 0, 2, 2], 0.6), ([5, 0], 0.1)],
)
def test_the_sampler_has_this_law_and_not_the_exponential_mechanisms(gaps, rate):
    draws, column = 30_000, np.array(gaps)[:, None]
    known = Rate.below(rate)
    found = permute_and_flip(
        np.repeat(column, draws, axis=1), known, Bits(np.random.default_rng(0))
    )
    seen = np.bincount(found, minlength=len(gaps))
    law = flip_probabilities(column, float(known.value))[:, 0]
    assert stats.chisquare(seen, draws * law).pvalue > 1e-4
    wrong = probabilities(column, np.ones(column.shape, dtype=bool), known)[:, 0]
    assert stats.chisquare(seen, draws * wrong / wrong.sum()).pvalue < 1e-6


def test_the_sampler_chooses_in_each_column_by_itself():
    kinds, draws = np.array([[0, 3, 1], [2, 0, 1], [1, 1, 0]]), 20_000
    rate, bits = Rate.below(0.9), Bits(np.random.default_rng(1))
    found = permute_and_flip(np.tile(kinds, draws), rate, bits).reshape(draws, 3)
    law = flip_probabilities(kinds, float(rate.value))
    for column in range(3):
        seen = np.bincount(found[:, column], minlength=3)
        assert stats.chisquare(seen, draws * law[:, column]).pvalue > 1e-4
    pairs = np.bincount(3 * found[:, 0] + found[:, 1], minlength=9)
    independent = np.outer(law[:, 0], law[:, 1]).ravel()
    assert stats.chisquare(pairs, draws * independent).pvalue > 1e-4


def test_a_rate_of_nothing_chooses_evenly():
    found = permute_and_flip(
        np.tile([[0], [9], [1000]], 9000), Rate(0), Bits(np.random.default_rng(2))
    )
    assert stats.chisquare(np.bincount(found, minlength=3)).pvalue > 1e-4


def test_without_noise_the_first_of_the_best_is_chosen():
    gaps = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [0, 0, 0, 0]])
    found = permute_and_flip(gaps, Rate(None), Bits(np.random.default_rng(0)))
    assert found.tolist() == [1, 0, 1, 0]


def test_no_columns_are_served():
    for rate in (Rate(None), Rate.below(0.5)):
        found = permute_and_flip(
            np.zeros((3, 0), dtype=np.int64), rate, Bits(np.random.default_rng(0))
        )
        assert found.shape == (0,)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", MOST)
def test_one_record_more_or_less_is_within_the_budget(k, epsilon):
    assert largest_loss(flip_law, added(k), epsilon) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", MOST)
def test_a_record_in_anothers_place_is_within_the_budget_at_half_the_rate(k, epsilon):
    assert largest_loss(flip_law, replaced(k), epsilon / 2) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", MOST)
def test_a_rate_that_is_a_fifth_too_large_is_found(k, epsilon):
    """The negative control: the bound is reached, and a larger rate exceeds it."""
    assert largest_loss(flip_law, added(k), 1.2 * epsilon) > 1.15 * epsilon
    if k == 2:  # of three classes counts this small do not reach the bound
        assert largest_loss(flip_law, replaced(k), 1.2 * epsilon / 2) > 1.05 * epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("k", MOST)
def test_scores_that_move_both_ways_exceed_the_budget_at_the_rate_of_monotone_ones(k, epsilon):
    """The negative control of what the rate rests on: one class up and another down is too much."""
    assert largest_loss(flip_law, replaced(k), epsilon) > 1.3 * epsilon


@settings(deadline=None, max_examples=80)
@given(
    counts=st.lists(st.integers(0, 30), min_size=2, max_size=7),
    place=st.integers(0, 6),
    epsilon=st.floats(0.01, 4),
)
def test_any_record_more_is_within_the_budget(counts, place, epsilon):
    more = np.array(counts)
    more[place % len(counts)] += 1
    law, other = flip_law([counts], epsilon), flip_law([more], epsilon)
    assert np.abs(np.log(law / other)).max() <= epsilon * (1 + 1e-9)


def test_scores_that_one_record_raises_together_are_within_the_budget():
    """Any set of scores may rise by one: not counts of one class alone."""
    law = flip_law(tables(3), 0.8)
    for raised in product((0, 1), repeat=3):
        other = flip_law(tables(3) + np.array(raised), 0.8)
        assert np.abs(np.log(law / other)).max() <= 0.8 * (1 + 1e-12)


@settings(deadline=None, max_examples=80)
@given(
    gaps=st.lists(st.integers(0, 15), min_size=1, max_size=9).map(lambda one: [*one, 0]),
    rate=st.floats(0.01, 3),
)
def test_it_is_never_further_behind_than_the_exponential_mechanism(gaps, rate):
    """At every distance, as in Theorem 2 of McKenna and Sheldon."""
    column, known = np.array(gaps)[:, None], Rate.below(rate)
    flips = flip_probabilities(column, float(known.value))[:, 0]
    other = probabilities(column, np.ones(column.shape, dtype=bool), known)[:, 0]
    for least in range(1, max(gaps) + 1):
        behind = column[:, 0] >= least
        assert flips[behind].sum() <= other[behind].sum() * (1 + 1e-9)


def test_it_errs_less_where_one_is_ahead():
    column, rate = np.array([[0], [4], [4]]), Rate.below(1.0)
    flips = flip_probabilities(column, float(rate.value))[0, 0]
    assert flips > 1.005 * probabilities(column, np.ones((3, 1), dtype=bool), rate)[0, 0]


def widest(law, epsilon):
    """Return the widest range of log ratios over neighbours of three classes or two."""
    found = []
    for k in MOST:
        one, other = added(k)
        ratios = np.log(law(other, epsilon) / law(one, epsilon))
        found.append(np.ptp(ratios, axis=1).max())
    return float(max(found))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_log_ratios_range_over_more_than_the_budget(epsilon):
    """The bound ``ε²/8`` under zCDP rests on a range of ε, which the exponential mechanism has."""
    assert widest(exponential_law, epsilon) <= epsilon * (1 + 1e-9)
    assert 1.05 * epsilon < widest(flip_law, epsilon) <= 2 * epsilon


def test_the_range_comes_near_twice_the_budget():
    assert widest(flip_law, 0.01) > 1.98 * 0.01


def divergence(p, q, order):
    return float(np.log((p**order * q ** (1 - order)).sum(axis=1)).max() / (order - 1))


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
def test_under_zcdp_it_would_cost_more_than_the_exponential_mechanism(order):
    epsilon = 0.3
    bound = order * epsilon**2 / 8
    for k in MOST:
        one, other = added(k)
        for law, exceeds in ((flip_law, True), (exponential_law, False)):
            p, q = law(one, epsilon), law(other, epsilon)
            most = max(divergence(p, q, order), divergence(q, p, order))
            assert (most > 2 * bound) if exceeds else (most <= bound * (1 + 1e-9))
