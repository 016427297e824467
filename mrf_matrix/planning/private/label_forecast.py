r"""What a tree of labels would be right on: of imagined data, in each draw of the prior.

A code's half moves the log odds by :math:`\pm\sqrt{2/\pi}\,a`, the mean of a normal score's size
times what its attribute shows by itself. A cell says its larger class, or the smaller one where
noise turns it.
"""

from itertools import product
from math import pi, sqrt

import numpy as np
from scipy.special import expit

from mrf_matrix.base.arrays import Array
from mrf_matrix.labels import LabelPlan
from mrf_matrix.labels.law import LARGEST_SIGNAL, label_law
from mrf_matrix.planning.private.correlated_effects import CorrelatedEffects

HALF = sqrt(2 / pi)  # mean size of a normal score


def right_of_labels(prior: CorrelatedEffects, plan: LabelPlan) -> Array:
    """Return the expected share of right labels in each draw, of two classes, shape (draws,).

    The largest array has a number for each draw, candidate and cell.
    """
    cut = np.array([halves.attributes for halves in plan.candidates])
    sides = np.array(list(product((-1.0, 1.0), repeat=cut.shape[1])))
    moved = HALF * prior.shown[:, cut] @ sides.T
    of_first = expit(prior.lean[:, None, None] + moved)
    larger = np.maximum(of_first, 1 - of_first)
    records = plan.cell_records * 2 / plan.n_classes  # those of two classes
    place = _chosen(larger.sum(axis=2) * records, plan)
    known = larger[np.arange(len(larger)), place]
    signal = min(records * float(plan.labels.choice_rate), LARGEST_SIGNAL)
    gaps = np.stack([np.zeros_like(known), 2 * known - 1])
    said = label_law(gaps.reshape(2, -1), signal, flips=plan.labels.flips)[0].reshape(known.shape)
    return np.asarray((said * known + (1 - said) * (1 - known)).mean(axis=1))


def _chosen(scores: Array, plan: LabelPlan) -> Array:
    """Return which candidate would be chosen in each draw, by its score in records."""
    if plan.choice is None:
        return np.zeros(len(scores), dtype=np.int64)
    rate = min(max(float(plan.choice.choice_rate), 1e-12), LARGEST_SIGNAL)
    chance = np.random.default_rng(1).gumbel(size=scores.shape) / rate
    return np.asarray(np.argmax(scores + chance, axis=1))
