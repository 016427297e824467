"""Shares of noise: exact integers, laws that add up, with controls that must fail."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mrf_matrix.base.provenance import DOMAIN
from mrf_matrix.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    PureDP,
    Quorum,
    Release,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
    count_cells,
    measure,
)
from mrf_matrix.mechanisms.measurement.measure import drawn_release
from mrf_matrix.mechanisms.noise.shared import (
    cumulative,
    draw_within,
    negative_binomial,
    whole_root,
)
from strategies.operators import Identity

LAWS = [
    (Fraction(1, 2), Fraction(1, 3)),
    (Fraction(1), Fraction(1, 10)),
    (Fraction(5), Fraction(1)),
]


def counter(values):
    """A source of words that hands out given numbers."""
    left = list(values)
    return lambda count: np.array([left.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize(("scale", "shape"), [*LAWS, (Fraction(128), Fraction(1, 100))])
def test_integer_tables_bound_the_distribution_tightly(scale, shape):
    low, high = cumulative(scale, shape, 64)
    assert max(h - b for b, h in zip(low, high, strict=True)) <= 1
    exact = stats.nbinom.cdf(np.arange(len(low)), float(shape), -np.expm1(-1 / float(scale)))
    assert np.array(low, dtype=float) / 2**64 == pytest.approx(exact, rel=1e-13)
    assert 2**64 - low[-1] <= 2


@pytest.mark.parametrize(("scale", "shape"), LAWS)
def test_words_are_settled_as_finer_tables_say(scale, shape):
    """All 8-bit words, with more bits where 8 do not do: the same as 136 bits at once."""
    low, high = cumulative(scale, shape, 136)
    for value in range(256):
        for more in (0, 2**63 - 1, 2**64 - 2):
            place = draw_within(scale, shape, value, 8, counter([more, 7]))
            uniform = (((value << 64) + more) << 64) + 7
            assert place == 0 or high[place - 1] <= uniform
            assert uniform < low[place]


def test_one_word_and_more_give_the_same_draws():
    """A word on the border of two values is settled by the next word."""
    low, high = cumulative(Fraction(1), Fraction(1, 2), 64)
    assert high[0] == low[0] + 1
    drawn = ([low[0] - 1], [low[0], 0], [low[0], 2**64 - 1], [high[0]])
    draw = [negative_binomial(Fraction(1), Fraction(1, 2), 1, counter(w)).item() for w in drawn]
    assert draw == [0, 0, 1, 1]


def test_whole_roots():
    for number, degree in ((5, 3), (1, 5), (2**90 - 1, 3), (2**90, 3), (10**40 + 7, 7)):
        root = whole_root(number, degree, 2**90)
        assert root**degree <= number < (root + 1) ** degree


@pytest.mark.parametrize("parties", [2, 3])
def test_shares_sum_to_discrete_laplace_noise(parties):
    """Enumeration at t = 1/2: the k-fold convolution is the central law, at every integer."""
    scale = Fraction(1, 2)
    reach = np.arange(-60, 61)
    share = SharedDiscreteLaplace(scale, Fraction(1, parties)).pmf(reach)
    total = share
    for _ in range(parties - 1):
        total = np.convolve(total, share)
    middle = len(total) // 2
    near = np.arange(-20, 21)
    assert total[middle + near] == pytest.approx(DiscreteLaplace(scale).pmf(near), rel=1e-12)
    assert share.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5), Fraction(100), Fraction(4096)])
@pytest.mark.parametrize("shape", [Fraction(1, 3), Fraction(1), Fraction(10, 7)])
def test_moments_and_transform_are_those_of_the_probabilities(scale, shape):
    law = SharedDiscreteLaplace(scale, shape)
    values = np.arange(-int(60 * scale) - 60, int(60 * scale) + 61)
    mass = law.pmf(values)
    assert mass.sum() == pytest.approx(1, rel=1e-9)
    assert mass @ values.astype(float) ** 2 == pytest.approx(law.variance, rel=1e-8)
    fourth = mass @ values.astype(float) ** 4 - 3 * law.variance**2
    assert fourth == pytest.approx(law.fourth_cumulant, rel=1e-6)
    angles = np.array([0.0, 0.3, 2.0]) / max(1, float(scale))
    transform = np.cos(np.outer(angles, values)) @ mass
    assert np.exp(law.log_characteristic(angles)) == pytest.approx(transform, rel=1e-8)


def test_sums_of_discrete_gaussians_are_described_by_convolution():
    law = SharedDiscreteGaussian(Fraction(3, 2), 3)
    values = np.arange(-60, 61)
    share = DiscreteGaussian(law.scale).pmf(values)
    total = np.convolve(np.convolve(share, share), share)
    near = np.arange(-15, 16)
    assert law.pmf(near) == pytest.approx(total[len(total) // 2 + near], rel=1e-7)
    wide = np.arange(-180, 181).astype(float)
    assert total @ wide**2 == pytest.approx(law.variance, rel=1e-10)
    assert law.fourth_cumulant == pytest.approx(total @ wide**4 - 3 * law.variance**2, abs=1e-6)
    angles = np.array([0.1, 1.0])
    transform = np.cos(np.outer(angles, wide)) @ total
    assert np.exp(law.log_characteristic(angles)) == pytest.approx(transform, rel=1e-9)


def p_value(draws, law):
    """Chi-square of draws against a law, in bins of at least 50 expected draws."""
    values = np.arange(-400, 401)
    expected = law.pmf(values) * draws.size
    inner = values[expected >= 50]
    cut = np.clip(values, inner.min(), inner.max()) - inner.min()
    binned = np.bincount(cut, weights=expected)
    observed = np.bincount(np.clip(draws, inner.min(), inner.max()) - inner.min())
    return stats.chi2.sf(((observed - binned) ** 2 / binned).sum(), len(binned) - 1)


@pytest.mark.parametrize("shape", [Fraction(1, 7), Fraction(10, 7)])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(6)])
def test_samplers_have_the_exact_law_and_no_other(scale, shape):
    law = SharedDiscreteLaplace(scale, shape)
    exact = law.exact(np.zeros(200_000, dtype=np.int64))
    research = law.research((200_000,), np.random.default_rng(0))
    off = SharedDiscreteLaplace(scale, shape * Fraction(11, 10))
    for draws in (exact, research):
        assert p_value(draws, law) > 1e-8
        assert p_value(draws, off) < 1e-8


def test_draws_for_studies_have_the_law_of_the_sum_and_not_of_one_draw():
    law = SharedDiscreteGaussian(Fraction(3, 2), 3)
    draws = law.research((100, 2000), np.random.default_rng(0))
    assert draws.shape == (100, 2000)
    assert p_value(draws.ravel(), law) > 1e-4
    assert p_value(draws.ravel(), DiscreteGaussian(law.scale)) < 1e-9


def test_too_large_a_scale_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="zCDP"):
        SharedDiscreteLaplace(Fraction(5000), Fraction(1, 2))
    with pytest.raises(ValueError, match="positive"):
        SharedDiscreteLaplace(Fraction(1), Fraction(0))


def test_quorums_without_an_honest_survivor_are_refused():
    assert Quorum(10, 3, 2).honest == 5
    assert Quorum(4, 2, 1).honest == 1
    with pytest.raises(ValueError, match="nobody's noise"):
        Quorum(4, 2, 2)
    with pytest.raises(ValueError, match="parties=1"):
        Quorum(1)


def test_a_release_of_shares_says_on_whom_it_rests():
    counts = count_cells(np.zeros((3, 1), int), np.zeros(3, int), (2,), 1)
    plain = measure(Identity(2), counts, PureDP(1))
    quorum = Quorum(5, 1, 1)
    by_hand = Release(plain.mechanism, plain.answers, "shares", (2,), quorum=quorum)
    assert not by_hand.is_private, "whoever made these answers"
    made = drawn_release(plain.mechanism, plain.answers, "shares", (2,), DOMAIN, quorum=quorum)
    assert made.is_private
    assert "conditional on at least 4 parties of 5 contributing" in made.statement
    with pytest.raises(ValueError, match="expected a Quorum"):
        Release(plain.mechanism, plain.answers, "shares", (2,))
    with pytest.raises(ValueError, match="expected a Quorum"):
        Release(plain.mechanism, plain.answers, "exact", (2,), quorum=Quorum(5))
