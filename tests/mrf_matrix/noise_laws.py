"""A noise law of one's own, and the claims that noise keeps, enumerated."""

from fractions import Fraction

import numpy as np

from mrf_matrix.mechanisms import DiscreteGaussian, DiscreteLaplace, NoiseLaw, PureDP


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


def delta_of(sigma, vector, epsilon):
    """Return δ(ε) of discrete Gaussian noise for answers that differ by a vector: enumerated."""
    law = DiscreteGaussian(Fraction(sigma))
    reach = int(9 * sigma) + 2 * max(map(abs, vector))
    values = np.arange(-reach, reach + 1)
    near, far = np.zeros(()), np.zeros(())
    for step in vector:
        near = np.add.outer(near, law.log_pmf(values))
        far = np.add.outer(far, law.log_pmf(values - step))
    return float(np.maximum(np.exp(near) - np.exp(epsilon + far), 0).sum())
