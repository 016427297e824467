r"""How far the attributes' votes repeat each other, and how much to trust their sum.

A product of class-conditional probabilities counts what two attributes have in common twice. The
tables of blocks show how much attributes of one block have in common: the covariance, within a
class, of their effects on the log odds,

.. math::

    \operatorname{cov}_c(f_i, f_j) = \frac1{N_c} \sum_x y_c(x)\, f_i(x_i) f_j(x_j)
        - \bar f_i \bar f_j,

is linear in the noisy counts, so noise leaves it unbiased. Their mean correlation r over all pairs
stands for the pairs that were not measured together. Were log odds normal with this correlation,
the true log odds would be the sum times

.. math::

    \lambda = \frac{\sum_B V_B}{\sum_B V_B + r \sum_{B \ne B'} \sum_{i \in B, j \in B'} s_i s_j},

where :math:`s_i^2` are the variances of the effects and :math:`V_B` of a block's sum.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.posterior.block_fit import BlockFit, BlockModel

Array = NDArray[np.float64]

USUAL_CORRELATION = 0.05
"""Correlation taken for granted, with the weight of `USUAL_WEIGHT` of the measured pairs."""

USUAL_WEIGHT = 0.1


def trust(models: Sequence[BlockModel], fits: Sequence[BlockFit]) -> float:
    """Return what the sum of log odds is multiplied by, in (0, 1].

    Parameters
    ----------
    models, fits : sequences
        From `fit_main_effects`.
    """
    spreads = [_spreads(model, fit) for model, fit in zip(models, fits, strict=True)]
    covariance = sum(
        _covariance(model, fit, own) for model, fit, own in zip(models, fits, spreads, strict=True)
    )
    inside = [float(own.sum() ** 2 - (own**2).sum()) for own in spreads]
    everything = np.concatenate(spreads)
    total = float(everything.sum() ** 2 - (everything**2).sum())
    usual = USUAL_WEIGHT * max(total, 1e-12)
    correlation = (covariance + USUAL_CORRELATION * usual) / (sum(inside) + usual)
    correlation = float(np.clip(correlation, 0.0, 1.0))
    own_variance = float((everything**2).sum()) + correlation * sum(inside)
    across = correlation * (total - sum(inside))
    return own_variance / (own_variance + across) if own_variance > 0 else 1.0


def _spreads(model: BlockModel, fit: BlockFit) -> Array:
    """Return each attribute's standard deviation of effects, over codes and classes."""
    common = np.exp(fit.common)
    found = []
    for start, size in zip(model.starts, model.table.sizes, strict=False):
        codes = slice(start, start + size)
        likely = common[codes] * np.exp(fit.class_terms[:, codes])
        likely = likely / likely.sum(axis=1, keepdims=True)
        effects = _against_mean(model, fit.class_terms[:, codes])
        centred = effects - (likely * effects).sum(axis=1, keepdims=True)
        found.append((model.totals.shares @ (likely * centred**2)).sum())
    return np.sqrt(np.asarray(found))


def _against_mean(model: BlockModel, effects: Array) -> Array:
    """Return effects on the log odds of a class against the average class."""
    return np.asarray(effects - model.totals.shares @ effects)


def _covariance(model: BlockModel, fit: BlockFit, spreads: Array) -> float:
    """Return the sum of the noisy covariances of all ordered pairs of a block's attributes."""
    if len(spreads) < 2:
        return 0.0
    table = model.table
    codes = table.codes()
    effects = np.stack(
        [
            _against_mean(model, fit.class_terms[:, start : start + size]).T[codes[:, j]]
            for j, (start, size) in enumerate(zip(model.starts, table.sizes, strict=False))
        ]
    )
    # Noise can make a class's counts in a block sum to anything: its total is known better.
    counts = table.values / model.totals.values
    summed = effects.sum(axis=0)
    squares = summed**2 - (effects**2).sum(axis=0)
    means = np.einsum("xc,mxc->mc", counts, effects) / np.maximum(counts.sum(axis=0), 0.1)
    product = means.sum(axis=0) ** 2 - (means**2).sum(axis=0)
    return float(model.totals.shares @ ((counts * squares).sum(axis=0) - product))
