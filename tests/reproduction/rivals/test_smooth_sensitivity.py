"""The published label mechanism follows its formula, and is not ε-DP."""

import numpy as np
import pytest
from rivals.smooth_sensitivity import (
    draw_smooth_labels,
    smooth_label_probabilities,
    worst_log_ratio,
)
from scipy import stats

from mrf_matrix.forests.growth.level import label_gaps, label_rate
from mrf_matrix.mechanisms.selection import probabilities


def test_the_formula():
    law = smooth_label_probabilities(np.array([[4, 2, 1]]), 0.5)[0]
    exponent = 0.5 / (2 * np.exp(-2 * 0.5))
    expected = np.array([np.exp(exponent), 1, 1])
    np.testing.assert_allclose(law, expected / expected.sum())


def test_without_noise_all_that_tie_for_the_lead_share_the_label():
    law = smooth_label_probabilities(np.array([[3, 3, 1], [4, 2, 0]]), float("inf"))
    np.testing.assert_allclose(law, [[0.5, 0.5, 0], [1, 0, 0]], atol=1e-300)


def test_draws_follow_it():
    counts = np.tile([2, 1, 0], (40_000, 1))
    drawn = draw_smooth_labels(counts, 0.5, np.random.default_rng(0))
    law = smooth_label_probabilities(counts[:1], 0.5)[0]
    assert stats.chisquare(np.bincount(drawn), 40_000 * law).pvalue > 1e-4
    wrong = smooth_label_probabilities(counts[:1], 0.7)[0]
    assert stats.chisquare(np.bincount(drawn), 40_000 * wrong).pvalue < 1e-6


@pytest.mark.parametrize(("epsilon", "lead"), [(1.0, 3), (0.5, 6), (0.1, 40)])
def test_the_published_mechanism_exceeds_its_budget(epsilon, lead):
    counts = np.array([[lead, 0], [lead, 1]])
    one, other = smooth_label_probabilities(counts, epsilon)
    ratio = abs(np.log(one[1] / other[1]))
    assert ratio == pytest.approx(worst_log_ratio(epsilon, lead))
    assert ratio > epsilon


@pytest.mark.parametrize(("epsilon", "lead"), [(1.0, 3), (0.5, 6), (0.1, 40)])
def test_labels_by_counts_do_not(epsilon, lead):
    counts = np.array([[lead, 0], [lead, 1]])
    options = np.ones((2, 2), dtype=bool)
    rate = label_rate(epsilon, "count")
    one, other = probabilities(label_gaps(counts, "count"), options, rate).T
    assert np.abs(np.log(one / other)).max() <= epsilon
