"""How far the normal law is off where it stands in for noise, found by summing over all values."""

from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix.error.noise_sums import NORMAL_ERROR, NoiseSum, NoiseTerm, normal_flip
from mrf_matrix.mechanisms import DiscreteGaussian, DiscreteLaplace


def enumerated(law, margins, rivals):
    """Return the flip probability of single draws by summing over all their values."""
    values = np.arange(-int(45 * law.scale) - 45, int(45 * law.scale) + 46)
    mass = law.pmf(values)
    below = np.concatenate([[0.0], np.cumsum(mass)])  # P(Z < values[0] + i)
    kept = []
    for margin in margins:
        lower = below[np.clip(np.ceil(values + margin) - values[0], 0, len(mass)).astype(int)]
        upper = below[np.clip(np.floor(values + margin) - values[0] + 1, 0, len(mass)).astype(int)]
        shares = [lower**i * upper ** (rivals - i) for i in range(rivals + 1)]
        kept.append(mass @ np.mean(shares, axis=0))  # E[no rival above / (1 + ties)]
    return 1 - np.array(kept)


def normal_errors(law, margins, rivals):
    """Return by how much the normal stand-in is off for single draws of a law."""
    stands_in = [normal_flip(margin, law.variance, rivals) for margin in margins]
    return np.abs(stands_in - enumerated(law, margins, rivals))


@pytest.mark.parametrize("scale", [0.125, 0.3125, 0.75, 2, 10, 50])
def test_the_normal_law_is_as_far_off_as_is_said(scale):
    """Whole margins within `NORMAL_ERROR`, others within half a tie more; several rivals .051."""
    for law in (DiscreteLaplace(Fraction(scale)), DiscreteGaussian(Fraction(scale))):
        spread = np.sqrt(law.variance)
        whole = np.unique(np.round(np.linspace(0, 6 * spread + 3, 60)))
        between = np.linspace(1e-3, 6 * spread + 3, 61)
        tie = 1 - 2 * enumerated(law, [1e-9], 1)[0]  # the lead is a trace
        assert normal_errors(law, whole, 1).max() <= NORMAL_ERROR
        assert normal_errors(law, between, 1).max() <= NORMAL_ERROR + tie / 2
        if scale >= 0.75:
            assert normal_errors(law, whole, 3).max() <= 0.051
            assert normal_errors(law, whole, 9).max() <= 0.051


def test_the_bound_of_the_normal_law_is_reached_by_one_draw_and_not_by_sums():
    """Negative control: .03 would be too little, and single draws of small scale are far worse."""
    x = np.linspace(0, 20, 20_001)
    continuous = [normal_flip(one, 2.0) - (2 + one) * np.exp(-one) / 4 for one in x]
    assert 0.0333 < np.abs(continuous).max() <= NORMAL_ERROR
    law = DiscreteLaplace(Fraction(50))
    margins = np.arange(0, 300.0)
    assert normal_errors(law, margins, 1).max() > 0.03
    assert normal_errors(DiscreteLaplace(Fraction(1, 8)), [1e-3], 1)[0] > 0.4
    rng = np.random.default_rng(0)
    for weights in ([1.0, 0.2], [1.0, 0.7], rng.random(4)):
        error = NoiseSum((NoiseTerm.of(np.asarray(weights), law),))
        exact = error.flip_probabilities(margins, 1)
        stands_in = [normal_flip(margin, error.variance) for margin in margins]
        assert np.abs(exact - stands_in).max() < 0.0334
