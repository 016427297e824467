"""Characteristic functions and fourth cumulants of single draws of discrete noise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
)

Array = NDArray[np.float64]

COARSE = 0.5
"""Scale below which a discrete Gaussian is summed over integers, not over frequencies."""

INTEGERS = np.arange(-40, 41)
"""Where a Gaussian draw of a small scale has its mass."""


def log_transform(law: NoiseLaw, angles: NDArray[Any]) -> Array:
    r"""Return the logarithm of a law's characteristic function, exactly.

    With :math:`p = e^{-1/s}` the discrete Laplace law has
    :math:`(1-p)^2 / ((1-p)^2 + 4 p \sin^2(\theta/2))`. The discrete Gaussian has, by Poisson's
    summation, :math:`\sum_k e^{-\sigma^2 (\theta + 2\pi k)^2/2}` over its value at 0, or for small
    σ its cosine series over few integers.

    Parameters
    ----------
    law : NoiseLaw
    angles : ndarray of shape (f,)
    """
    if isinstance(law, SharedDiscreteLaplace):
        return law.log_transform(angles)
    if isinstance(law, SharedDiscreteGaussian):
        return law.parties * log_transform(DiscreteGaussian(law.scale), angles)
    scale = float(law.scale)
    if isinstance(law, DiscreteLaplace):
        p = np.exp(-1 / scale)
        return np.asarray(-np.log1p(4 * p * np.sin(angles / 2) ** 2 / np.expm1(-1 / scale) ** 2))
    if not isinstance(law, DiscreteGaussian):
        return np.zeros(len(angles))
    if scale < COARSE:
        few = INTEGERS[np.abs(INTEGERS) <= 4]
        return np.asarray(np.log(np.cos(np.outer(angles, few)) @ law.pmf(few)))
    wrapped = np.abs(np.remainder(angles + np.pi, 2 * np.pi) - np.pi)
    exponent = -0.5 * (scale * wrapped) ** 2
    if scale > 3:  # the next term is below exp(-2π²·9/2) of the sum
        return np.asarray(exponent)
    turns = 2 * np.pi * np.arange(-4, 5)
    shifts = -0.5 * scale**2 * (2 * np.outer(wrapped, turns) + turns**2)
    total = np.exp(shifts).sum(axis=1)
    return np.asarray(exponent + np.log(total / np.exp(-0.5 * (scale * turns) ** 2).sum()))


def fourth_cumulant(law: NoiseLaw) -> float:
    """Return the fourth cumulant of one draw."""
    if isinstance(law, SharedDiscreteLaplace):
        return law.fourth_cumulant
    if isinstance(law, SharedDiscreteGaussian):
        return law.parties * fourth_cumulant(DiscreteGaussian(law.scale))
    scale = float(law.scale)
    if isinstance(law, DiscreteLaplace):  # difference of two geometric laws
        p = np.exp(-1 / scale)
        return float(2 * p * (1 + 4 * p + p * p) / (1 - p) ** 4)
    if isinstance(law, DiscreteGaussian) and scale < 3:
        fourth = float(law.pmf(INTEGERS) @ INTEGERS.astype(np.float64) ** 4)
        return fourth - 3 * law.variance**2
    return 0.0  # a Gaussian's is 0, and a fine discrete one's differs by exp(-2π²σ²)
