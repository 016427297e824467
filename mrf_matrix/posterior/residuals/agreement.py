r"""How far a residual forest's shares of a class are from those of the counts, code by code.

*Counts.* In the first pass all records have the scores of the class totals. A record of the class
then adds :math:`a_1` to its code's sum, any other :math:`-a_0`. So a noisy sum G over n records
tells the share of the class among them: :math:`s = (G / n + a_0) / (a_1 + a_0)`.

*Model.* A later table sums :math:`w (y - p)` over the records of a code, p the forecast at that
time: it is the distance of the forecasts from the labels. Its step δ takes :math:`H δ` of that
away, H the code's curvature. What is left, divided by the sum of the weights, is the distance of
the model's share from that of the counts. Steps of other attributes that follow are not in it.

Both are read off releases that were paid for. They rest on no law of the records.
"""

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.residuals.block import Table
from mrf_matrix.posterior.residuals.link import UNITS, Link

SELDOM = 0.05
"""With this probability at most, noise alone takes any of the differences beyond its bound."""


@dataclass(frozen=True, eq=False)
class CodeShares:
    """Shares of a class among the records of an attribute's codes: in counts, and in the model.

    Attributes
    ----------
    counted : ndarray of shape (n,)
        As the first table tells them, within 0 and 1.
    weights : ndarray of shape (n,)
        Sum of the records' weights of each code; positive.
    lacking : ndarray of shape (n,)
        By how much the model's shares are too small.
    variance : float
        Of the noise on a sum of the last table.
    """

    counted: Array
    weights: Array
    lacking: Array
    variance: float

    @property
    def implied(self) -> Array:
        """Shares in the model, within 0 and 1."""
        return np.clip(self.counted - self.lacking, 0.0, 1.0)

    def after(self, left: Table) -> "CodeShares":
        """Return the shares after a later table, of which its step has left so much."""
        return replace(self, lacking=left.residuals / self.weights, variance=left.variance)

    def bounds(self, n_compared: int) -> Array:
        """Return how large differences may be by noise and by rounding, of so many compared."""
        deviations = np.sqrt(self.variance) / self.weights
        return np.asarray(deviations * log(n_compared / SELDOM) / sqrt(2) + 1 / UNITS)


def counted_shares(table: Array, counts: Array, bases: Array, link: Link) -> tuple[CodeShares, ...]:
    """Return the shares of each column's class that the first table of an attribute tells.

    `table`, (n, columns): noisy sums; `counts`, (n,): records of the codes, positive; `bases`,
    (columns,): scores of the class totals. None of one class alone.
    """
    if link.n_classes == 1:
        return ()
    labels = np.arange(link.n_classes)
    added = link.residual_units(np.tile(bases, (len(labels), 1)), labels) / UNITS
    means = table / counts[:, None]
    if link.n_columns > 1:
        means = means - means.mean(axis=1, keepdims=True)
    found = []
    for column, mean in enumerate(means.T):
        own = added[-1 if link.n_columns == 1 else column, column]
        other = -added[0 if column or link.n_columns == 1 else 1, column]
        shares = np.clip((mean + other) / (own + other), 0.0, 1.0)
        weights = np.full(len(counts), own + other)
        if link.n_columns == 1:
            weights = 0.5 / np.maximum(shares, 1 - shares)
        found.append(CodeShares(shares, weights * counts, np.zeros(len(counts)), np.inf))
    return tuple(found)
