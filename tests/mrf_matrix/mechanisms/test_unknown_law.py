"""A law that the library does not know is refused by name, never counted as no noise."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix.error.noise_sums import NoiseSum, NoiseTerm
from mrf_matrix.mechanisms import (
    ZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
    PureDP,
    calibrate,
)


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
