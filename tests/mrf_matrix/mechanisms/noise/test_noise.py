"""The samplers against their exact laws, with a negative control that must fail."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import log, pi, sqrt

import numpy as np
import pytest
from noise_laws import TwoDraws
from scipy import stats

from mrf_matrix import Domain, RandomTrees, expected_error, path_matrix, reconstruct, save_release
from mrf_matrix.estimators import from_release
from mrf_matrix.files import ReleaseFileError
from mrf_matrix.mechanisms import (
    ZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
    PureDP,
    Quorum,
    Release,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
    calibrate,
    count_cells,
    measure,
    row_variances,
)
from mrf_matrix.reconstruction import combine
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
    assert p_value(exact_draws(law, 20_000), law) > REJECT


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
    off = kind(scale * (Fraction(65, 64) if scale > 1 else Fraction(9, 8)))
    assert p_value(draws, off) < REJECT


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("scale", [2**11, 2**30, 2**54])
def test_research_noise_of_huge_scale(kind, scale):
    law = kind(Fraction(scale))
    draws = law.research((400_000,), np.random.default_rng(3)).astype(float)
    assert draws.var() == pytest.approx(law.variance, rel=0.02)
    assert abs(draws.mean()) < 5 * sqrt(law.variance / draws.size)


@pytest.mark.parametrize("kind", LAWS)
def test_exact_noise_of_huge_scale(kind):
    law = kind(Fraction(2**55))  # the largest there is
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
        scale = DiscreteGaussian.calibrated(numerator, 1, Fraction(denominator, 2)).scale
        assert Fraction(float(scale)) == scale
        assert square <= scale**2 <= square * (1 + Fraction(1, 2**50))


def test_calibration_formulas():
    assert DiscreteLaplace.calibrated(3, 1, Fraction(1, 2)).scale == 6
    assert DiscreteLaplace.calibrated(3, 4, Fraction(1, 2)).scale == 12
    assert DiscreteGaussian.calibrated(8, 1, Fraction(1)).scale == 2
    assert DiscreteGaussian.calibrated(8, 4, Fraction(1)).scale == 4
    assert DiscreteGaussian.calibrated(8, 2, Fraction(1)).scale ** 2 >= 8


@pytest.mark.parametrize("kind", LAWS)
def test_noise_is_added_to_every_answer_independently(kind):
    law = kind(Fraction(20))
    answers = np.arange(15_000).reshape(5000, 3) * 1000
    noise = law.exact(answers) - answers
    correlation = np.corrcoef(noise.T)[np.triu_indices(3, 1)]
    assert np.abs(correlation).max() < 6 / sqrt(5000)
    serial = np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]
    assert abs(serial) < 6 / sqrt(5000)
    again = law.exact(answers) - answers
    assert abs(np.corrcoef(noise.ravel(), again.ravel())[0, 1]) < 6 / sqrt(15_000)


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
    with pytest.raises(ValueError, match="expected a Quorum"):
        Release(plain.mechanism, plain.answers, "shares", (2,))
    with pytest.raises(ValueError, match="expected a Quorum"):
        Release(plain.mechanism, plain.answers, "exact", (2,), quorum=Quorum(5))


# A noise law of somebody else ---------------------------------------------------------------------

DOMAIN = Domain.from_sizes([2, 3], n_classes=2)
CODES = np.random.default_rng(0).integers(0, [2, 3], size=(40, 2))
LABELS = np.random.default_rng(1).integers(0, 2, size=40)
COUNTS = count_cells(CODES, LABELS, DOMAIN.sizes, 2)
STRATEGY = np.vstack([np.eye(6), np.ones((1, 6))])


def measured(noise="exact", law=TwoDraws, **options):
    mechanism = calibrate(STRATEGY, PureDP(1), law=law, **options)
    return measure(mechanism, COUNTS, noise=noise)


def test_its_release_claims_nothing_of_ours():
    release = measured()
    assert release.noise == "claimed"
    assert not release.is_private
    assert release.statement.startswith("Claim by two Laplace draws, unverified: PureDP(epsilon=1)")
    for text in (str(release), repr(release), release._repr_html_()):
        assert "Private release" not in text
        assert "unverified" in text
    assert "opendp" not in release.measured.sampler
    assert measured("research").statement.startswith("NOT A PRIVATE RELEASE: two Laplace draws")
    assert "Claim by two Laplace draws, unverified" in repr(combine(release, np.eye(6)))
    with pytest.raises(ValueError, match=r"'exact' of two Laplace draws.*expected 'claimed'"):
        replace(release, noise="exact", measured=None)
    proved = measured(law=None)
    assert proved.statement.startswith("Private release")
    with pytest.raises(ValueError, match=r"'claimed' of discrete Laplace.*for no other"):
        replace(proved, noise="claimed", measured=None)


def test_a_subclass_of_ours_is_not_ours():
    """It inherits calibration and samplers, and may have overridden any of them."""

    class Mine(DiscreteLaplace):
        name = "mine"

    assert measured(law=Mine).statement.startswith("Claim by mine, unverified")


def test_numbers_follow_the_law():
    mechanism = calibrate(STRATEGY, PureDP(1), law=TwoDraws)
    ours = calibrate(STRATEGY, PureDP(1))
    assert mechanism.law.scale == ours.law.scale
    release = measure(mechanism, COUNTS, noise="research", random_state=0)
    twice = 2 * row_variances(measured(law=None), np.eye(6))
    assert row_variances(release, np.eye(6)) == pytest.approx(twice)
    error, own = (
        expected_error(STRATEGY, np.eye(6), epsilon=1, law=law) for law in (None, TwoDraws)
    )
    assert own.total == pytest.approx(2 * error.total)
    halved = own.at(epsilon=0.5)
    assert type(halved.mechanism.law) is TwoDraws
    assert halved.mechanism.law.scale == 2 * mechanism.law.scale


@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace(Fraction(1, 4)), DiscreteLaplace(Fraction(20)), DiscreteGaussian(Fraction(2))],
)
def test_fourth_cumulant_of_a_characteristic_function(law):
    found = NoiseLaw.fourth_cumulant.fget(law)
    assert found == pytest.approx(law.fourth_cumulant, abs=1e-3 * law.variance**2, rel=1e-3)


def test_forests_of_its_release_follow_it_or_refuse():
    forest = RandomTrees(n_trees=2, max_depth=1).grow(DOMAIN, random_state=0)
    release = measured("research")
    model = from_release(release, DOMAIN, forest=forest, voting="weight")
    workload = path_matrix(forest)
    assert model.ensembles_[0].leaf_values == pytest.approx(reconstruct(release, workload))
    with pytest.raises(TypeError, match=r"two Laplace draws does not state how its tails fall"):
        model.vote_intervals(CODES[:3])
    report = from_release(measured(), DOMAIN, forest=forest).privacy_report_
    assert report.statement.startswith("Claim by two Laplace draws, unverified")


def test_what_does_not_know_it_names_it(tmp_path):
    for release in (measured(), measured("research")):
        with pytest.raises(ReleaseFileError, match=r"two Laplace draws.*no form in files"):
            save_release(release, tmp_path / "one.release", DOMAIN, allow_nonprivate=True)
    assert not list(tmp_path.iterdir())


def test_laws_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"law=TwoDraws is for PureDP.*ZCDP"):
        calibrate(STRATEGY, ZCDP(1), law=TwoDraws)
    with pytest.raises(ValueError, match=r"law=DiscreteGaussian is for ZCDP"):
        calibrate(STRATEGY, PureDP(1), law=DiscreteGaussian)
    with pytest.raises(TypeError, match="expected a class"):
        calibrate(STRATEGY, PureDP(1), law=TwoDraws(Fraction(5)))
    mechanism = calibrate(STRATEGY, PureDP(1), law=TwoDraws)
    with pytest.raises(ValueError, match=r"law=two Laplace draws of scale 1"):
        replace(mechanism, law=TwoDraws(Fraction(1)))

    class Scaleless(TwoDraws):
        name = "scaleless"
        calibrated = classmethod(lambda cls, *given: NoiseLaw.calibrated.__func__(cls, *given))

    with pytest.raises(
        TypeError, match=r"scaleless does not state its scale.*Scaleless.calibrated"
    ):
        calibrate(STRATEGY, PureDP(1), law=Scaleless)
    assert measure(calibrate(STRATEGY, PureDP(float("inf")), law=TwoDraws), COUNTS).noise == "none"


# Laws that are not known -------------------------------------------------------------------------


@dataclass(frozen=True)
class Mine(DiscreteLaplace):
    """Another law, whatever it is."""


class Unfinished(NoiseLaw):
    """Without what flips and intervals need."""

    name = "unfinished"
    variance = 1.0

    def log_pmf(self, values):
        return np.zeros(len(values))

    def exact(self, answers):
        return answers

    def research(self, shape, generator):
        return np.zeros(shape, dtype=np.int64)


def test_a_mechanism_refuses_it():
    mechanism = calibrate(np.eye(3), PureDP(1))
    for law in (Mine(Fraction(5)), NoNoise(), DiscreteGaussian(Fraction(5))):
        with pytest.raises(ValueError, match=r"law=.*Expected the mechanism"):
            replace(mechanism, law=law)
    with pytest.raises(ValueError, match="discrete Gaussian noise of scale"):
        replace(calibrate(np.eye(3), ZCDP(1)), law=DiscreteLaplace(Fraction(5)))
    assert replace(mechanism, law=DiscreteLaplace(Fraction(5))).law.scale == 5


def test_a_law_says_what_flips_and_intervals_need():
    with pytest.raises(TypeError, match="log_characteristic"):
        Unfinished(Fraction(1))
