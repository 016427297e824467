"""The samplers against their exact laws, with a negative control that must fail."""

from fractions import Fraction
from math import exp, inf, log, pi, sqrt

import numpy as np
import pytest
from scipy import stats

from mrf_matrix.mechanisms import DiscreteGaussian, DiscreteLaplace, NoNoise
from mrf_matrix.mechanisms.noise.discrete import LARGEST_SCALE, above

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
    from mrf_matrix.mechanisms.noise.discrete import _measurement

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
