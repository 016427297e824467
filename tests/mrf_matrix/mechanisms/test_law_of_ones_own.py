"""A noise law of somebody else: every number follows it, or refuses it by name."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix import Domain, RandomTrees, expected_error, path_matrix, reconstruct, save_release
from mrf_matrix.error.noise_sums import NoiseSum, NoiseTerm
from mrf_matrix.estimators import from_release
from mrf_matrix.files import ReleaseFileError
from mrf_matrix.mechanisms import (
    ZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
    PureDP,
    calibrate,
    count_cells,
    measure,
    row_variances,
)
from mrf_matrix.planning.plans.baselines import one_query_at_a_time, with_hard_votes
from mrf_matrix.reconstruction import combine

DOMAIN = Domain.from_sizes([2, 3], n_classes=2)
CODES = np.random.default_rng(0).integers(0, [2, 3], size=(40, 2))
LABELS = np.random.default_rng(1).integers(0, 2, size=40)
COUNTS = count_cells(CODES, LABELS, DOMAIN.sizes, 2)
STRATEGY = np.vstack([np.eye(6), np.ones((1, 6))])


class TwoDraws(NoiseLaw):
    """The sum of two discrete Laplace draws."""

    name = "two Laplace draws"
    budget_kind = PureDP

    @classmethod
    def calibrated(cls, column_sum, squared_factor, amount):
        return cls(DiscreteLaplace.calibrated(column_sum, squared_factor, amount).scale)

    @property
    def one(self):
        return DiscreteLaplace(self.scale)

    @property
    def variance(self):
        return 2 * self.one.variance

    def log_characteristic(self, angles):
        return 2 * self.one.log_characteristic(angles)

    def exact(self, answers):
        return self.one.exact(self.one.exact(answers))

    def research(self, shape, generator):
        return self.one.research((2, *shape), generator).sum(axis=0)


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
    for change in (with_hard_votes, lambda one: one_query_at_a_time(one, hard=True)):
        assert type(change(mechanism).law) is TwoDraws
        assert change(mechanism).law.scale == change(ours).law.scale > ours.law.scale


@pytest.mark.parametrize("margin", [0.0, 1.0, 3.0, 8.0])
def test_flips_are_those_of_the_law(margin):
    """Twice as many draws of one law, or as many of the sum of two."""
    scale = Fraction(3, 2)
    weights = np.array([1.0, 2.0])
    own = NoiseSum((NoiseTerm.of(weights, TwoDraws(scale)),))
    doubled = NoiseSum((NoiseTerm.of(np.repeat(weights, 2), DiscreteLaplace(scale)),))
    assert own.flip_probability(margin) == pytest.approx(doubled.flip_probability(margin), abs=1e-9)


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


def test_flips_are_those_of_the_law_itself():
    """A law that only inherits has the flips of its parent, not none."""
    one, other = (
        NoiseSum((NoiseTerm.of(np.ones(3), law),)).flip_probability(2.0)
        for law in (Mine(Fraction(2)), DiscreteLaplace(Fraction(2)))
    )
    assert one == other > 0.1
