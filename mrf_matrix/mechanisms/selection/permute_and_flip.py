r"""Permute-and-flip over integer scores, sampled exactly.

Options are looked at in random order; option i, ``gap_i`` behind the best, is taken with
probability ``exp(-rate * gap_i)``, and otherwise not looked at again (McKenna and Sheldon 2020).
It is as if each score had exponential noise of scale ``1/rate`` and the largest were told (Ding,
Kifer, Sayed Saghaian N. E., Steinke, Wang, Xiao and Zhang 2021). Where one record more raises
scores by 0 to 1 and lowers none, how much noise an option needs moves by at most 1 either way: the
law is rate-DP. No option that is not the best is taken more often than by the exponential mechanism
of that rate. Its log probabilities may move by ``rate`` up and down: under zCDP it costs
:math:`r^2/2`, four times as much as the exponential mechanism.

The probability of option i is :math:`a_i\int_0^1\prod_{j\ne i}(1 - a_ju)\,du`, with
:math:`a_j = e^{-r\,\mathrm{gap}_j}`.
"""

import numpy as np

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.mechanisms.selection.exponential import Rate, accepts


def permute_and_flip(gaps: Longs, rate: Rate, bits: Bits) -> Longs:
    """Choose a row for every column.

    `gaps` (rows, nodes): how far each option is behind the best one, which is at 0; `rate`: finite.
    Of shape (nodes,). The largest arrays are of the shape of `gaps`.
    """
    left = np.ones(gaps.shape, dtype=np.bool_)
    chosen = np.zeros(gaps.shape[1], dtype=np.int64)
    pending = np.arange(gaps.shape[1])
    while len(pending):
        options = left[:, pending]
        place = bits.below(options.sum(axis=0))
        row = (options.cumsum(axis=0) > place).argmax(axis=0)
        accepted = accepts(gaps[row, pending], rate, bits)
        chosen[pending[accepted]] = row[accepted]
        pending, row = pending[~accepted], row[~accepted]
        left[row, pending] = False
    return chosen


def flip_probabilities(gaps: Longs | Array, rate: float) -> Array:
    """Return the law of `permute_and_flip`: each option's probability, columns summing to one.

    The polynomial under the integral is of degree rows - 1: so many nodes of Gauss and Legendre
    make no error but rounding. The largest arrays are of the shape of `gaps`.
    """
    nodes, weights = np.polynomial.legendre.leggauss(len(gaps) // 2 + 1)
    close = np.exp(-rate * np.asarray(gaps, dtype=np.float64))
    found = np.zeros(close.shape)
    for node, weight in zip((1 + nodes) / 2, weights / 2, strict=True):
        fewer = np.log1p(-node * close)
        found += weight * np.exp(fewer.sum(axis=0) - fewer)
    return np.asarray(close * found)
