"""Integer noise with an exact law: discrete Laplace, discrete Gaussian, and none."""

from mrf_matrix.base.parent_process import NoiseProcessError
from mrf_matrix.mechanisms.noise.discrete_gaussian import DiscreteGaussian
from mrf_matrix.mechanisms.noise.discrete_laplace import DiscreteLaplace
from mrf_matrix.mechanisms.noise.law import NoiseLaw, NoNoise
from mrf_matrix.mechanisms.noise.shared import SharedDiscreteGaussian, SharedDiscreteLaplace

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "NoNoise",
    "NoiseLaw",
    "NoiseProcessError",
    "SharedDiscreteGaussian",
    "SharedDiscreteLaplace",
]
