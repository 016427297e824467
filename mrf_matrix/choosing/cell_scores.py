r"""Scores of labelled cells over draws of the coupled bootstrap, and their standard errors.

With ``P`` the mean over B draws of what labels pick from each cell (1 for the label's class, or
the difference of two labels), the mean score ``Σ P test / N`` has two errors: that of the cells
themselves and that of the draws,

.. math::

    \operatorname{std\_error}^2 = \frac1{N^2}\Bigl(\operatorname{var}\bigl(\textstyle\sum P y\bigr)
        + \frac{1}{\gamma B^2} \sum_b \operatorname{var}\bigl(\textstyle\sum P_b y\bigr)\Bigr).

Variances of sums are exact for the noise, with all covariances of cells. Where N is the release's
own, its error is a part of the score's: for a score s the cells count with ``P - s`` instead
(delta method). Records that are drawn move the share of right labels alone, so for their
variance it is ``P - s`` always.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.choosing.coupled_bootstrap import NoisyCells

Array = NDArray[np.float64]


def picks(labels: NDArray[np.integer[Any]], n_classes: int) -> NDArray[np.int8]:
    """Return 1 at each cell's label, shape (n, k)."""
    return np.asarray(labels[:, None] == np.arange(n_classes)).astype(np.int8)


class PickedSums:
    """Running moments of what labels pick, over draws: no labels are kept.

    Parameters
    ----------
    cells : NoisyCells
    gamma : float
    """

    def __init__(self, cells: NoisyCells, gamma: float) -> None:
        self._cells = cells
        self._gamma = gamma
        self._picked = np.zeros(cells.values.shape, dtype=np.int32)
        self._sum = 0.0
        self._drawn = 0.0
        self._draws = 0

    def add(self, picked: NDArray[np.int8], test: Array) -> None:
        """Add one draw: what is picked (n, k), -1 to 1, and the table to score it on (n, k)."""
        self._picked += picked
        self._sum += float((picked * test).sum())
        weights = picked.astype(np.float64)
        self._drawn += self._cells.variance_of_sum(weights, weights)
        self._draws += 1

    @property
    def mean(self) -> float:
        """Mean over the draws, in records."""
        return self._sum / self._draws

    def error(self, *, noise_centre: float = 0.0, centre: float = 0.0) -> float:
        """Return the standard error of the mean, in records.

        Parameters
        ----------
        noise_centre, centre : float
            Taken from what is picked, against the noise and against the drawing of records: the
            score, where each is divided by their number, too.
        """
        weights = self._picked / self._draws
        own = self._cells.variance_of_sum(weights - noise_centre, weights - centre)
        drawn = self._drawn / (self._gamma * self._draws**2)
        return float(np.sqrt(own + drawn))
