r"""How far the attributes' votes repeat each other, and how much to trust their sum.

A product of class-conditional probabilities counts what two attributes have in common twice. For
the effects :math:`f_i, f_j` of two attributes on the log odds of a class,

.. math::

    W_{ij} = M_{ij} - B_{ij}, \qquad M_{ij} = \operatorname{cov}(f_i, f_j), \qquad
    B_{ij} = \operatorname{cov}(\bar f_i, \bar f_j),

is their covariance within classes: M over all records, B between the classes' means, which single
attributes tell. The tables of blocks show M for pairs that were measured together. It is linear in
the noisy counts, so noise of known variance is all that is unknown about it. Under independence
within classes W = 0. Attributes that vary together beyond their class have W > 0, and mostly a
similar correlation r. Those of a designed experiment, where every combination occurs as often, are
independent *over all records*: M = 0, so W = -B. The sum of W over measured pairs, pulled toward
what is usual by as much as noise hides it, is therefore carried over to all pairs in proportion to
:math:`s_i s_j` where it is positive and to :math:`B_{ij}` where it is negative, s the effects'
standard deviations within classes. Attributes whose B adds up to more than their variances cannot
be independent over all records (codings that exclude each other vary against each other too): a
negative sum is then one of the measured pairs alone, and the others correlate as usual.

Were log odds normal, the true log odds would be the sum times

.. math::

    \lambda = \frac{\sum_i s_i^2 + \sum_{i \ne j} \kappa_{ij} W_{ij}}
        {\sum_i s_i^2 + \sum_{i \ne j} W_{ij}},

where :math:`\kappa_{ij}` is the share of a pair's interaction that the sum holds already.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.block_fit import BlockFit, BlockModel

USUAL_CORRELATION = 0.05
CORRELATION_SPREAD = 0.15
"""Mean and standard deviation of mean correlations before the release is seen."""

LEAST_VARIANCE = 1e-4  # of the mean correlation: pairs in no common block need not correlate alike

MOST_TRUST = 4.0


def trust(
    models: Sequence[BlockModel], fits: Sequence[BlockFit], pair_weights: Sequence[Array]
) -> float:
    """Return what the sum of log odds is multiplied by, positive and at most `MOST_TRUST`.

    `models`, `fits`: from `fit_main_effects`; `pair_weights`: how much of each pair's interaction
    the log odds of a block hold already.
    """
    shares = models[0].totals.shares
    effects = [_effects(model, fit) for model, fit in zip(models, fits, strict=True)]
    variances = [one.within(shares) for one in effects]
    spreads = [np.sqrt(own)[:, None] for own in variances]
    between = [one.between(shares) for one in effects]
    found = [_overall(model, one, shares) for model, one in zip(models, effects, strict=True)]
    seen = sum(covariance for covariance, _ in found) - sum(map(_cross, between))
    noise = sum(variance for _, variance in found)
    correlation = _correlation(seen, noise, sum(map(_cross, spreads)))
    factor, rows = _carried_over(correlation, spreads, between)
    separate = sum(float(own.sum()) for own in variances)
    held = sum(
        float((kept * (own @ own.T)).sum()) for kept, own in zip(pair_weights, rows, strict=True)
    )
    known = separate + factor * held
    if known <= 0:
        return 1.0
    everything = separate + factor * _cross(np.concatenate(rows))
    return known / max(everything, known / MOST_TRUST)


def _cross(rows: Array) -> float:
    """Return the sum of the inner products of all ordered pairs of different rows."""
    return float((rows.sum(axis=0) ** 2).sum() - (rows**2).sum())


def _carried_over(
    correlation: float, spreads: list[Array], between: list[Array]
) -> tuple[float, list[Array]]:
    """Return what covariances within classes are, of all pairs: a factor, and rows of each block.

    The covariance of two attributes is the factor times the inner product of their rows, so that
    nothing of the length of all pairs is needed.
    """
    if correlation >= 0:
        return correlation, spreads
    variance = sum(float((own**2).sum()) for own in spreads)
    if _cross(np.concatenate(between)) >= variance:  # none would be left within classes
        return USUAL_CORRELATION, spreads
    measured = sum(map(_cross, between))
    share = correlation * sum(map(_cross, spreads)) / measured if measured > 0 else -1.0
    return max(share, -1.0), between


@dataclass(frozen=True, eq=False)
class _Effects:
    """Effects of a block's attributes on the log odds of each class against the average class.

    ``terms[j]`` has shape (n_j, k), ``shares[j]`` (k, n_j), ``means`` (b, k', k): of the effects on
    class k among the records of class k'.
    """

    terms: list[Array]
    shares: list[Array]
    means: Array

    def within(self, shares: Array) -> Array:
        """Return each attribute's variance of effects within classes, shape (b,)."""
        squares = np.stack(
            [own @ terms**2 for own, terms in zip(self.shares, self.terms, strict=True)]
        )
        spread = np.maximum(squares - self.means**2, 0.0)
        return np.asarray(np.einsum("q,jqc,c->j", shares, spread, shares))

    def between(self, shares: Array) -> Array:
        """Return rows whose inner products are the covariances of the means, shape (b, k' k)."""
        centred = self.means - np.einsum("q,jqc->jc", shares, self.means)[:, None]
        weighted = centred * np.sqrt(np.outer(shares, shares))
        return np.asarray(weighted.reshape(len(weighted), -1))


def _effects(model: BlockModel, fit: BlockFit) -> _Effects:
    shares, terms, own = model.shares(fit), [], []
    for start, size in zip(model.starts, model.table.sizes, strict=False):
        codes = slice(start, start + size)
        effects = fit.class_terms[:, codes]
        terms.append(np.asarray(effects - model.totals.shares @ effects).T)
        own.append(shares[:, codes])
    means = np.stack([mine @ effects for mine, effects in zip(own, terms, strict=True)])
    return _Effects(terms, own, means)


def _overall(model: BlockModel, effects: _Effects, shares: Array) -> tuple[float, float]:
    """Return the covariances over all records of all ordered pairs of a block, and their noise."""
    table = model.table
    if len(table.sizes) < 2:
        return 0.0, 0.0
    codes, records = table.codes(), model.totals.values.sum()
    values = np.stack([terms[codes[:, j]] for j, terms in enumerate(effects.terms)])
    products = (values.sum(axis=0) ** 2 - (values**2).sum(axis=0)) @ shares
    means = np.einsum("q,jqc->jc", shares, effects.means)
    squared_means = (means.sum(axis=0) ** 2 - (means**2).sum(axis=0)) @ shares
    counts = table.values.sum(axis=1)
    # Noise can make the counts of a block sum to anything: their total is known better.
    level = float(products.mean())
    covariance = float(counts @ (products - level)) / records + level - float(squared_means)
    usual = table.n_classes * table.variance + np.maximum(counts, 0.0)
    return covariance, float((((products - level) / records) ** 2 * usual).sum())


def _correlation(covariance: float, noise: float, scale: float) -> float:
    """Return the posterior mean of the correlation from a noisy covariance at full scale."""
    if scale <= 0:
        return USUAL_CORRELATION
    usual = 1.0 / CORRELATION_SPREAD**2
    precision = scale**2 / (noise + LEAST_VARIANCE * scale**2)
    mean = (covariance / scale * precision + USUAL_CORRELATION * usual) / (precision + usual)
    return float(min(mean, 1.0))
