"""The noise of hard votes against the farthest that any one record moves them, by enumeration."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from mrf_matrix.error.vote_noise import one_query_at_a_time, with_hard_votes
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP, calibrate

LEAVES, CLASSES, RECORDS = 2, 3, 4
PLACES = list(product(range(LEAVES), range(CLASSES)))
"""Leaf and class of a record; both leaves are of one tree."""
BUDGETS = (PureDP(1), ZCDP(0.5))
"""Budgets whose noise has the scale of the sensitivity: Δ/ε, and Δ/sqrt(2ρ)."""


def votes(records):
    """Return one vote a leaf for its largest class, the first of tied ones; none if empty."""
    table = np.zeros((LEAVES, CLASSES))
    for place in records:
        table[place] += 1
    return np.eye(CLASSES)[table.argmax(axis=1)] * (table.sum(axis=1) > 0)[:, None]


def neighbours(relation):
    """Yield all pairs of data sets of up to four records that differ in one record."""
    for count in range(RECORDS):
        for rest in combinations_with_replacement(PLACES, count):
            with_one = [(*rest, place) for place in PLACES]
            others = [rest] if relation == "add_remove" else with_one
            yield from product(with_one, others)


def farthest(matrix, relation, norm):
    """Return the largest norm by which measurements of the votes change between neighbours."""
    changes = [matrix @ (votes(one) - votes(other)) for one, other in neighbours(relation)]
    return max(np.linalg.norm(change.ravel(), 1 if norm == "l1" else 2) for change in changes)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("relation", NEIGHBORING)
def test_a_table_of_hard_votes_gets_the_noise_that_it_needs(relation, budget):
    """Enough for any strategy, and no more than enough for one that sums both leaves."""
    rng = np.random.default_rng(0)
    both = np.ones((1, LEAVES))
    for strategy in (both, np.array([[1.0, -1.0], [0.5, 0.5]]), rng.normal(size=(3, LEAVES))):
        counts = calibrate(strategy, budget, neighboring=relation)
        needed = farthest(counts.rounded.matrix.to_dense(), relation, budget.norm)
        scale = float(with_hard_votes(counts).law.scale)
        assert scale >= needed * (1 - 1e-12)
        if strategy is both:
            assert scale == pytest.approx(needed)
            assert float(counts.law.scale) < 0.8 * needed  # negative control: the noise of counts


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("relation", NEIGHBORING)
def test_queries_measured_one_at_a_time_get_the_noise_of_their_share(relation, budget):
    """A query reaches one leaf of the tree; b of them get 1/b of the budget each."""
    queries = np.eye(LEAVES)[[0, 1, 0]]
    counts = calibrate(queries, budget, neighboring=relation)
    units = float(counts.rounded.scale)
    found = float(one_query_at_a_time(counts, hard=True).law.scale)
    needed = max(farthest(query[None], relation, budget.norm) for query in queries)
    shares = len(queries) if budget.norm == "l1" else np.sqrt(len(queries))
    assert units == 1
    assert found == pytest.approx(needed * shares)
