r"""What one record adds to a table of residuals: an integer on a public grid, of bounded size.

With log odds F, ``p = 1/(1 + exp(-F))`` and a label y of 0 or 1, the weighted residual is
``w (y - p)``, ``w = 1 / (2 max(p, 1-p))``: at most one half in size, where the plain residual
may be one. Noise has half the scale for it. All records of equal F have equal weights, so the sum
still estimates nothing where labels follow the model. Its expected derivative is the curvature
``w p (1-p) = min(p, 1-p) / 2``, at most one quarter.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNITS = 1 << 10
"""Units in one: residuals and curvatures are rounded to multiples of ``1 / UNITS``."""

RESIDUAL_CAP = UNITS // 2
"""Largest size of a residual, in units."""

CURVATURE_CAP = UNITS // 4
"""Largest curvature, in units."""


def residual_units(log_odds: Floats, labels: NDArray[np.integer]) -> Integers:
    """Return each record's weighted residual in units: from ``-RESIDUAL_CAP`` to ``RESIDUAL_CAP``.

    Parameters
    ----------
    log_odds : ndarray of shape (N,)
        Of class 1, from earlier releases alone.
    labels : ndarray of int, shape (N,)
        Classes, 0 or 1.

    Examples
    --------
    >>> residual_units(np.array([0.0, 0.0, 5.0]), np.array([1, 0, 0]))
    array([ 512, -512, -512])
    """
    # y - p has the sign of the label, and the size that the other class's probability has
    missed = expit(np.where(labels == 1, -log_odds, log_odds))
    sizes = np.rint(UNITS * missed / (2 * np.maximum(missed, 1 - missed)))
    capped = np.clip(sizes, 0, RESIDUAL_CAP).astype(np.int64)
    return np.asarray(np.where(labels == 1, capped, -capped))


def curvature_units(log_odds: Floats) -> Integers:
    """Return each record's weighted curvature in units: from 0 to ``CURVATURE_CAP``.

    Examples
    --------
    >>> curvature_units(np.array([0.0, 50.0]))
    array([256,   0])
    """
    sizes = np.rint(UNITS / 2 * expit(-np.abs(log_odds)))
    return np.clip(sizes, 0, CURVATURE_CAP).astype(np.int64)
