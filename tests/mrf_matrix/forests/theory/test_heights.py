"""Lemma 2: the exact law of heights by another route, its bounds, and where the paper errs."""

import math

import numpy as np
import pytest

from mrf_matrix.forests import (
    expected_height,
    height_bounds,
    height_probabilities,
    height_tail_bounds,
    height_variance,
)

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
