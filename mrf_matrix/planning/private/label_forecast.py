r"""What a tree of labels would be right on: of imagined data, in each draw of the prior.

A code's half moves the log odds by :math:`\pm\sqrt{2/\pi}\,a`, the mean of a normal score's size
times what its attribute shows by itself. In place of all trees those are imagined that ask the same
of all records, one for each of a few random sets of attributes.
"""

from itertools import product
from math import pi, sqrt

import numpy as np
from scipy.special import expit

from mrf_matrix.base.arrays import Array, Longs
from mrf_matrix.labels import LabelPlan
from mrf_matrix.labels.posterior import LARGEST_SIGNAL
from mrf_matrix.planning.private.correlated_effects import CorrelatedEffects

HALF = sqrt(2 / pi)  # mean size of a normal score

IMAGINED = 32  # sets of attributes


def right_of_labels(prior: CorrelatedEffects, plan: LabelPlan) -> Array:
    """Return the expected share of right labels in each draw, of two classes, shape (draws,).

    Trees of two rounds are taken for one that asks all records the same, too: they ask of each what
    tells most where it is, and are expected to know less than they do. The largest array has a
    number for each draw, set and cell.
    """
    generator = np.random.default_rng(1)
    cut = _sets(plan, generator)
    sides = np.array(list(product((-1.0, 1.0), repeat=cut.shape[1])))
    moved = HALF * prior.shown[:, cut] @ sides.T
    of_first = expit(prior.lean[:, None, None] + moved)
    of_all = plan.cell_records * plan.n_cells * 2 / plan.n_classes  # those of two classes
    records = of_all / len(sides)
    signal = min(records * float(plan.labels.choice_rate), LARGEST_SIGNAL)
    worth = np.logaddexp(signal * of_first, signal * (1 - of_first)).sum(axis=2)
    drawn = np.argmax(worth + generator.gumbel(size=worth.shape), axis=1)
    known = of_first[np.arange(len(of_first)), drawn]
    said = expit(signal * (2 * known - 1))
    return np.asarray((said * known + (1 - said) * (1 - known)).mean(axis=1))


def _sets(plan: LabelPlan, generator: np.random.Generator) -> Longs:
    """Return random sets of the attributes that may be cut, as many as a record is asked for."""
    attributes = np.array(plan.attributes)
    asked = min(plan.depth, len(attributes))
    order = generator.random((IMAGINED, len(attributes))).argsort(axis=1)
    return np.asarray(attributes[order[:, :asked]])
