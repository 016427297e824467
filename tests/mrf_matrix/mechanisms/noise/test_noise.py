"""The samplers against their exact laws, with a negative control that must fail."""

from fractions import Fraction
from math import exp, inf, log, pi, sqrt

import numpy as np
import pytest
from scipy import stats

from mrf_matrix.base.provenance import DOMAIN
from mrf_matrix.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoNoise,
    PureDP,
    Quorum,
    Release,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
    count_cells,
    measure,
)
from mrf_matrix.mechanisms.measurement.measure import drawn_release
from mrf_matrix.mechanisms.noise import LARGEST_SCALE, above
from mrf_matrix.mechanisms.shared_noise import (
    cumulative,
    draw_within,
    negative_binomial,
    whole_root,
)
from strategies.operators import Identity

LAWS = [DiscreteLaplace, DiscreteGaussian]
REJECT = 1e-8
"""A right sampler fails a test that draws fresh noise this often."""


def support(law, mass=1e-16):
    """Integers that carry all but a negligible mass of a law."""
    scale = float(law.scale)
    reach = int(45 * scale if isinstance(law, DiscreteLaplace) else 12 * scale) + 3
    return np.arange(-reach, reach + 1)


def shape_p_value(draws, law, least=50):
    """Chi-square of the draws against the law in bins of enough expected draws."""
    values = support(law)
    expected = law.pmf(values) * draws.size
    inner = values[expected >= least]
    low, high = inner.min(), inner.max()
    bins = np.clip(draws.ravel(), low, high) - low
    observed = np.bincount(bins, minlength=high - low + 1)
    cut = np.clip(values, low, high) - low
    binned = np.bincount(cut, weights=expected)
    statistic = ((observed - binned) ** 2 / binned).sum()
    return stats.chi2.sf(statistic, len(binned) - 1)


def scale_p_value(draws, law):
    """Two-sided test of the scale: the sufficient statistic against its exact moments."""
    power = 1 if isinstance(law, DiscreteLaplace) else 2
    values = support(law)
    mass, sizes = law.pmf(values), np.abs(values.astype(float)) ** power
    mean = mass @ sizes
    deviation = sqrt(mass @ (sizes - mean) ** 2 / draws.size)
    observed = (np.abs(draws.astype(float)) ** power).mean()
    return 2 * stats.norm.sf(abs(observed - mean) / deviation)


def p_value(draws, law):
    return 2 * min(shape_p_value(draws, law), scale_p_value(draws, law))


def exact_draws(law, size):
    return law.exact(np.zeros(size, dtype=np.int64))


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(3, 4), Fraction(1), Fraction(5), 40])
def test_probabilities_are_a_law(kind, scale):
    law = kind(Fraction(scale))
    values = support(law)
    mass = law.pmf(values)
    assert mass.sum() == pytest.approx(1, rel=1e-12)
    assert np.array_equal(mass, mass[::-1])
    assert mass @ values.astype(float) ** 2 == pytest.approx(law.variance, rel=1e-10)


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1), Fraction(5), Fraction(40)])
def test_log_ratios_are_the_laws(scale):
    t = float(scale)
    steps = np.diff(DiscreteLaplace(scale).log_pmf(np.arange(20)))
    assert steps == pytest.approx(np.full(19, -1 / t))
    squares = DiscreteGaussian(scale).log_pmf(np.arange(20))
    assert squares - squares[0] == pytest.approx(-0.5 * (np.arange(20) / t) ** 2)


@pytest.mark.parametrize("exponent", range(-12, 56))
def test_variance_is_stable_at_every_scale(exponent):
    scale = Fraction(2) ** exponent
    laplace, gaussian = DiscreteLaplace(scale).variance, DiscreteGaussian(scale).variance
    t = float(scale)
    assert 0 <= gaussian <= t**2
    assert 0 <= laplace <= 2 * t**2
    if exponent >= 2:
        assert gaussian == pytest.approx(t**2, rel=1e-12)
        assert laplace == pytest.approx(2 * t**2 - 1 / 6, rel=1e-4)  # series in 1/t
        assert laplace == pytest.approx(2 * t**2 - 1 / 6 + 1 / (120 * t**2), rel=1e-6)


def test_variance_formula_of_the_literature():
    for t in (0.5, 1.0, 3.0):
        formula = 2 * exp(-1 / t) / (1 - exp(-1 / t)) ** 2
        assert DiscreteLaplace(Fraction(t)).variance == pytest.approx(formula, rel=1e-12)


def test_theta_series_meet():
    """The two series of the discrete Gaussian agree where they change over, at σ = 1."""
    below, at = DiscreteGaussian(Fraction(2**40 - 1, 2**40)), DiscreteGaussian(Fraction(1))
    assert below.variance == pytest.approx(at.variance, rel=1e-10)
    assert below.log_pmf(np.array([0])) == pytest.approx(at.log_pmf(np.array([0])), rel=1e-10)
    assert at.log_pmf(np.array([0]))[0] == pytest.approx(-log(sqrt(2 * pi)), abs=1e-7)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [Fraction(3, 4), Fraction(6)])
def test_exact_sampler_has_the_exact_law(kind, scale):
    law = kind(scale)
    assert p_value(exact_draws(law, 30_000), law) > REJECT


@pytest.mark.parametrize("kind", LAWS)
def test_exact_sampler_four_percent_off_is_rejected(kind):
    """Negative control: with this many draws a scale 4 % off lies over 12 deviations away."""
    law, wrong = kind(Fraction(50)), kind(Fraction(52))
    draws = exact_draws(law, 105_000 if kind is DiscreteLaplace else 52_500)
    assert p_value(draws, law) > REJECT
    assert p_value(draws, wrong) < REJECT
    assert p_value(draws, kind(Fraction(48))) < REJECT


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3, 4), Fraction(6), Fraction(50)])
def test_research_sampler_has_the_exact_law(kind, scale):
    law = kind(scale)
    draws = law.research((1_000_000,), np.random.default_rng(11))
    assert p_value(draws, law) > 1e-4
    off = above((scale * Fraction(102 if scale > 1 else 110, 100)) ** 2)
    assert p_value(draws, kind(off)) < REJECT


def test_research_sampler_four_percent_off_is_rejected():
    for kind in LAWS:
        draws = kind(Fraction(52)).research((105_000,), np.random.default_rng(5))
        assert p_value(draws, kind(Fraction(50))) < REJECT


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [2**11, 2**30, 2**54])
def test_research_noise_of_huge_scale(kind, scale):
    law = kind(Fraction(scale))
    draws = law.research((400_000,), np.random.default_rng(3)).astype(float)
    assert draws.var() == pytest.approx(law.variance, rel=0.02)
    assert abs(draws.mean()) < 5 * sqrt(law.variance / draws.size)


@pytest.mark.parametrize("kind", LAWS)
def test_exact_noise_of_huge_scale(kind):
    law = kind(LARGEST_SCALE)
    draws = exact_draws(law, 20_000).astype(float)
    assert draws.var() == pytest.approx(law.variance, rel=0.2)


@pytest.mark.parametrize("kind", LAWS)
def test_tiny_scales_add_nothing(kind):
    law = kind.calibrated(1, 1, Fraction(10**30))
    assert law.scale == Fraction(1, 4096)
    assert law.variance == 0
    assert not exact_draws(law, 1000).any()
    assert not law.research((1000,), np.random.default_rng(0)).any()


@pytest.mark.parametrize("kind", LAWS)
def test_scales_beyond_64_bits_are_refused(kind):
    with pytest.raises(ValueError, match="expected a larger budget"):
        kind.calibrated(1, 1, Fraction(1, 10**60))


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [0, -1, Fraction(1, 3), 2**56, Fraction(1, 2**13)])
def test_impossible_scales(kind, scale):
    with pytest.raises(ValueError, match="scale"):
        kind(Fraction(scale))


def test_scales_are_rounded_up_by_less_than_one_part_in_2_to_the_52():
    rng = np.random.default_rng(0)
    for numerator, denominator in rng.integers(1, 10**9, size=(300, 2)).tolist():
        square = Fraction(numerator, denominator)
        scale = above(square)
        assert Fraction(float(scale)) == scale
        assert square <= scale**2 <= square * (1 + Fraction(1, 2**50))


def test_calibration_formulas():
    assert DiscreteLaplace.calibrated(3, 1, Fraction(1, 2)).scale == 6
    assert DiscreteLaplace.calibrated(3, 4, Fraction(1, 2)).scale == 12
    assert DiscreteGaussian.calibrated(8, 1, Fraction(1)).scale == 2
    assert DiscreteGaussian.calibrated(8, 4, Fraction(1)).scale == 4
    assert DiscreteGaussian.calibrated(8, 2, Fraction(1)).scale ** 2 >= 8


def test_opendp_confirms_the_privacy_of_the_scales():
    """OpenDP's own privacy map, in its own arithmetic, gives at most the budget."""
    from mrf_matrix.mechanisms.noise import _measurement

    for epsilon in (Fraction(1, 10), Fraction(1, 3), Fraction(7, 5)):
        laplace = DiscreteLaplace.calibrated(3, 1, epsilon)
        claimed = _measurement(float(laplace.scale), "laplace").map(3)
        assert epsilon * (1 - Fraction(1, 10**12)) <= Fraction(claimed)
        assert claimed <= np.nextafter(np.nextafter(float(epsilon), inf), inf)
        gaussian = DiscreteGaussian.calibrated(9, 1, epsilon)
        claimed = _measurement(float(gaussian.scale), "gaussian").map(3.0)
        assert claimed == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize("kind", LAWS)
def test_noise_is_added_to_every_answer_independently(kind):
    law = kind(Fraction(20))
    answers = np.arange(30_000).reshape(10_000, 3) * 1000
    noise = law.exact(answers) - answers
    correlation = np.corrcoef(noise.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 6 / sqrt(10_000)
    serial = np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]
    assert abs(serial) < 6 / sqrt(10_000)
    again = law.exact(answers) - answers
    assert abs(np.corrcoef(noise.ravel(), again.ravel())[0, 1]) < 6 / sqrt(30_000)


@pytest.mark.parametrize("kind", LAWS)
def test_sums_saturate_at_the_ends(kind):
    """No wrap-around, which would turn a large answer into a small one."""
    top = np.full(200, np.iinfo(np.int64).max)
    assert (kind(Fraction(10)).exact(top) > 0).all()


@pytest.mark.parametrize("kind", LAWS)
def test_no_answers_need_no_noise(kind):
    assert kind(Fraction(1)).exact(np.zeros((0, 3), dtype=np.int64)).shape == (0, 3)


def test_no_noise():
    law = NoNoise()
    answers = np.arange(6).reshape(2, 3)
    assert np.array_equal(law.exact(answers), answers)
    assert law.exact(answers) is not answers
    assert not law.research((2, 2), np.random.default_rng(0)).any()
    assert law.variance == 0
    assert law.pmf(np.array([-1, 0, 1])).tolist() == [0, 1, 0]
    assert str(law) == "no noise"


# Shares of noise ---------------------------------------------------------------------------------


SHARED_LAWS = [
    (Fraction(1, 2), Fraction(1, 3)),
    (Fraction(1), Fraction(1, 10)),
    (Fraction(5), Fraction(1)),
]


def counter(values):
    """A source of words that hands out given numbers."""
    left = list(values)
    return lambda count: np.array([left.pop(0) for _ in range(count)], dtype=np.uint64)


@pytest.mark.parametrize(("scale", "shape"), [*SHARED_LAWS, (Fraction(128), Fraction(1, 100))])
def test_integer_tables_bound_the_distribution_tightly(scale, shape):
    low, high = cumulative(scale, shape, 64)
    assert max(h - b for b, h in zip(low, high, strict=True)) <= 1
    exact = stats.nbinom.cdf(np.arange(len(low)), float(shape), -np.expm1(-1 / float(scale)))
    assert np.array(low, dtype=float) / 2**64 == pytest.approx(exact, rel=1e-13)
    assert 2**64 - low[-1] <= 2


@pytest.mark.parametrize(("scale", "shape"), SHARED_LAWS)
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


def binned_p_value(draws, law):
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
        assert binned_p_value(draws, law) > 1e-8
        assert binned_p_value(draws, off) < 1e-8


def test_draws_for_studies_have_the_law_of_the_sum_and_not_of_one_draw():
    law = SharedDiscreteGaussian(Fraction(3, 2), 3)
    draws = law.research((100, 2000), np.random.default_rng(0))
    assert draws.shape == (100, 2000)
    assert binned_p_value(draws.ravel(), law) > 1e-4
    assert binned_p_value(draws.ravel(), DiscreteGaussian(law.scale)) < 1e-9


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
