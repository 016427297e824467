"""Intervals of log odds hold drawn truths as often as they say, in cells and in pools with tables.

Truths are of the prior: counts, what they say and how noisy they are read, and shares given them.
"""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr, softmax
from scipy.stats import norm

from mrf_matrix.forests.learned.label_tree import CellTable
from mrf_matrix.labels.posterior import counted_evidence
from mrf_matrix.mechanisms import DiscreteLaplace
from mrf_matrix.posterior import LabelPosterior, PooledPosterior
from mrf_matrix.posterior.pooled import WEIGHTS_BESIDE_TABLES

CELLS = 800
TERMS = {"rate": 0.375, "records": 75.0, "concentration": 0.45}
"""Of the cells of 600 records at ε = .5."""

SCALE = 8.0  # of the noise on counts


@cache
def drawn(k, believed=SCALE):
    """Return true shares of cells, and what is made of their label and noisy counts.

    `believed`: the scale that noise is taken to have.
    """
    generator, law = np.random.default_rng(k), DiscreteLaplace(Fraction(believed))
    a, stays = TERMS["concentration"], np.exp(-1 / SCALE)
    counts = generator.gamma(a, TERMS["records"] / k / a, size=(CELLS, k))
    noise = [generator.geometric(1 - stays, size=counts.shape) for _ in range(2)]
    noisy = np.rint(counts).astype(np.int64) + noise[0] - noise[1]
    said = [generator.choice(k, p=softmax(TERMS["rate"] * one)) for one in counts]
    evidence = [
        counted_evidence(one, c, law=law, **TERMS) for one, c in zip(noisy, said, strict=True)
    ]
    return np.array([generator.dirichlet(a + one) for one in counts]), evidence


CLASSES = [2, pytest.param(3, marks=pytest.mark.slow)]

WEIGHT = WEIGHTS_BESIDE_TABLES[0]


def ahead(shares, leading):
    """Return log odds of a class against the largest of all others."""
    logs = np.log(np.maximum(shares, np.finfo(float).tiny))
    return logs[..., leading] - np.delete(logs, leading, axis=-1).max(axis=-1)


@cache
def widths_of(k, level, believed=SCALE):
    """Return how far intervals are below margins, and above, (2, cells)."""
    return np.transpose([one.margin_widths(level) for one in drawn(k, believed)[1]])


def one_width(k, level):
    """Return the widths that hold as many log odds and are the same on both sides."""
    found = []
    for cell in drawn(k)[1]:
        away = np.abs(ahead(cell.shares, cell.leading) - cell.margin)
        found.append(np.quantile(away, level, weights=cell.weights, method="inverted_cdf"))
    return np.array([found, found])


def tails(k, level, widths, believed=SCALE):
    """Return how many truths are below and above, by standard errors more than they should be."""
    shares, evidence = drawn(k, believed)
    truths = np.array([ahead(*both) for both in zip(shares, leaders(evidence), strict=True)])
    off = truths - margins(evidence)
    tail = (1 - level) / 2
    outside = (np.stack([-off, off]) > widths).mean(axis=1)
    return (outside - tail) / np.sqrt(tail * (1 - tail) / CELLS)


def margins(evidence):
    return np.array([one.margin for one in evidence])


def leaders(evidence):
    return [one.leading for one in evidence]


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("k", CLASSES)
def test_as_many_truths_are_below_and_above_as_the_level_says(k, level):
    widths = widths_of(k, level)
    assert np.abs(tails(k, level, widths)).max() < 3
    assert tails(k, level, widths / 2).min() > 6, "the negative control"


@pytest.mark.slow
def test_one_width_for_both_sides_or_less_noise_than_there_is_fails():
    """The negative controls: too few below, so that sure labels are withheld, or too many."""
    below, above = tails(2, 0.8, one_width(2, 0.8))
    assert below < -4
    assert above > 4
    assert tails(2, 0.95, widths_of(2, 0.95, 2.0), believed=2.0).min() > 10


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("k", CLASSES)
def test_labels_that_are_given_lead_as_often_as_the_level_says_or_more(k, level):
    shares, evidence = drawn(k)
    given = margins(evidence) > widths_of(k, level)[0]
    right = shares.argmax(axis=1) == leaders(evidence)
    assert 0.3 < given.mean() < 0.95
    assert right[given].mean() > (1 + level) / 2
    assert right[~given].mean() < (1 + level) / 2, "what is withheld is not sure"


@pytest.mark.slow
def test_one_width_for_both_sides_withholds_labels_that_are_sure():
    shares, evidence = drawn(2)
    given, before = (margins(evidence) > widths(2, 0.95)[0] for widths in (widths_of, one_width))
    right = shares.argmax(axis=1) == leaders(evidence)
    assert not (before & ~given).any()
    assert given.sum() > 5 * before.sum()
    assert right[given & ~before].mean() > 0.975


class NormalTables:
    """Tables whose log odds have one deviation."""

    def __init__(self, deviation):
        self.deviation = deviation

    def margin_widths(self, codes, first, second, level):
        del first, second
        return (np.full(len(codes), norm.ppf((1 + level) / 2) * self.deviation),) * 2


PLACES = np.arange(300)  # of cells in pools: of the first one class is asked, of the next another
FIRST = PLACES % 2


def pooled_widths(level, deviation):
    """Return the widths of pools with tables that have this deviation, (2, cells)."""
    tree = LabelPosterior(CellTable((0,), (PLACES,), PLACES), tuple(drawn(2)[1][: len(PLACES)]))
    pool = PooledPosterior(tree, NormalTables(deviation))
    return np.array(pool.margin_widths(PLACES[:, None], FIRST, 1 - FIRST, level))


def pooled_tails(sides, deviation):
    """Return the probabilities of log odds beyond widths, by the tree's draws and a normal."""
    found = []
    for cell, one, ends in zip(drawn(2)[1], FIRST, sides.T, strict=False):
        logs = np.log(cell.shares)
        off = WEIGHT * (logs[:, one] - logs[:, 1 - one] - cell.log_odds(one, 1 - one))
        beyond = np.stack([-off, off]) - ends[:, None]
        found.append(ndtr(beyond / (WEIGHT * deviation)) @ cell.weights)
    return np.transpose(found)


@pytest.mark.parametrize("deviation", [0.1, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_of_pools_leave_out_equal_tails(level, deviation):
    """Whichever part is wider; the tails are those of the sum of both, without drawing."""
    tail, sides = (1 - level) / 2, pooled_widths(level, deviation)
    found = pooled_tails(sides, deviation)
    np.testing.assert_allclose(found.mean(axis=1), tail, rtol=0.1)
    assert found.min() > 0.5 * tail
    assert found.max() < 1.5 * tail
    assert pooled_tails(sides / 2, deviation).mean() > 2 * tail, "the first negative control"
    alike = [cell.deviation(0, 1) for cell in drawn(2)[1][: len(PLACES)]]
    both = WEIGHT * norm.ppf(1 - tail) * np.hypot(alike, deviation)
    found = pooled_tails(np.stack([both, both]), deviation)
    if deviation < 5:  # the second; where tables are much wider, there is nothing to tell
        assert found.min() < 0.5 * tail
        assert found.max() > 1.3 * tail
