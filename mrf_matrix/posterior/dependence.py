r"""How far the attributes' votes repeat each other, and how much to trust their sum.

A product of class-conditional probabilities counts what two attributes have in common twice. The
tables of blocks show how much attributes of one block have in common: the covariance, within a
class, of their effects on the log odds,

.. math::

    \operatorname{cov}_c(f_i, f_j) = \frac1{N_c} \sum_x y_c(x)\, f_i(x_i) f_j(x_j)
        - \bar f_i \bar f_j,

is linear in the noisy counts, so noise leaves it unbiased, and its variance is known. The mean
correlation r over all pairs, pulled toward what is usual by as much as noise hides it, stands for
the pairs that were not measured together. Were log odds normal with this correlation, the true log
odds would be the sum times

.. math::

    \lambda = \frac{\sum_B V_B}{\sum_B V_B + r \sum_{B \ne B'} \sum_{i \in B, j \in B'} s_i s_j},

where :math:`s_i^2` are the variances of the effects and :math:`V_B` of a block's sum. Attributes
that make up for each other within a class (r < 0) are trusted more than independent ones.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.posterior.block_fit import BlockFit, BlockModel

Array = NDArray[np.float64]

USUAL_CORRELATION = 0.03
CORRELATION_SPREAD = 0.1
"""Mean and standard deviation of correlations before the release is seen."""

LEAST_CORRELATION = -0.2
LEAST_VARIANCE = 1e-4
"""Of the mean correlation: pairs in no common block need not correlate alike."""

MOST_TRUST = 3.0


def trust(models: Sequence[BlockModel], fits: Sequence[BlockFit]) -> float:
    """Return what the sum of log odds is multiplied by, positive and at most `MOST_TRUST`.

    Parameters
    ----------
    models, fits : sequences
        From `fit_main_effects`.
    """
    spreads = [_spreads(model, fit) for model, fit in zip(models, fits, strict=True)]
    inside = sum(_cross(own) for own in spreads)
    everything = np.concatenate(spreads)
    found = [_covariance(model, fit) for model, fit in zip(models, fits, strict=True)]
    correlation = _correlation(
        sum(covariance for covariance, _ in found), sum(noise for _, noise in found), inside
    )
    own_variance = float((everything**2).sum()) + correlation * inside
    across = correlation * (_cross(everything) - inside)
    if own_variance <= 0:
        return 1.0
    return own_variance / max(own_variance + across, own_variance / MOST_TRUST)


def _cross(spreads: Array) -> float:
    """Return the sum of products of all ordered pairs of different entries."""
    return float(spreads.sum() ** 2 - (spreads**2).sum())


def _correlation(covariance: float, noise: float, scale: float) -> float:
    """Return the posterior mean of the correlation from a noisy covariance at full scale."""
    usual = 1.0 / CORRELATION_SPREAD**2
    precision = scale**2 / (noise + LEAST_VARIANCE * scale**2) if scale > 0 else 0.0
    seen = covariance / scale if scale > 0 else 0.0
    mean = (seen * precision + USUAL_CORRELATION * usual) / (precision + usual)
    return float(np.clip(mean, LEAST_CORRELATION, 1.0))


def _spreads(model: BlockModel, fit: BlockFit) -> Array:
    """Return each attribute's standard deviation of effects, over codes and classes."""
    shares = model.shares(fit)
    found = []
    for start, size in zip(model.starts, model.table.sizes, strict=False):
        codes = slice(start, start + size)
        effects = _against_mean(model, fit.class_terms[:, codes])
        centred = effects - (shares[:, codes] * effects).sum(axis=1, keepdims=True)
        found.append((model.totals.shares @ (shares[:, codes] * centred**2)).sum())
    return np.asarray(np.sqrt(found))


def _against_mean(model: BlockModel, effects: Array) -> Array:
    """Return effects on the log odds of a class against the average class."""
    return np.asarray(effects - model.totals.shares @ effects)


def _covariance(model: BlockModel, fit: BlockFit) -> tuple[float, float]:
    """Return the covariances of all ordered pairs of a block's attributes, and their variance."""
    table = model.table
    if len(table.sizes) < 2:
        return 0.0, 0.0
    codes = table.codes()
    effects = np.stack(
        [
            _against_mean(model, fit.class_terms[:, start : start + size]).T[codes[:, j]]
            for j, (start, size) in enumerate(zip(model.starts, table.sizes, strict=False))
        ]
    )
    # Noise can make a class's counts in a block sum to anything: its total is known better.
    counts = table.values / model.totals.values
    products = effects.sum(axis=0) ** 2 - (effects**2).sum(axis=0)
    means = np.einsum("xc,mxc->mc", counts, effects)
    squared_means = means.sum(axis=0) ** 2 - (means**2).sum(axis=0)
    shares = model.totals.shares
    covariance = float(shares @ ((counts * products).sum(axis=0) - squared_means))
    expected = model.expected(fit)
    centred = products - (expected * products).sum(axis=0) / expected.sum(axis=0)
    weights = shares * centred / model.totals.values
    return covariance, float((weights**2 * (table.variance + expected)).sum())
