"""What a tree of labels would be right on: draw by draw, against the definitions."""

from itertools import product
from math import pi, sqrt

import numpy as np
import pytest
from scipy.special import expit

from mrf_matrix import Domain
from mrf_matrix.labels import label_plan
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning.private import label_forecast
from mrf_matrix.planning.private.correlated_effects import CorrelatedEffects
from mrf_matrix.planning.private.label_forecast import right_of_labels


def planned(sizes, k=2, epsilon=0.1, n_records=300):
    domain = Domain.from_sizes(sizes, n_classes=k)
    return label_plan(domain, PureDP(epsilon), np.random.default_rng(0), n_records=n_records)


def by_definition(prior, plan, attributes):
    """Return the expected share of right labels in each draw, where one set is all there is."""
    records = (plan.n_records or 0) * 2 / plan.n_classes / 2 ** len(attributes)
    rate, found = float(plan.labels.choice_rate), []
    for shown, lean in zip(prior.shown, prior.lean, strict=True):
        right = []
        for sides in product((-1, 1), repeat=len(attributes)):
            moved = sqrt(2 / pi) * sum(
                side * shown[i] for side, i in zip(sides, attributes, strict=True)
            )
            share = expit(lean + moved)
            said = expit(rate * records * (2 * share - 1))
            right.append(said * share + (1 - said) * (1 - share))
        found.append(np.mean(right))
    return np.array(found)


@pytest.mark.parametrize(
    ("sizes", "k", "epsilon"),
    [((4, 6), 2, 0.1), ((4, 6), 3, 0.1), ((4, 6, 3), 2, 0.5), ((9,), 2, 0.1), ((9, 9), 2, 0.21)],
)
def test_of_one_set_it_is_the_mean_over_cells(sizes, k, epsilon):
    """Fewer attributes than a record is asked for make fewer cells, of more records each."""
    plan, prior = planned(sizes, k, epsilon), CorrelatedEffects.of(len(sizes))
    attributes = range(min(len(sizes), plan.depth))
    found = right_of_labels(prior, plan)
    np.testing.assert_allclose(found, by_definition(prior, plan, attributes), rtol=1e-9)
    wrong = by_definition(prior, planned(sizes, k, 2 * epsilon), attributes)
    assert np.abs(found - wrong).max() > 1e-3  # the negative control


def test_the_best_set_is_drawn_where_the_signal_is_large_and_any_where_there_is_none():
    prior = CorrelatedEffects.of(6)
    faint, clear = planned((4,) * 6, epsilon=1e-9), planned((4,) * 6, epsilon=1000.0)
    sets = label_forecast._sets(clear, np.random.default_rng(1))
    best = np.max([by_definition(prior, clear, one) for one in sets], axis=0)
    np.testing.assert_allclose(right_of_labels(prior, clear), best, atol=0.01)
    np.testing.assert_allclose(right_of_labels(prior, faint), 0.5, atol=1e-6)
