r"""Curvatures of the cells of a table of residuals, from class shares that the first pass tells.

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
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logit

from mrf_matrix.base.arrays import Array

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
    sizes = _softened(shares, counts, 2 * float(means[0])) if len(means) == 1 else shares
    return np.asarray(counts[:, None] * sizes * (means * counts.sum() / (counts @ sizes)))


def _softened(shares: Array, counts: Array, mean: float) -> Array:
    """Return the smaller shares, softened until their mean over the records is as measured."""
    for power in POWERS:
        found = (shares**-power + (1 - shares) ** -power) ** (-1 / power)
        if counts @ found <= mean * counts.sum():
            break
    return np.asarray(found)
