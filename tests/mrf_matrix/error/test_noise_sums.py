"""Flip probabilities of weighted sums of noise against simulation, coarse draws included."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from mrf_matrix.error.noise_sums import NoiseSum, NoiseTerm, normal_flip
from mrf_matrix.mechanisms import DiscreteGaussian, DiscreteLaplace

LAWS = [
    *(DiscreteLaplace(Fraction(scale)) for scale in (0.125, 0.3125, 2, 50)),
    *(DiscreteGaussian(Fraction(scale)) for scale in (0.3125, 0.625, 2, 30)),
]
WEIGHTS = {
    "one": [1.0],
    "one dominates": [1.0, 0.137, 0.4142],
    "one above many": [1.0, *(0.02 * np.sqrt(np.arange(1, 40)))],
    "a lattice": [1.0, 0.5, 0.5, 1.5],
    "many alike": np.sqrt(np.arange(20, 60)),
}
DRAWS = 25_000


def simulated(weights, law, margin, rivals, rng):
    """Return how often a class ahead by a margin loses to one of its rivals, ties shared."""
    ahead = law.research((DRAWS, len(weights)), rng) @ weights + margin
    others = [law.research((DRAWS, len(weights)), rng) @ weights for _ in range(rivals)]
    gaps = np.round([ahead - other for other in others], 9)
    lost, ties = (gaps < 0).any(axis=0), (gaps == 0).sum(axis=0)
    return np.mean(lost + ~lost * ties / (ties + 1))


@pytest.mark.parametrize(("law", "name"), list(product(LAWS, WEIGHTS))[::2], ids=str)
def test_flips_agree_with_simulation(law, name):
    """Within four deviations of the simulation, .012; the promise to users is .02."""
    weights, rng = np.array(WEIGHTS[name]), np.random.default_rng(7)
    error = NoiseSum((NoiseTerm.of(weights, law),))
    spread = np.sqrt(error.variance)
    for margin, rivals in ((0.3 * spread, 1), (1.0, 1), (1.5 * spread, 2)):
        found = simulated(weights, law, margin, rivals, rng)
        assert error.flip_probability(margin, rivals) == pytest.approx(found, abs=0.012)


def test_the_normal_law_would_be_noticed():
    """Negative control: what a single Laplace draw was taken for before is off by .03."""
    law, rng = DiscreteLaplace(Fraction(50)), np.random.default_rng(7)
    found = simulated(np.ones(1), law, 25.0, 1, rng)
    assert abs(normal_flip(25.0, law.variance) - found) > 0.02


def test_margins_share_one_law():
    error = NoiseSum((NoiseTerm.of(np.array([1.0, 0.3]), LAWS[1]),))
    margins = [0.0, 0.5, 2.0]
    each = [error.flip_probability(margin) for margin in margins]
    assert error.flip_probabilities(margins) == pytest.approx(each)
    assert each == sorted(each, reverse=True)
    assert each[0] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_transforms_and_cumulants_are_of_the_law(law):
    values = np.arange(-2000, 2001)
    mass = law.pmf(values)
    angles = np.array([0.0, 0.01, 0.4, 2.0, 3.1, 7.0])
    assert np.exp(law.log_characteristic(angles)) == pytest.approx(
        np.cos(np.outer(angles, values)) @ mass, abs=1e-9
    )
    fourth = mass @ values.astype(float) ** 4 - 3 * law.variance**2
    assert law.fourth_cumulant == pytest.approx(fourth, rel=1e-6, abs=1e-6 * law.variance**2)
