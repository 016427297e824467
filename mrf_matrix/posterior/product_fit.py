r"""The fit of disjoint blocks: class totals, effects and interactions, shrunk by what noise leaves.

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
from itertools import combinations
from math import prod

import numpy as np
from scipy.stats import norm

from mrf_matrix.base.arrays import Array
from mrf_matrix.posterior.block_fit import (
    BlockFit,
    BlockModel,
    BlockTable,
    ClassTotals,
    EffectPrior,
    check_blocks,
    newton_step,
)
from mrf_matrix.posterior.product import Interactions, ProductPosterior
from strategies.operators.base.arrays import one_thread

CERTAIN = 30.0  # standard errors above zero from which a total needs no correction

USUAL_SPREAD = 0.5
"""Spread of class totals around their mean, relative to it, that is taken as usual."""

LEAST_SHARE = 0.01
"""Least share of a class under noise; without noise, least total of a class that has none."""

LEAST_OF_MEAN = 0.5
"""Least total of a class relative to the mean of all: counts where there are many classes."""

LEAST_TOTAL = 5.0


def class_totals(tables: Sequence[BlockTable], measured: BlockTable | None = None) -> ClassTotals:
    """Combine every estimate of the class totals.

    Parameters
    ----------
    tables : sequence of BlockTable
        Each sums to the class totals.
    measured : BlockTable, optional
        The totals' own measurement: a block of no attributes.
    """
    sources = [*tables, *([] if measured is None else [measured])]
    variances = np.array([table.n_cells * table.variance for table in sources])
    least = float(variances.min())
    weights = least / variances if least > 0 else (variances == 0).astype(np.float64)
    totals = np.stack([table.totals for table in sources])
    combined = weights @ totals / weights.sum()
    error = float(np.sqrt(least / weights.sum()))
    return ClassTotals(_plausible(combined, error), error)


def _plausible(totals: Array, error: float) -> Array:
    if error == 0:
        return np.maximum(totals, LEAST_SHARE)
    k = len(totals)
    mean = max(_positive(float(totals.sum()), error * np.sqrt(k)), LEAST_TOTAL) / k
    deviations = totals - totals.mean()
    if k > 1:
        estimate = (deviations**2).sum() / (k - 1) - error**2
        signal = max(min(estimate, (k - 1) * mean**2), (USUAL_SPREAD * mean) ** 2)
        deviations = deviations * signal / (signal + error**2)
    least = min(LEAST_SHARE * k, LEAST_OF_MEAN) * mean
    values = np.maximum(mean + deviations, least)
    return np.asarray(values * (k * mean / values.sum()))


def _positive(total: float, error: float) -> float:
    """Return the mean of a normal law of this mean and error, given that it is positive."""
    if total > CERTAIN * error:
        return total
    if total < -CERTAIN * error:
        return float(error**2 / -total)
    ratio = total / error
    return float(total + error * np.exp(norm.logpdf(ratio) - norm.logcdf(ratio)))


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


def product_posterior(
    tables: Sequence[BlockTable], ordered: Sequence[bool], measured_totals: BlockTable | None = None
) -> ProductPosterior:
    """Return the posterior that a release's tables of disjoint blocks imply.

    Parameters
    ----------
    tables : sequence of BlockTable
        Blocks that share no attribute, with the noise variance of each.
    ordered : sequence of bool
        For each attribute of the domain, whether its codes are in a meaningful order.
    measured_totals : BlockTable, optional
        The class totals' own measurement.

    Raises
    ------
    ValueError
        If there are no tables, they overlap or count other classes, an attribute has no entry in
        ``ordered``, or ``measured_totals`` is no block of no attributes.
    """
    if not tables:
        raise ValueError("tables is empty: expected at least one block of attributes.")
    check_blocks(tables, tables[0].n_classes)
    last = max(i for table in tables for i in (-1, *table.attributes))
    if last >= len(ordered):
        raise ValueError(
            f"ordered has {len(ordered)} entries: expected one for each attribute of the domain, "
            f"and a block holds attribute {last}."
        )
    if measured_totals is not None and measured_totals.values.shape != (1, tables[0].n_classes):
        raise ValueError(
            f"measured_totals has values of shape {measured_totals.values.shape}: expected (1, k), "
            f"the totals of the {tables[0].n_classes} classes."
        )
    totals = class_totals(tables, measured_totals)
    with one_thread():
        models, fits = fit_main_effects(tables, totals, ordered)
        interactions = tuple(
            fit_interactions(model.table, model.expected_counts(fit))
            for model, fit in zip(models, fits, strict=True)
        )
    return ProductPosterior(totals, tuple(models), tuple(fits), interactions)
