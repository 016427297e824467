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
from numpy.typing import NDArray

from mrf_matrix.posterior.block_fit import BlockFit, BlockModel

Array = NDArray[np.float64]

USUAL_CORRELATION = 0.05
CORRELATION_SPREAD = 0.15
"""Mean and standard deviation of mean correlations before the release is seen."""

LEAST_VARIANCE = 1e-4
"""Of the mean correlation: pairs in no common block need not correlate alike."""

MOST_TRUST = 4.0


def trust(
    models: Sequence[BlockModel], fits: Sequence[BlockFit], pair_weights: Sequence[Array]
) -> float:
    """Return what the sum of log odds is multiplied by, positive and at most `MOST_TRUST`.

    Parameters
    ----------
    models, fits : sequences
        From `fit_main_effects`.
    pair_weights : sequence of ndarray
        How much of each pair's interaction the log odds of a block hold already.
    """
    shares = models[0].totals.shares
    effects = [_effects(model, fit) for model, fit in zip(models, fits, strict=True)]
    variances = np.concatenate([one.within(shares) for one in effects])
    between = _between(np.concatenate([one.means for one in effects]), shares)
    spreads = np.sqrt(variances)
    together = _blocks([np.ones((len(one.means), len(one.means))) for one in effects])
    held = _blocks([np.asarray(weights) for weights in pair_weights])
    for matrix in (between, together, held):
        np.fill_diagonal(matrix, 0.0)
    scale = float(spreads @ together @ spreads)
    found = [_overall(model, one, shares) for model, one in zip(models, effects, strict=True)]
    seen = sum(covariance for covariance, _ in found) - float((together * between).sum())
    correlation = _correlation(seen, sum(noise for _, noise in found), scale)
    covariances = _all_pairs(correlation, spreads, between, together)
    known = variances.sum() + float((held * covariances).sum())
    if known <= 0:
        return 1.0
    return float(known / max(variances.sum() + covariances.sum(), known / MOST_TRUST))


def _all_pairs(correlation: float, spreads: Array, between: Array, together: Array) -> Array:
    """Return the covariances within classes of all pairs, measured together or not."""
    pairs = np.outer(spreads, spreads)
    np.fill_diagonal(pairs, 0.0)
    if correlation >= 0:
        return np.asarray(correlation * pairs)
    if between.sum() >= (spreads**2).sum():  # no variance would be left within classes
        return np.asarray(USUAL_CORRELATION * pairs)
    measured = float((together * between).sum())
    share = correlation * float((together * pairs).sum()) / measured if measured > 0 else -1.0
    return np.asarray(max(share, -1.0) * between)


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


def _effects(model: BlockModel, fit: BlockFit) -> _Effects:
    shares, terms, own = model.shares(fit), [], []
    for start, size in zip(model.starts, model.table.sizes, strict=False):
        codes = slice(start, start + size)
        effects = fit.class_terms[:, codes]
        terms.append(np.asarray(effects - model.totals.shares @ effects).T)
        own.append(shares[:, codes])
    means = np.stack([mine @ effects for mine, effects in zip(own, terms, strict=True)])
    return _Effects(terms, own, means)


def _between(means: Array, shares: Array) -> Array:
    """Return the covariances of the classes' means, averaged over the classes, shape (d, d)."""
    centred = means - np.einsum("q,jqc->jc", shares, means)[:, None]
    return np.asarray(np.einsum("q,iqc,jqc,c->ij", shares, centred, centred, shares))


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


def _blocks(matrices: Sequence[Array]) -> Array:
    """Return square matrices along the diagonal of one."""
    size = sum(map(len, matrices))
    whole, start = np.zeros((size, size)), 0
    for matrix in matrices:
        stop = start + len(matrix)
        whole[start:stop, start:stop] = matrix
        start = stop
    return whole


def _correlation(covariance: float, noise: float, scale: float) -> float:
    """Return the posterior mean of the correlation from a noisy covariance at full scale."""
    if scale <= 0:
        return USUAL_CORRELATION
    usual = 1.0 / CORRELATION_SPREAD**2
    precision = scale**2 / (noise + LEAST_VARIANCE * scale**2)
    mean = (covariance / scale * precision + USUAL_CORRELATION * usual) / (precision + usual)
    return float(min(mean, 1.0))
