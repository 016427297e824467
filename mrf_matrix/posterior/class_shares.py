r"""Links and class shares of residuals: what one record adds, and curvatures that follow.

*Curvatures of the cells of a table of residuals, from class shares that the first pass tells.*

*Codes.* In the first pass all records have the log odds of the class totals. So a table is linear
in the share :math:`s_c` of the class among the records of a code, however far that is from its
share p among all records:

.. math:: G_c = n_c\, w\, (s_c - p) + e, \qquad s_c = p + p (1 - p)\, δ_c,

δ the effects on the log odds if they were small. Where effects are right, probabilities of the
records of a code have the mean :math:`s_c`, whatever the other attributes say. So the curvature at
the solution is known before the first step towards it.

*Cells* of several attributes have shares whose log odds are sums over the attributes, and that
agree with the shares of every attribute's codes. They are fitted to one attribute after another.
What several say beyond that is what their table is for.

*Curvatures* are the mean curvature h of a record, divided among the cells:

.. math:: H_c = N h\, \frac{n_c\, m_c}{\sum_{c'} n_{c'}\, m_{c'}} , \qquad
          m_c = \bigl(s_c^{-r} + (1 - s_c)^{-r}\bigr)^{-1/r}

of two classes, and :math:`m_c = s_c` of several. Where this attribute alone tells the class, a
record's curvature is half of ``min(s, 1-s)``: r is large. Where others tell much beside it, their
probabilities are far from :math:`s_c` on both sides, and codes near one half have less: r is the
largest of few with which the :math:`m_c / 2` are h on average. With h alone for all cells, one
whose class is more than twice as frequent as usual is given steps of more than twice the right
length: they do not converge.

*Effects* of a table of several attributes are mapped from the linear model's as in the first pass,
for they are visited once: :math:`\operatorname{logit}(s + s(1-s)δ) - \operatorname{logit}(s)`.

*How far a residual forest's shares of a class are from those of the counts, code by code.*

*Counts.* In the first pass all records have the scores of the class totals. A record of the class
then adds :math:`a_1` to its code's sum, any other :math:`-a_0`. So a noisy sum G over n records
tells the share of the class among them: :math:`s = (G / n + a_0) / (a_1 + a_0)`.

*Model.* A later table sums :math:`w (y - p)` over the records of a code, p the forecast at that
time: it is the distance of the forecasts from the labels. Its step δ takes :math:`H δ` of that
away, H the code's curvature. What is left, divided by the sum of the weights, is the distance of
the model's share from that of the counts. Steps of other attributes that follow are not in it.

Both are read off releases that were paid for. They rest on no law of the records.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.posterior.residual_blocks import Table

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
        sizes = self._cap(sizes)
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

    def _cap(self, sizes: Longs) -> Longs:
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


FARTHEST = 3.0
"""No code's share is taken to be farther from the class's own, on the log odds."""

MOST_ROUNDS, NEAR = 8, 1e-3
"""Rounds over the attributes at most, and the step on the log odds that ends them."""


POWERS: Array = 2.0 ** np.arange(4, -4.1, -0.25)
"""Candidates for r, the largest first."""


def first_pass_shares(bases: Array, effects: Array) -> Array:
    """Return the shares of each class among the records of an attribute's codes, (n, columns).

    `bases`, (columns,): log odds of the class totals, of several classes logarithms of their
    shares; `effects`, (n, columns): of the first pass's table, as a linear model has them.
    """
    of_two = len(bases) == 1
    own = expit(bases) if of_two else np.exp(bases)
    slope = own * (1 - own) if of_two else own
    nearest, farthest = (expit(logit(own) + side) for side in (-FARTHEST, FARTHEST))
    return np.asarray(np.clip(own + slope * effects, nearest, farthest))


def additive_shares(shares: Sequence[Array], counts: Array) -> Array:
    """Return the shares of a class in the cells of a table whose log odds are sums.

    `shares`: of the class among the records of each attribute's codes; `counts`: positive, an axis
    for every attribute.

    >>> one, other = np.array([0.1, 0.5]), np.array([0.2, 0.4])
    >>> found = additive_shares([one, other], np.full((2, 2), 25.0))
    >>> found.mean(axis=1).round(2), found.mean(axis=0).round(2)
    (array([0.1, 0.5]), array([0.2, 0.4]))
    """
    if len(shares) == 1:
        return shares[0]
    axes = range(counts.ndim)
    others = [tuple(j for j in axes if j != axis) for axis in axes]
    totals = [counts.sum(axis=one) for one in others]
    log_odds = np.zeros(counts.shape)
    for _ in range(MOST_ROUNDS):
        farthest = 0.0
        for wanted, rest, total in zip(shares, others, totals, strict=True):
            step = logit(wanted) - logit((counts * expit(log_odds)).sum(axis=rest) / total)
            log_odds += np.expand_dims(step, rest)
            farthest = max(farthest, float(np.abs(step).max()))
        if farthest < NEAR:
            break
    return np.asarray(expit(log_odds))


def mapped_effects(shares: Array, effects: Array, *, of_two: bool) -> Array:
    """Return effects on the log odds in cells of these shares, from those of a linear model.

    It is exact where all records of a cell have its share. No effect is larger than `FARTHEST`.
    """
    own = logit(shares)
    slope = shares * (1 - shares) if of_two else shares
    found = np.clip(shares + slope * effects, expit(own - FARTHEST), expit(own + FARTHEST))
    return np.asarray(logit(found) - own if of_two else np.log(found / shares))


def cell_curvatures(means: Array, shares: Array, counts: Array) -> Array:
    """Return the expected curvature of each cell, (n, columns).

    `means`, (columns,): of a record; `shares`, (n, columns): of each class in the cells; `counts`,
    (n,): of the cells' records.
    """
    sizes = _soften(shares, counts, 2 * float(means[0])) if len(means) == 1 else shares
    return np.asarray(counts[:, None] * sizes * (means * counts.sum() / (counts @ sizes)))


def _soften(shares: Array, counts: Array, mean: float) -> Array:
    """Return the smaller shares, softened until their mean over the records is as measured."""
    for power in POWERS:
        found = (shares**-power + (1 - shares) ** -power) ** (-1 / power)
        if counts @ found <= mean * counts.sum():
            break
    return np.asarray(found)


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
    def model_shares(self) -> Array:
        """Shares in the model, within 0 and 1."""
        return np.clip(self.counted - self.lacking, 0.0, 1.0)

    def with_remainder(self, left: Table) -> "CodeShares":
        """Return the shares after a later table, by what its step left unexplained of it."""
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
