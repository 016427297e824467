r"""What one record adds to a table of residuals: integers on a public grid, of bounded size.

*Two classes.* With log odds F, ``p = 1/(1 + exp(-F))`` and a label y of 0 or 1, the weighted
residual is ``w (y - p)``, ``w = 1 / (2 max(p, 1-p))``: at most one half in size, where the plain
residual may be one. Noise has half the scale for it. All records of equal F have equal weights, so
the sum still estimates nothing where labels follow the model. Its expected derivative is the
curvature ``w p (1-p) = min(p, 1-p) / 2``, at most one quarter.

*Several classes.* With scores F_c, p their softmax and ``e_y`` the label's unit vector, a record
adds a number to each class's table, ``w (e_y - p)``. All tables are one measurement. Under "l1"
the numbers of a record add up to at most one in size with ``w = 1 / (2 (1 - min p))``: to two
without weights, however many classes there are. Under "l2" their norm is at most one with
``w = (1 - 2 min p + sum p²)^(-1/2)``. The curvature is ``w (1 - sum p²)``.

*One class.* It has probability one: no record leaves a residual, and nothing curves.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mrf_matrix.base.arrays import Array, Longs

UNITS = 1 << 10
"""Units in one: residuals and curvatures are rounded to multiples of ``1 / UNITS``."""

RESIDUAL_CAP = UNITS // 2
"""Largest size of a residual of two classes, in units."""

CURVATURE_CAP = UNITS // 4
"""Largest curvature of two classes, in units."""

LARGEST_SCORE = 700.0  # scores are cut off there


@dataclass(frozen=True)
class Link:
    """What records add, by the number of classes and the norm that bounds it.

    Attributes
    ----------
    n_classes : int
        At least 1.
    norm : {"l1", "l2"}
        Of one record's residuals in all columns.
    """

    n_classes: int
    norm: Literal["l1", "l2"]

    @property
    def n_columns(self) -> int:
        """Tables of residuals at once: one of two classes, for the other's is its negative."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def residual_cap(self) -> int:
        """Largest norm of one record's residuals in units, which one of them may have alone."""
        return RESIDUAL_CAP if self.n_classes == 2 else UNITS

    @property
    def curvature_cap(self) -> int:
        """Largest curvature, in units."""
        if self.n_classes == 2:
            return CURVATURE_CAP
        return UNITS // 2 if self.norm == "l1" else UNITS

    @property
    def largest_entry(self) -> int:
        """Largest size of one of a record's residuals, in units: under "l1" others outweigh it."""
        return UNITS if self.n_columns > 1 and self.norm == "l2" else RESIDUAL_CAP

    @property
    def largest_sum(self) -> int:
        """Largest sum of the sizes of one record's residuals, in units."""
        return 2 * UNITS if self.n_columns > 1 and self.norm == "l2" else self.residual_cap

    def residual_units(self, scores: Array, labels: NDArray[np.integer]) -> Longs:
        """Return each record's weighted residuals in units, shape (N, columns).

        Parameters
        ----------
        scores : ndarray of shape (N, columns)
            Of class 1 of two or of every class, from earlier releases alone.
        labels : ndarray of int, shape (N,)

        Examples
        --------
        >>> Link(3, "l1").residual_units(np.zeros((2, 3)), np.array([0, 2]))
        array([[ 512, -256, -256],
               [-256, -256,  512]])
        """
        if self.n_classes == 1:
            return np.zeros((len(labels), 1), dtype=np.int64)
        if self.n_columns == 1:
            return np.asarray(residual_units(scores[:, 0], labels)[:, None])
        shares, records = _shares(scores), np.arange(len(labels))
        sizes = np.rint(UNITS * self._weights(shares) * shares).astype(np.int64)
        sizes[labels, records] = 0
        sizes = self._capped(sizes)
        sizes[labels, records] = -sizes.sum(axis=0)
        return np.ascontiguousarray(-sizes.T)

    def curvature_units(self, scores: Array) -> Longs:
        """Return each record's weighted curvature in units: from 0 to `curvature_cap`."""
        if self.n_classes == 1:
            return np.zeros(len(scores), dtype=np.int64)
        if self.n_columns == 1:
            return curvature_units(scores[:, 0])
        shares = _shares(scores)
        sizes = np.rint(UNITS * self._weights(shares) * (1 - (shares**2).sum(axis=0)))
        return np.asarray(np.clip(sizes, 0, self.curvature_cap).astype(np.int64))

    def _weights(self, shares: Array) -> Array:
        least = shares.min(axis=0)
        if self.norm == "l1":
            return np.asarray(0.5 / (1 - least))
        return np.asarray((1 - 2 * least + (shares**2).sum(axis=0)) ** -0.5)

    def _capped(self, sizes: Longs) -> Longs:
        """Return what other classes lose, shrunk where rounding took a record above the cap.

        In whole numbers: ``floor(s cap / n) <= s cap / n``, with n the norm or more.
        """
        gained = sizes.sum(axis=0)
        if self.norm == "l1":
            norms = 2 * gained
        else:
            norms = np.ceil(np.sqrt(gained**2 + (sizes**2).sum(axis=0))).astype(np.int64)
        above = norms > self.residual_cap
        sizes[:, above] = sizes[:, above] * self.residual_cap // norms[above]
        return sizes


def _shares(scores: Array) -> Array:
    """Return class shares, (k, N): sums over few classes are fast in columns alone."""
    logs = np.clip(np.ascontiguousarray(scores.T), -LARGEST_SCORE, LARGEST_SCORE)
    shares = np.exp(logs - logs.max(axis=0))
    return np.asarray(shares / shares.sum(axis=0))


def residual_units(log_odds: Array, labels: NDArray[np.integer]) -> Longs:
    """Return each record's residual of two classes: ``-RESIDUAL_CAP`` to ``RESIDUAL_CAP`` units.

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


def curvature_units(log_odds: Array) -> Longs:
    """Return each record's curvature of two classes in units: from 0 to ``CURVATURE_CAP``.

    Examples
    --------
    >>> curvature_units(np.array([0.0, 50.0]))
    array([256,   0])
    """
    sizes = np.rint(UNITS / 2 * expit(-np.abs(log_odds)))
    return np.clip(sizes, 0, CURVATURE_CAP).astype(np.int64)
