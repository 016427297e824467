r"""Class totals from all that a release says of them, kept plausible where noise drowns them.

Every table sums to the class totals, so there are several estimates of known variance; they are
averaged by inverse variance to :math:`\hat N_c` of variance :math:`s^2`. Small budgets leave them
negative or absurd. The number of all records is the mean of a normal law cut off at zero (Mill's
ratio), and the totals' deviations from the mean are shrunk by

.. math::

    \frac{\sigma^2}{\sigma^2 + s^2}, \qquad
    \sigma^2 = \max\Bigl(\tfrac14 \bar N^2,\;
        \min\bigl(\tfrac{1}{k-1} \textstyle\sum_c (\hat N_c - \bar N)^2 - s^2,\;
        (k-1) \bar N^2\bigr)\Bigr),

an unbiased estimate of their spread between what is usual and what is possible (James and Stein,
1961; empirical Bayes).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.block_table import BlockTable

CERTAIN = 30.0  # standard errors above zero from which a total needs no correction

USUAL_SPREAD = 0.5
"""Spread of class totals around their mean, relative to it, that is taken as usual."""

LEAST_SHARE = 0.01
"""Least share of a class under noise; without noise, least total of a class that has none."""

LEAST_OF_MEAN = 0.5
"""Least total of a class relative to the mean of all: counts where there are many classes."""

LEAST_TOTAL = 5.0


@dataclass(frozen=True, eq=False)
class ClassTotals:
    """How many records each class has, as far as a release tells.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Positive.
    error : float
        Standard error of the unbiased estimates behind them, in records.
    """

    values: Array
    error: float

    @property
    def shares(self) -> Array:
        """Share of each class."""
        return np.asarray(self.values / self.values.sum())


def class_totals(tables: Sequence[BlockTable], measured: BlockTable | None = None) -> ClassTotals:
    """Combine every estimate of the class totals.

    Parameters
    ----------
    tables : sequence of BlockTable
        Each sums to the class totals.
    measured : BlockTable, optional
        The totals' own measurement: a block of no attributes.

    Returns
    -------
    ClassTotals
    """
    sources = [*tables, *([] if measured is None else [measured])]
    variances = np.array([table.n_cells * table.variance for table in sources])
    least = float(variances.min())
    weights = least / variances if least > 0 else (variances == 0).astype(np.float64)
    totals = np.stack([table.totals for table in sources])
    combined = weights @ totals / weights.sum()
    error = float(np.sqrt(least / weights.sum()))
    return ClassTotals(_plausible(combined, error), error)


def _plausible(totals: Array, error: float) -> Array:
    if error == 0:
        return np.maximum(totals, LEAST_SHARE)
    k = len(totals)
    mean = max(_positive(float(totals.sum()), error * np.sqrt(k)), LEAST_TOTAL) / k
    deviations = totals - totals.mean()
    if k > 1:
        estimate = (deviations**2).sum() / (k - 1) - error**2
        signal = max(min(estimate, (k - 1) * mean**2), (USUAL_SPREAD * mean) ** 2)
        deviations = deviations * signal / (signal + error**2)
    least = min(LEAST_SHARE * k, LEAST_OF_MEAN) * mean
    values = np.maximum(mean + deviations, least)
    return np.asarray(values * (k * mean / values.sum()))


def _positive(total: float, error: float) -> float:
    """Return the mean of a normal law of this mean and error, given that it is positive."""
    if total > CERTAIN * error:
        return total
    if total < -CERTAIN * error:
        return float(error**2 / -total)
    ratio = total / error
    return float(total + error * np.exp(norm.logpdf(ratio) - norm.logcdf(ratio)))
