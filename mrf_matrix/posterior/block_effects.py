r"""Effects of single attributes and interactions of a block, shrunk by what noise leaves of them.

*Effects of single attributes from all blocks, each shrunk by what the release says of it.* The
variance :math:`\tau_i` of an attribute's effects is learned by fixed-point steps of the evidence
between Newton steps (empirical Bayes; MacKay, 1992):

.. math::

    \tau_i \leftarrow \frac{\sum_c f_{ic}^\top K^+ f_{ic} + \nu \bar\tau}{\gamma_i + \nu}, \qquad
    \gamma_i = k (n_i - 1) - \sum_c \operatorname{tr}(K^+ C_{ic}) / \tau_i,

where C is the posterior covariance, :math:`\gamma_i` the number of effects that the release
determines, and :math:`\bar\tau` the same ratio over all attributes. Where noise drowns an
attribute, its effects shrink to nothing and it casts no vote.

*What a block's table says beyond single attributes: its residual, shrunk component by component.*
The residual :math:`R = y - \mu` is split into the orthogonal components of the analysis of
variance, :math:`R = \sum_U R_U`, one for each set U of the block's attributes. Component U has
:math:`d_U = k \prod_{i \in U} (n_i - 1)` degrees of freedom; under noise alone the mean of its
squares is the mean variance v of the entries (known noise, and the drawing of records). What it has
above that, less one standard error of noise (c = 1), is signal:

.. math::

    s_U = \max\Bigl(0, \frac{\|R_U\|^2 - d_U v (1 + c\sqrt{5/d_U}) + \nu s_{|U|}}{d_U + \nu}
        \Bigr), \qquad \hat R = \sum_{|U| \ge 2} \frac{s_U}{s_U + v} R_U,

with :math:`s_{|U|}` the same for all components of that order together: a Wiener filter in the
algebra of marginals whose weights come from the release alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.block_fit import (
    BlockFit,
    BlockModel,
    BlockTable,
    ClassTotals,
    EffectPrior,
    newton_step,
)

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
        np.clip(
            (e + SHARED_CODES * pooled) / (f + SHARED_CODES), LEAST_RELEVANCE, LARGEST_RELEVANCE
        )
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
        unknown = float((precision * fit.covariance.own_terms(codes).sum(axis=0)).sum())
        freedoms.append(max(len(effects) * (prior.size - 1) - unknown / variance, 0.0))
    return np.asarray(energies), np.asarray(freedoms)


CAUTION = 1.0
KURTOSIS = 5.0
"""Variance of a squared Laplace variable, relative to its squared variance."""

SHARED_CELLS = 4.0


@dataclass(frozen=True, eq=False)
class Interactions:
    """Corrections of a block's log odds by interactions between its attributes."""

    logs: Array  # (n_B, k): what to add to the log probabilities of the classes, cell by cell
    variances: Array  # (n_B, k): their approximate posterior variances
    # (|B|, |B|): how much of each pair's component is kept, between 0 and 1; zero on the diagonal
    pair_weights: Array


def fit_interactions(table: BlockTable, expected: Array) -> Interactions:
    """Return the corrections of a block, given what its main effects expect.

    `expected` (n_B, k): expected counts under the main effects.
    """
    width = len(table.sizes)
    if width < 2:
        nothing = np.zeros_like(expected)
        return Interactions(nothing, nothing, np.zeros((width, width)))
    noise = float((table.variance + expected).mean())
    signal, left, pair_weights = _filter(table, table.values - expected, noise)
    whole = expected.sum(axis=1, keepdims=True)
    floor = np.maximum(0.02 * whole / table.n_classes, 0.05 * expected)
    counts = np.maximum(expected + signal, floor)
    logs = np.log(counts / counts.sum(axis=1, keepdims=True)) - np.log(expected / whole)
    return Interactions(logs, np.minimum(left / counts**2, 1.0), pair_weights)


def _filter(table: BlockTable, residual: Array, noise: float) -> tuple[Array, float, Array]:
    """Return the filtered residual, the posterior variance of an entry, and the pairs' weights."""
    components = _components(residual.reshape(*table.sizes, -1))
    kept = np.zeros((*table.sizes, table.n_classes))
    left = 0.0
    pair_weights = np.zeros((len(table.sizes), len(table.sizes)))
    for order in range(2, len(table.sizes) + 1):
        chosen = list(combinations(range(len(table.sizes)), order))
        freedoms = np.array(
            [table.n_classes * prod(table.sizes[i] - 1 for i in which) for which in chosen], float
        )
        scale = np.array(
            [prod(n for i, n in enumerate(table.sizes) if i not in which) for which in chosen],
            float,
        )
        energies = np.array([(components[which] ** 2).sum() for which in chosen]) * scale
        shared = _signal(energies.sum(), freedoms.sum(), noise, 0.0, 0.0)
        for which, energy, freedom in zip(chosen, energies, freedoms, strict=True):
            signal = _signal(energy, freedom, noise, SHARED_CELLS, shared)
            weight = signal / (signal + noise) if signal > 0 else 0.0
            kept += weight * components[which]
            left += weight * noise * freedom
            if order == 2:
                pair_weights[which] = pair_weights[which[::-1]] = weight
    return kept.reshape(residual.shape), left / residual.size, pair_weights


def _signal(energy: float, freedom: float, noise: float, lent: float, shared: float) -> float:
    """Return the signal's variance in components of this energy, cautiously."""
    if freedom == 0:
        return 0.0
    doubt = 1.0 + CAUTION * np.sqrt(KURTOSIS / freedom)
    return float(max((energy - freedom * noise * doubt + lent * shared) / (freedom + lent), 0.0))


def _components(values: Array) -> dict[tuple[int, ...], Array]:
    """Return the analysis-of-variance component of every set of axes but the last axis.

    A component is constant along the axes outside its set, which have length 1 in the array.
    """
    found: dict[tuple[int, ...], Array] = {(): values}
    for axis in range(values.ndim - 1):
        split: dict[tuple[int, ...], Array] = {}
        for which, part in found.items():
            mean = part.mean(axis=axis, keepdims=True)
            split[which] = mean
            split[(*which, axis)] = part - mean
        found = split
    return found
