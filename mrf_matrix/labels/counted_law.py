r"""What noisy counts of a cell, beside its label, say of the shares of all classes.

Beforehand shares are ``p ~ Dirichlet(a, ..., a)``, as in `law`. A cell's size is taken for gamma
distributed around an even part of all records, with the shape ``k a``: then its counts ``n`` are
independent, each ``Gamma(a)``, and so they are given their noisy values, which are drawn class by
class. Draws are weighted by the probability that such counts say the label, and

.. math:: p \mid n \sim \text{Dirichlet}(a + n_1, \dots, a + n_k) .
"""

import numpy as np
from scipy.special import log_softmax, softmax

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.mechanisms import NoiseLaw
from mrf_matrix.posterior import CellShares

MOST_DRAWS, MOST_DRAWN = 1 << 12, 1 << 18
"""Draws of a cell, and shares of them at most, 2 MB."""

BINS = 1024
"""Of each count, within `REACH` standard deviations of the noise."""

REACH = 12


def counted_evidence(
    noisy: Longs, said: int, *, rate: float, records: float, concentration: float, law: NoiseLaw
) -> CellShares:
    """Return draws of a cell's shares, always the same.

    Parameters
    ----------
    noisy : ndarray of int64, shape (k,)
        Released counts.
    said : int
        The class that it says.
    rate : float
        Of the choice of labels.
    records : float
        What a cell holds if all hold as many.
    concentration : float
        The prior's ``a``.
    law : NoiseLaw
        Of the noise on each count.
    """
    generator = np.random.default_rng(0)
    draws = max(1, min(MOST_DRAWS, MOST_DRAWN // len(noisy)))
    counts = np.empty((draws, len(noisy)))
    for c, value in enumerate(noisy.tolist()):
        spread = (generator.permutation(draws) + 0.5) / draws
        counts[:, c] = _drawn(float(value), spread, records / len(noisy), concentration, law)
    weights = softmax(log_softmax(rate * counts, axis=1)[:, said])  # of logs: none need be 0
    ahead = counts + concentration
    expected = weights @ (ahead / ahead.sum(axis=1, keepdims=True))
    shares = generator.standard_gamma(ahead)
    return CellShares(shares / shares.sum(axis=1, keepdims=True), weights, expected)


def _drawn(noisy: float, levels: Array, mean: float, shape: float, law: NoiseLaw) -> Array:
    """Return quantiles of a count, given its noisy value; `mean`: that of its prior."""
    deviation = float(np.sqrt(law.variance))
    if not deviation:
        return np.full(len(levels), max(noisy, 0.0))
    low, high = max(0.0, noisy - REACH * deviation), max(0.0, noisy) + REACH * deviation
    edges = np.linspace(low, high, BINS + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    # the prior's density, but where it is infinite: from 0 on it is added up
    power = (shape - 1) * np.log(middles) if low else np.log(np.diff(edges**shape))
    prior = power - shape * middles / mean
    upto = np.cumsum(softmax(prior + law.log_pmf(noisy - middles)))
    return np.asarray(middles[np.minimum(np.searchsorted(upto, levels), BINS - 1)])
