r"""The posterior of the class shares of a cell, given its label and perhaps its noisy counts.

*Given the label.* The prior of the shares is ``p ~ Dirichlet(a, ..., a)``, less even the smaller a
is. A cell of n records has counts ``n p``. Class c is its label with a known probability, that of
the exponential mechanism, so that

.. math:: E[f(p) \mid c] = \frac{E[f(p)\,P(c \mid n p)]}{E[P(c \mid n p)]} .

It depends on the number of classes, the prior and the signal, rate times n, alone. By symmetry it
is the same for every class.

*Given noisy counts too.* The prior of the shares is the same. A cell's size is taken to be gamma
distributed around an even part of all records, with the shape ``k a``. Then its counts ``n`` are
independent, each ``Gamma(a)``, also given their noisy values, and are drawn class by class. Draws
are weighted by the probability of the label under such counts, and

.. math:: p \mid n \sim \text{Dirichlet}(a + n_1, \dots, a + n_k) .
"""

from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, log_softmax, softmax

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.forests.label_tree import LabelTree
from mrf_matrix.labels.plan import LabelPlan
from mrf_matrix.mechanisms import NoiseLaw
from mrf_matrix.posterior import CellShares, LabelPosterior

MOST_NUMBERS, MOST_ROWS = 1 << 21, 1 << 14
"""Shares that are drawn at most, 16 MB, and how many draws hold them at most."""

LEAST_LEAD = 1e-12  # of the label, relative

LARGEST_SIGNAL = 1e9  # beyond it the largest class is the label


@lru_cache(maxsize=16)
def label_evidence(n_classes: int, signal: float, concentration: float) -> CellShares:
    """Return draws of the shares of a cell whose label is the first class.

    Every draw serves for each class that may be the label, so that the label has the largest
    expected share. `signal`: rate of the choice times records of the cell; `concentration`: the
    prior's ``a``.
    """
    rows = min(MOST_ROWS, MOST_NUMBERS // n_classes)  # of as many classes as there may be, two each
    draws = _prior_shares(n_classes, max(1, rows // n_classes), concentration)
    law = softmax(min(signal, LARGEST_SIGNAL) * draws.T, axis=0)
    order = (np.arange(n_classes)[:, None] + np.arange(n_classes)) % n_classes
    shares = draws[:, order].transpose(1, 0, 2).reshape(-1, n_classes)
    weights = law.ravel() / law.sum()
    # all other classes are alike, and the label leads, however weak the signal
    right = min(max(float(weights @ shares[:, 0]), (1 + LEAST_LEAD) / n_classes), 1.0)
    others = n_classes - 1
    expected = np.array([right, *[(1 - right) / max(others, 1)] * others])
    for kept in (shares, weights, expected):
        kept.flags.writeable = False
    return CellShares(shares, weights, expected)


def _prior_shares(n_classes: int, count: int, concentration: float) -> Array:
    """Return shares of the prior, always the same; of two classes evenly spaced quantiles."""
    if n_classes == 2:
        first = betaincinv(concentration, concentration, (np.arange(count) + 0.5) / count)
        return np.column_stack([first, 1 - first])
    each = np.full(n_classes, concentration)
    return np.random.default_rng(0).dirichlet(each, size=count)


MOST_DRAWS, MOST_DRAWN = 1 << 12, 1 << 18
"""Draws of a cell, and shares of them at most, 2 MB."""

BINS = 1024
"""Bins of each count, within `REACH` standard deviations of the noise."""

REACH = 12


def counted_evidence(
    noisy: Longs, said: int, *, rate: float, records: float, concentration: float, law: NoiseLaw
) -> CellShares:
    """Return draws of a cell's shares, always the same.

    `noisy` (k,): released counts; `said`: the label of the cell; `rate`: of the choice of labels;
    `records`: what a cell holds if all hold as many; `concentration`: the prior's ``a``; `law`: of
    the noise on each count.
    """
    generator = np.random.default_rng(0)
    draws = max(1, min(MOST_DRAWS, MOST_DRAWN // len(noisy)))
    counts = np.empty((draws, len(noisy)))
    for c, value in enumerate(noisy.tolist()):
        spread = (generator.permutation(draws) + 0.5) / draws
        counts[:, c] = _count_quantiles(
            float(value), spread, records / len(noisy), concentration, law
        )
    weights = softmax(log_softmax(rate * counts, axis=1)[:, said])  # of logs: none need be 0
    ahead = counts + concentration
    expected = weights @ (ahead / ahead.sum(axis=1, keepdims=True))
    shares = generator.standard_gamma(ahead)
    return CellShares(shares / shares.sum(axis=1, keepdims=True), weights, expected)


def _count_quantiles(
    noisy: float, levels: Array, mean: float, shape: float, law: NoiseLaw
) -> Array:
    """Return quantiles of a count, given its noisy value; `mean`: that of its prior."""
    deviation = float(np.sqrt(law.variance))
    if not deviation:
        return np.full(len(levels), max(noisy, 0.0))
    low, high = max(0.0, noisy - REACH * deviation), max(0.0, noisy) + REACH * deviation
    edges = np.linspace(low, high, BINS + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    # the prior's density, but where it is infinite: from 0 on it is added up
    power = (shape - 1) * np.log(middles) if low else np.log(np.diff(edges**shape))
    prior = power - shape * middles / mean
    upto = np.cumsum(softmax(prior + law.log_pmf(noisy - middles)))
    return np.asarray(middles[np.minimum(np.searchsorted(upto, levels), BINS - 1)])


LARGEST_RATE = 1e9  # beyond it the largest class is the label


def label_posterior(plan: LabelPlan, tree: LabelTree) -> LabelPosterior:
    if tree.counts is None:
        return LabelPosterior(tree, _shares_by_label(plan, tree))
    sizes = np.maximum(tree.counts.sum(axis=1, dtype=np.float64), 1)
    return LabelPosterior(tree, _shares_by_counts(plan, tree), sizes / sizes.sum())


def _shares_by_label(plan: LabelPlan, tree: LabelTree) -> tuple[CellShares, ...]:
    """Return the shares of cells given their labels alone."""
    first = label_evidence(plan.n_classes, plan.cell_signal, plan.concentration)
    said = {label: first.rotate(label) for label in set(tree.labels.tolist())}
    return tuple(said[label] for label in tree.labels.tolist())


def _shares_by_counts(plan: LabelPlan, tree: LabelTree) -> tuple[CellShares, ...]:
    """Return the shares of each cell given its label and counts."""
    assert plan.counts is not None
    assert tree.counts is not None
    return tuple(
        counted_evidence(
            noisy,
            label,
            rate=min(float(plan.labels.choice_rate), LARGEST_RATE),
            records=plan.cell_records,
            concentration=plan.concentration,
            law=plan.counts.law,
        )
        for noisy, label in zip(tree.counts, tree.labels.tolist(), strict=True)
    )
