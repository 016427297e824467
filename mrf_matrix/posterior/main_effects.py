r"""Effects of single attributes from all blocks, each shrunk by what the release says of it.

The variance :math:`\tau_i` of an attribute's effects is learned by fixed-point steps of the
evidence between Newton steps (empirical Bayes; MacKay, 1992):

.. math::

    \tau_i \leftarrow \frac{\sum_c f_{ic}^\top K^+ f_{ic} + \nu \bar\tau}{\gamma_i + \nu}, \qquad
    \gamma_i = k (n_i - 1) - \sum_c \operatorname{tr}(K^+ C_{ic}) / \tau_i,

where C is the posterior covariance, :math:`\gamma_i` the number of effects that the release
determines, and :math:`\bar\tau` the same ratio over all attributes. Where noise drowns an
attribute, its effects shrink to nothing and it casts no vote.
"""

from collections.abc import Sequence

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.block_fit import BlockFit, BlockModel, EffectPrior, newton_step
from mrf_matrix.posterior.block_table import BlockTable, ClassTotals

USUAL_RELEVANCE = 0.3
LEAST_RELEVANCE = 1e-4
LARGEST_RELEVANCE = 9.0
LENT = 4.0
SHARED_CODES = 2.0
"""Degrees of freedom that all attributes lend to each."""

STEPS = 30
FREE_STEPS = 2
SMALL_STEP = 1e-3


def fit_main_effects(
    tables: Sequence[BlockTable], totals: ClassTotals, ordered: Sequence[bool]
) -> tuple[list[BlockModel], list[BlockFit]]:
    """Fit every block's log-linear model, with relevances learned from all of them.

    `tables`: blocks that share no attribute; `ordered`: for each attribute of the domain, whether
    its codes are in a meaningful order.

    One of each for every table.
    """
    models = [_model(table, totals, ordered) for table in tables]
    fits = [BlockFit.start(model) for model in models]
    relevances = [np.full(len(table.sizes), USUAL_RELEVANCE) for table in tables]
    for step in range(STEPS):
        fits = [
            newton_step(model, fit, relevance)
            for model, fit, relevance in zip(models, fits, relevances, strict=True)
        ]
        if step > FREE_STEPS and max(fit.moved for fit in fits) < SMALL_STEP:
            break
        if step >= FREE_STEPS:
            relevances = _relevances(models, fits, relevances)
    return models, fits


def _model(table: BlockTable, totals: ClassTotals, ordered: Sequence[bool]) -> BlockModel:
    priors = tuple(
        EffectPrior(size, bool(ordered[i]))
        for i, size in zip(table.attributes, table.sizes, strict=True)
    )
    return BlockModel(table, priors, totals)


def _relevances(
    models: Sequence[BlockModel], fits: Sequence[BlockFit], before: Sequence[Array]
) -> list[Array]:
    """Return each attribute's effect variance, pulled toward that of all."""
    found = [
        _energies(model, fit, relevance)
        for model, fit, relevance in zip(models, fits, before, strict=True)
    ]
    energy = sum(float(e.sum()) for e, _ in found) + LENT * USUAL_RELEVANCE
    pooled = energy / (sum(float(f.sum()) for _, f in found) + LENT)
    return [
        np.clip((e + SHARED_CODES * pooled) / (f + SHARED_CODES), LEAST_RELEVANCE, LARGEST_RELEVANCE)
        for e, f in found
    ]


def _energies(model: BlockModel, fit: BlockFit, relevance: Array) -> tuple[Array, Array]:
    """Return each attribute's squared effects in its prior's units, and how many are determined."""
    energies, freedoms = [], []
    for prior, start, variance in zip(model.priors, model.starts, relevance, strict=False):
        codes = slice(start, start + prior.size)
        precision = prior.precision
        effects = fit.class_terms[:, codes]
        energies.append(np.einsum("cu,uv,cv->", effects, precision, effects))
        unknown = float((precision * fit.covariance.own(codes).sum(axis=0)).sum())
        freedoms.append(max(len(effects) * (prior.size - 1) - unknown / variance, 0.0))
    return np.asarray(energies), np.asarray(freedoms)
