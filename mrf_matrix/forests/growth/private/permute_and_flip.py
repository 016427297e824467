r"""Permute-and-flip over integer scores, sampled exactly (McKenna and Sheldon, 2020).

Options are tried in random order, each once, and option i is taken with probability
``exp(-rate * gap_i)``, where ``gap_i >= 0`` is an integer, how far its score is behind. The best
has gap 0, so one is always taken. It is reporting the noisy maximum with exponential noise (Ding et
al., 2021): with scores that one record more raises by 0 or 1, never lowers, it is ε-DP at the rate
ε, and it errs no more often than the exponential mechanism of that rate. Its log probability
ratios have a range of up to 2 ε, so that under zCDP the exponential mechanism is the better one.

With acceptances :math:`q_i = e^{-r g_i}`, and an order that follows from uniform arrival times,

.. math:: P(i) = \int_0^1 q_i \prod_{j \ne i} (1 - t\,q_j)\,dt .
"""

import numpy as np

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.growth.private.selection import Rate, accepts


def permute_and_flip(gaps: Longs, rate: Rate, bits: Bits) -> Longs:
    """Choose a row for every column; without noise the first of the best.

    Parameters
    ----------
    gaps : ndarray of int64, shape (rows, columns)
        How far each option is behind the best of its column.
    rate : Rate
    bits : Bits
        The randomness.

    Returns
    -------
    ndarray of int64, shape (columns,)
    """
    if rate.units is None:
        return np.asarray(gaps.argmin(axis=0))
    n_rows, n_columns = gaps.shape
    left = np.tile(np.arange(n_rows), (n_columns, 1))  # not tried yet: the first so many
    chosen = np.zeros(n_columns, dtype=np.int64)
    pending = np.arange(n_columns)
    for remaining in range(n_rows, 0, -1):
        place = bits.below(np.full(len(pending), remaining))
        row = left[pending, place]
        left[pending, place] = left[pending, remaining - 1]
        accepted = accepts(gaps[row, pending], rate, bits)
        chosen[pending[accepted]] = row[accepted]
        pending = pending[~accepted]
    return chosen


def flip_probabilities(gaps: Array, rate: float) -> Array:
    """Return the law of `permute_and_flip`: each option's probability, columns summing to one.

    The integral is that of a polynomial, so that a Gauss rule gives it exactly. The largest arrays
    are of the shape of `gaps`.

    Parameters
    ----------
    gaps : ndarray of shape (rows, columns)
    rate : float

    Examples
    --------
    >>> flip_probabilities(np.array([[0.0], [2.0]]), 0.5).round(4).ravel()
    array([0.8161, 0.1839])
    """
    with np.errstate(invalid="ignore"):
        accepted = np.where(gaps > 0, np.exp(-rate * gaps), 1.0)
    nodes, weights = np.polynomial.legendre.leggauss(len(gaps) // 2 + 1)
    found = np.zeros(gaps.shape)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        passed = 1 - node * accepted
        found += weight * accepted * passed.prod(axis=0) / passed
    return found
