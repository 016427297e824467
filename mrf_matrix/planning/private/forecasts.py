r"""What a kind of forest would know of imagined data: the variance that it explains, in each draw.

Tables of blocks show effects a with noise of known variance r; the posterior shrinks them by
:math:`\kappa`, and the scores :math:`\sum_i \kappa_i (a_i z_i + e_i)` explain :math:`T^2/S` with

.. math::

    T = \sum_i \kappa_i a_i^2, \qquad S = (\kappa a)^\top R\, \kappa a + \sum_i \kappa_i^2 r_i .

Tables of residuals show the same effects at first, whose sum is scaled to explain the most. Later
ones are visited one after another: each shows :math:`R (w - \hat w)` of its attribute, so that what
others have said already is not said again, with the noise of that visit.
"""

from collections.abc import Sequence
from itertools import combinations
from math import prod, sqrt

import numpy as np

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.domain import Domain
from mrf_matrix.forests.sources.block_trees import Block
from mrf_matrix.planning.private.correlated_effects import CorrelatedEffects, share_right
from mrf_matrix.residual.sequence import ResidualPlan

LEAST_CURVATURE = 0.02  # of a record, however sure its label is

LARGEST_INTERCEPT = 1.0  # variance of the classes' log odds, however little totals say of them

SMOOTH_CODES = 2.0
"""An ordered attribute has so many codes that differ; others take after their neighbours."""


def tables_explain(
    prior: CorrelatedEffects,
    columns: Longs,
    blocks: Sequence[Block],
    sizes: Sequence[int],
    alike: Array,
    per_class: float,
    variances: tuple[float, float],
) -> Array:
    """Return what tables of blocks explain in each draw, shape (draws,).

    `columns` (draws, m): the attributes that are measured, in each draw; `blocks`: positions among
    the m of each block's attributes; `sizes`: codes of the m attributes; `alike` (m,): see
    `alike_codes`; `per_class`: expected records of a class; `variances`: of the noise on each cell,
    and on each class total.
    """
    variance, of_totals = variances
    effects = np.take_along_axis(prior.shown, columns, axis=1)
    shares = effects**2 / (prior.shown**2).sum(axis=1, keepdims=True)
    noise, known = np.empty(len(sizes)), 1 / max(of_totals, 1e-9)
    told, spent = np.zeros(len(columns)), np.zeros(len(columns))
    for block in blocks:
        cells = prod(sizes[i] for i in block)
        known += 1 / max(variance * cells, 1e-9)
        for i in block:
            noise[i] = _noise(cells, sizes[i], per_class, variance) / alike[i]
        for i, j in combinations(block, 2):
            energy = prior.pair_energy(shares[:, i], shares[:, j])
            beyond = _noise(cells, sizes[i] * sizes[j], per_class, variance)
            kept = shrunk(energy, beyond)
            told += kept * energy
            spent += kept**2 * (energy + beyond)
    kept = shrunk(effects**2, noise)
    scores, shared = kept * effects, prior.correlations
    told += (scores * effects).sum(axis=1)
    spent += (1 - shared) * (scores**2).sum(axis=1) + shared * scores.sum(axis=1) ** 2
    spent += (kept**2 * noise).sum(axis=1) + intercept_error(1 / known, 2 * per_class)
    return np.asarray(told**2 / np.maximum(spent, 1e-300))


def residuals_explain(prior: CorrelatedEffects, plan: ResidualPlan, n_records: float) -> Array:
    """Return what a residual forest explains in each draw, shape (draws,).

    `prior`: over the plan's attributes. Of several classes two are held against each other: their
    records alone tell them apart, their two columns have noise each, and under Gaussian noise a
    record's residuals weigh more, see `Link`.
    """
    columns, noises, weight = plan.first.visits[0].n_columns, 1, 1.0
    if columns > 1:
        n_records, noises = n_records * 2 / columns, 2
        weight = sqrt(2) if plan.budget.norm == "l2" else 1.0
    sizes, alike = np.array(plan.domain.sizes, dtype=np.float64), alike_codes(plan.domain)
    weighed = weight * n_records
    first = noises * plan.first.visits[0].variance
    known, noise = _known_at_first(prior, weighed / sizes, first, alike)
    for one in plan.passes:
        variances = [noises * step.variance for step in one.visits]
        known, noise = _known_later(prior, (known, noise), weighed / sizes, variances, alike)
    told, spent = _covered(prior, known, noise)
    spent = spent + intercept_error(plan.totals.variance, n_records)
    if plan.pairs is not None:
        energy = _largest_pairs(prior, len(plan.pairs.residuals))
        cells = float(np.exp(2 * np.log(sizes).mean()))
        curvatures = weighed / cells * _curvature(prior, known, noise)
        error = _error(curvatures, noises * plan.pairs.residuals[0].variance)
        kept = energy / (energy + error)
        told = told + (kept * energy).sum(axis=1)
        spent = spent + (kept**2 * (energy + error)).sum(axis=1)
    return np.asarray(told**2 / np.maximum(spent, 1e-300))


def alike_codes(domain: Domain) -> Array:
    """Return how many neighbouring codes of each attribute say the same, at least 1."""
    pairs = zip(domain.sizes, domain.ordered, strict=True)
    return np.array([max(1.0, size / SMOOTH_CODES) if order else 1.0 for size, order in pairs])


def intercept_error(variance: float, n_records: float) -> float:
    """Return what is unknown of the classes' log odds, from totals of this variance."""
    return min(8 * variance / n_records**2, LARGEST_INTERCEPT)


def shrunk(energy: Array, noise: Array | float) -> Array:
    """Return by what effects are shrunk: their own size is half known, and half the usual one."""
    own = np.sqrt(energy * energy.mean())
    return np.asarray(own / (own + noise + 1e-300))


def _noise(cells: int, codes: int, per_class: float, variance: float) -> float:
    """Return the variance of the log odds that tables show of an effect with so many codes."""
    expected = per_class / codes
    return 2 * (variance * cells / codes + expected) / expected**2


def _known_at_first(
    prior: CorrelatedEffects, records: Array, variance: float, alike: Array
) -> tuple[Array, Array]:
    """Return the scaled effects after the first pass, and their noise, shape (draws, m) each.

    `records` (m,): expected with a code of each attribute, as they weigh; `variance`: of the noise
    on each residual; `alike` (m,): see `alike_codes`.
    """
    nothing = np.zeros_like(prior.weights)
    error = _error(records * _curvature(prior, nothing, nothing), variance) / alike
    kept = shrunk(prior.shown**2, error)
    known, noise = kept * prior.shown, kept**2 * error
    told, spent = _covered(prior, known, noise)
    scale = (told / np.maximum(spent, 1e-300))[:, None]
    return scale * known, scale**2 * noise


def _known_later(
    prior: CorrelatedEffects,
    before: tuple[Array, Array],
    records: Array,
    variances: Sequence[float],
    alike: Array,
) -> tuple[Array, Array]:
    """Return effects and their noise after a later pass, which visits the largest effects.

    `before`: effects and noise; `variances`: of the noise at each visit; others as at first.
    """
    known, noise = before[0].copy(), before[1].copy()
    curvatures = records * _curvature(prior, known, noise)
    rows, places = np.arange(len(known)), np.argsort(-(known**2), axis=1)
    for visit, variance in enumerate(variances):
        at = rows, places[:, visit]
        lacking = prior.correlated(prior.weights - known)[at]
        error = _error(curvatures[at], variance) / alike[at[1]]
        kept = shrunk(lacking**2, error)
        known[at] += kept * lacking
        noise[at] = (1 - kept) ** 2 * noise[at] + kept**2 * error
    return known, noise


def _error(curvatures: Array, variance: float) -> Array:
    """Return the variance of effects by residuals: of their noise, and of records themselves."""
    return np.asarray((variance + curvatures) / curvatures**2)


def _covered(prior: CorrelatedEffects, known: Array, noise: Array) -> tuple[Array, Array]:
    """Return covariance of the scores with the log odds, and their variance, in each draw."""
    told = (prior.shown * known).sum(axis=1)
    return told, (prior.correlated(known) * known).sum(axis=1) + noise.sum(axis=1)


def _curvature(prior: CorrelatedEffects, known: Array, noise: Array) -> Array:
    """Return the mean curvature of a record, half the share that is wrong, shape (draws, 1)."""
    told, spent = _covered(prior, known, noise)
    right = share_right(told**2 / np.maximum(spent, 1e-12), prior.lean)
    return np.asarray(np.maximum((1 - right) / 2, LEAST_CURVATURE)[:, None])


def _largest_pairs(prior: CorrelatedEffects, count: int) -> Array:
    """Return the energies of the largest pairs, among few attributes, shape (draws, count)."""
    shares = -np.sort(-(prior.shown**2), axis=1)
    shares /= shares.sum(axis=1, keepdims=True)
    first, second = np.triu_indices(min(shares.shape[1], 16), 1)
    energies = prior.pair_energy(shares[:, first].T, shares[:, second].T).T
    return np.asarray(-np.sort(-energies, axis=1)[:, :count])
