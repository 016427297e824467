r"""What a label says of its cell: the shares of all classes, given that one class was said.

Beforehand shares are ``p ~ Dirichlet(a, ..., a)``, the less even the smaller a is. A cell of n
records has counts ``n p``. Class c is said with a known probability, by the exponential mechanism,
so that afterwards

.. math:: E[f(p) \mid c] = \frac{E[f(p)\,P(c \mid n p)]}{E[P(c \mid n p)]} .

It depends on the number of classes, the prior and the signal, rate times n, alone: by symmetry it
is the same for every class that may be said.
"""

from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, softmax

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior import CellShares

MOST_NUMBERS, MOST_ROWS = 1 << 21, 1 << 14
"""Shares that are drawn at most, 16 MB, and how many draws hold them at most."""

LEAST_LEAD = 1e-12  # of the class that is said, relative

LARGEST_SIGNAL = 1e9  # beyond it the largest class is said


@lru_cache(maxsize=16)
def label_evidence(n_classes: int, signal: float, concentration: float) -> CellShares:
    """Return draws of the shares of a cell that says the first class.

    Every draw serves for each class that may have been said, so that the class which is said has
    the largest expected share.

    Parameters
    ----------
    n_classes : int
    signal : float
        Rate of the choice times records of the cell.
    concentration : float
        The prior's ``a``.
    """
    rows = min(MOST_ROWS, MOST_NUMBERS // n_classes)  # of as many classes as there may be, two each
    draws = _shares_beforehand(n_classes, max(1, rows // n_classes), concentration)
    law = softmax(min(signal, LARGEST_SIGNAL) * draws.T, axis=0)
    order = (np.arange(n_classes)[:, None] + np.arange(n_classes)) % n_classes
    shares = draws[:, order].transpose(1, 0, 2).reshape(-1, n_classes)
    weights = law.ravel() / law.sum()
    # all others are alike, and the class that is said leads, however little it tells
    right = max(float(weights @ shares[:, 0]), (1 + LEAST_LEAD) / n_classes)
    expected = np.array([right, *[(1 - right) / (n_classes - 1)] * (n_classes - 1)])
    for kept in (shares, weights, expected):
        kept.flags.writeable = False
    return CellShares(shares, weights, expected)


def _shares_beforehand(n_classes: int, count: int, concentration: float) -> Array:
    """Return shares of the prior, always the same; of two classes evenly spaced quantiles."""
    if n_classes == 2:
        first = betaincinv(concentration, concentration, (np.arange(count) + 0.5) / count)
        return np.column_stack([first, 1 - first])
    each = np.full(n_classes, concentration)
    return np.random.default_rng(0).dirichlet(each, size=count)
