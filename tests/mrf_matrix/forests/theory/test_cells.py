"""The lemmas on one cell against exact sums, softmax laws and trees that are cut."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom

from mrf_matrix.forests import (
    attribute_probability_bounds,
    biau_height_rate,
    cell_error_bound,
    central_cut_probability,
    diameter_tail_bound,
    expected_diameter_bound,
    expected_height,
    expected_side_bound,
    height_bounds,
    height_probabilities,
    height_tail_bounds,
    height_variance,
)


def exact_cell_error(n, share, eta):
    """Return the probability of an error in a cell of constant eta; no record says class 0."""
    counts = np.arange(n + 1)
    one_wins = binom.sf(counts // 2, counts, eta)  # more than half of the records
    wrong = one_wins * (1 - eta) + (1 - one_wins) * eta
    return share * float(binom.pmf(counts, n, share) @ wrong)


@pytest.mark.parametrize("n", [1, 10, 200])
@pytest.mark.parametrize("share", [0.01, 0.2, 1.0])
@pytest.mark.parametrize("eta", [0.0, 0.2, 0.45, 0.5, 0.7, 1.0])
def test_lemma_4_against_the_exact_error_of_a_cell(n, share, eta):
    bayes = min(eta, 1 - eta)
    bound = cell_error_bound(n, share, 0.0, bayes)
    assert exact_cell_error(n, share, eta) <= bound * (1 + 1e-12)
    assert bound - bayes * share == pytest.approx(math.sqrt(share / n) + 3 / n)


def test_lemma_4_needs_its_square_root():
    """Without it the bound would be false: the check above can fail."""
    n, eta = 10_000, 0.495
    without = cell_error_bound(n, 1.0, 0.0, eta) - math.sqrt(1 / n)
    assert exact_cell_error(n, 1.0, eta) > without


@pytest.mark.parametrize("width", [0.1, 0.5])
def test_lemma_4_pays_for_a_slope(width):
    """One attribute, eta climbs from .5 - L ν / 2 to .5 + L ν / 2 over the cell."""
    slope, n = 1.0, 50
    places = 0.5 + slope * width * (np.arange(1000) + 0.5 - 500) / 1000
    error = exact_cell_error(n, width, 0.5)  # a label that no record can be right about
    bayes = float(np.minimum(places, 1 - places).mean())
    assert bayes * width < error <= cell_error_bound(n, width, width, bayes, slope)


@given(st.integers(1, 12), st.floats(0, 20), st.integers(0, 2**32 - 1))
def test_lemma_3_bounds_every_softmax(n_attributes, b1, seed):
    scores = np.random.default_rng(seed).random(n_attributes)
    scores[0] = 0.0
    weights = np.exp(b1 * (scores - scores.max()))
    low, high = attribute_probability_bounds(n_attributes, b1)
    chances = weights / weights.sum()
    assert low <= chances.min() * (1 + 1e-9)
    assert chances.max() <= high * (1 + 1e-9)


@pytest.mark.parametrize("b1", [0.0, 1.0, 10.0])
def test_lemma_3_is_reached_at_its_ends(b1):
    low, high = attribute_probability_bounds(5, b1)
    alone, but_one = np.exp(b1 * np.eye(5)[0]), np.exp(b1 * (1 - np.eye(5)[0]))
    assert high == pytest.approx(alone[0] / alone.sum())
    assert low == pytest.approx(but_one[0] / but_one.sum())


@pytest.mark.parametrize("b2", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("parts", [3, 4, 10])
def test_central_cuts_of_values_that_are_spread_evenly(parts, b2):
    values = (np.arange(10_000) + 0.5) / 10_000
    outer = (values < 1 / parts) | (values > 1 - 1 / parts)
    worst = np.exp(b2 * outer)  # the outer values have the best scores
    assert central_cut_probability(parts, b2) <= worst[~outer].sum() / worst.sum() + 1e-9


def test_values_that_crowd_at_an_end_escape_the_lemma():
    values = np.append(np.full(99, 0.01), 0.5)
    central = ((values > 1 / 3) & (values < 2 / 3)).mean()
    assert central < central_cut_probability(3, 0.0)


def test_sides_shrink_and_four_parts_bound_them_best():
    bounds = [expected_side_bound(30, 3, 1.0, 0.2, n_parts=parts) for parts in range(3, 9)]
    assert min(bounds) == bounds[1]
    assert expected_side_bound(0, 3, 1.0, 0.2) == 1
    assert expected_side_bound(60, 3, 1.0, 0.2) == pytest.approx(
        expected_side_bound(30, 3, 1.0, 0.2) ** 2
    )


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("k", [10, 10**4, 10**9])
def test_lemma_3_of_diameters_is_markov_and_the_sharp_form_is_below(k, d):
    published, sharp = (diameter_tail_bound(k, d, form=form) for form in ("published", "sharp"))
    assert sharp <= published <= 1
    threshold = math.sqrt(d) * k ** (-1 / (8 * d))
    assert sharp == pytest.approx(min(1, expected_diameter_bound(k, d) / threshold))
    assert diameter_tail_bound(k, d, 3.0) == pytest.approx(
        min(1, math.e * d / (4 * k ** (1 / (8 * d))))
    )


BIAU = brentq(lambda c: c * math.log(2 * math.e / c) - 1, 0.01, 0.9, xtol=1e-15)
"""The constant of the rate, which holds below it."""


def test_the_rate_of_biau_holds_below_its_constant():
    assert biau_height_rate(10**6, BIAU - 1e-12) < 1
    with pytest.raises(ValueError, match="epsilon"):
        biau_height_rate(10**6, BIAU + 1e-12)


@pytest.mark.parametrize("k", [10**3, 10**6, 10**12])
@pytest.mark.parametrize("epsilon", [0.02, 0.1, 0.3])
def test_lemma_2_and_the_rate_it_improves_are_above_the_truth(k, epsilon):
    law, low = height_probabilities(k), (BIAU - epsilon) * math.log(k)
    shallow, _ = height_tail_bounds(k, 1 - BIAU + epsilon)
    rate = biau_height_rate(k, epsilon)
    assert law[: math.floor(low) + 1].sum() <= min(shallow, rate)


def test_lemma_2_improves_on_the_rate_near_its_constant_and_not_far_from_it():
    """Far below c* ln k the quadratic exponent is the weaker one: the paper claims "better"."""
    k = 10**12
    for epsilon, improves in ((0.1, True), (0.2, True), (0.3, False), (0.36, False)):
        shallow, _ = height_tail_bounds(k, 1 - BIAU + epsilon)
        assert (shallow < biau_height_rate(k, epsilon)) == improves


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cell_error_bound(0, 0.1, 0, 0), "n_records=0"),
        (lambda: cell_error_bound(5, 1.1, 0, 0), r"share=1.1: expected a number in \[0, 1\]"),
        (lambda: cell_error_bound(5, 0.1, -1, 0), "diameter=-1"),
        (lambda: cell_error_bound(5, 0.1, 0, 0.6), "bayes=0.6"),
        (lambda: cell_error_bound(5, 0.1, 0, 0.1, math.inf), "lipschitz=inf"),
        (lambda: attribute_probability_bounds(3, math.nan), "b1=nan"),
        (lambda: central_cut_probability(2, 1.0), "n_parts=2"),
        (lambda: expected_side_bound(-1, 2, 1.0, 1.0), "depth=-1"),
        (lambda: diameter_tail_bound(5, 1, -1.0), "epsilon=-1.0"),
        (lambda: biau_height_rate(5, 0.4), "epsilon=0.4"),
    ],
)
def test_nonsense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("b2", [0.0, 0.7])
def test_the_bound_of_a_side_is_the_least_over_its_parts(b2):
    least = min(expected_side_bound(9, 3, 0.4, b2, n_parts=parts) for parts in range(3, 30))
    assert expected_side_bound(9, 3, 0.4, b2) == least


# Heights -----------------------------------------------------------------------------------------


LEAVES = [1, 2, 3, 7, 64, 511, 512, 513, 2000]


def by_recursion(k: int) -> np.ndarray:
    """Return the law of a sum of independent Bernoulli(1/i), one at a time."""
    law = np.zeros(min(k, 512))
    law[0] = 1.0
    for i in range(1, k):
        law = law * (1 - 1 / i) + np.append(0, law[:-1]) / i
    return law


@pytest.mark.parametrize("k", LEAVES)
def test_the_law_by_recursion(k):
    np.testing.assert_allclose(height_probabilities(k), by_recursion(k), rtol=0, atol=1e-14)


@pytest.mark.parametrize("k", [*LEAVES, 10**6, 10**12])
def test_mean_and_variance(k):
    law = height_probabilities(k)
    height = np.arange(len(law))
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert law @ height == pytest.approx(expected_height(k), abs=1e-9)
    assert law @ (height - expected_height(k)) ** 2 == pytest.approx(height_variance(k), abs=1e-6)


@pytest.mark.parametrize("k", [2, 3, 10, 1000, 10**9])
def test_the_mean_is_within_lemma_2(k):
    low, high = height_bounds(k)
    assert low <= expected_height(k) <= high


def tails(k: int, epsilon: float) -> tuple[float, float]:
    """Return the exact probabilities of a shallow and of a deep leaf."""
    law, (low, high) = height_probabilities(k), height_bounds(k)
    height = np.arange(len(law))
    shallow = law[height <= (1 - epsilon) * low].sum()
    return float(shallow), float(law[height >= (1 + epsilon) * high].sum())


@pytest.mark.parametrize("k", [2, 3, 5, 10, 100, 10**4, 10**8, 10**12, 10**18])
def test_the_tails_are_within_the_bounds(k):
    for epsilon in np.linspace(0.01, 0.999, 40):
        exact, bound = tails(k, epsilon), height_tail_bounds(k, epsilon)
        assert exact[0] <= bound[0] + 1e-13
        assert exact[1] <= bound[1] + 1e-13
        assert bound[0] == pytest.approx(k ** (-(epsilon**2) / 2))
        assert bound[1] <= k ** (-(epsilon**2) / 3)


def test_the_papers_bound_on_deep_leaves_fails_for_large_trees():
    k, epsilon = 10**20, 0.999
    published = k ** (-(epsilon**2) / 2)
    assert tails(k, epsilon)[1] > 1.2 * published > 1e-10
    for smaller in (10, 1000, 10**6, 10**12):
        assert tails(smaller, epsilon)[1] <= smaller ** (-(epsilon**2) / 2)


@pytest.mark.parametrize("epsilon", [0, 1, -0.5, math.nan])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(ValueError, match="epsilon="):
        height_tail_bounds(10, epsilon)


def test_leaves_are_checked():
    for function in (expected_height, height_variance, height_probabilities):
        with pytest.raises(ValueError, match="n_leaves=0"):
            function(0)
    with pytest.raises(ValueError, match="n_leaves=1: expected at least 2"):
        height_bounds(1)
