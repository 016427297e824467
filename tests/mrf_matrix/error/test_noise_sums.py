"""Flip probabilities of weighted sums of noise against simulation, coarse draws included."""

from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from mrf_matrix.error.noise_sums import NORMAL_ERROR, NoiseSum, NoiseTerm, normal_flip
from mrf_matrix.mechanisms import (
    NEIGHBORING,
    ZCDP,
    DiscreteGaussian,
    DiscreteLaplace,
    PureDP,
    calibrate,
)
from mrf_matrix.planning.plans.baselines import one_query_at_a_time, with_hard_votes

LAWS = [
    *(DiscreteLaplace(Fraction(scale)) for scale in (0.125, 0.3125, 2, 50)),
    *(DiscreteGaussian(Fraction(scale)) for scale in (0.3125, 0.625, 2, 30)),
]
WEIGHTS = {
    "one": [1.0],
    "one dominates": [1.0, 0.137, 0.4142],
    "one above many": [1.0, *(0.02 * np.sqrt(np.arange(1, 40)))],
    "a lattice": [1.0, 0.5, 0.5, 1.5],
    "many alike": np.sqrt(np.arange(20, 60)),
}
DRAWS = 25_000


def simulated(weights, law, margin, rivals, rng):
    """Return how often a class ahead by a margin loses to one of its rivals, ties shared."""
    ahead = law.research((DRAWS, len(weights)), rng) @ weights + margin
    others = [law.research((DRAWS, len(weights)), rng) @ weights for _ in range(rivals)]
    gaps = np.round([ahead - other for other in others], 9)
    lost, ties = (gaps < 0).any(axis=0), (gaps == 0).sum(axis=0)
    return np.mean(lost + ~lost * ties / (ties + 1))


@pytest.mark.parametrize(("law", "name"), list(product(LAWS, WEIGHTS))[::4], ids=str)
def test_flips_agree_with_simulation(law, name):
    """Within four deviations of the simulation, .012; the promise to users is .02."""
    weights, rng = np.array(WEIGHTS[name]), np.random.default_rng(7)
    error = NoiseSum((NoiseTerm.of(weights, law),))
    spread = np.sqrt(error.variance)
    for margin, rivals in ((0.3 * spread, 1), (1.0, 1), (1.5 * spread, 2)):
        found = simulated(weights, law, margin, rivals, rng)
        assert error.flip_probability(margin, rivals) == pytest.approx(found, abs=0.012)


def test_the_normal_law_would_be_noticed():
    """Negative control: what a single Laplace draw was taken for before is off by .03."""
    law, rng = DiscreteLaplace(Fraction(50)), np.random.default_rng(7)
    found = simulated(np.ones(1), law, 25.0, 1, rng)
    assert abs(normal_flip(25.0, law.variance) - found) > 0.02


def test_margins_share_one_law():
    error = NoiseSum((NoiseTerm.of(np.array([1.0, 0.3]), LAWS[1]),))
    margins = [0.0, 0.5, 2.0]
    each = [error.flip_probability(margin) for margin in margins]
    assert error.flip_probabilities(margins) == pytest.approx(each)
    assert each == sorted(each, reverse=True)
    assert each[0] == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_transforms_and_cumulants_are_of_the_law(law):
    values = np.arange(-2000, 2001)
    mass = law.pmf(values)
    angles = np.array([0.0, 0.01, 0.4, 2.0, 3.1, 7.0])
    assert np.exp(law.log_characteristic(angles)) == pytest.approx(
        np.cos(np.outer(angles, values)) @ mass, abs=1e-9
    )
    fourth = mass @ values.astype(float) ** 4 - 3 * law.variance**2
    assert law.fourth_cumulant == pytest.approx(fourth, rel=1e-6, abs=1e-6 * law.variance**2)


# Where the normal law stands in ------------------------------------------------------------------


def enumerated(law, margins, rivals):
    """Return the flip probability of single draws by summing over all their values."""
    values = np.arange(-int(45 * law.scale) - 45, int(45 * law.scale) + 46)
    mass = law.pmf(values)
    below = np.concatenate([[0.0], np.cumsum(mass)])  # P(Z < values[0] + i)
    kept = []
    for margin in margins:
        lower = below[np.clip(np.ceil(values + margin) - values[0], 0, len(mass)).astype(int)]
        upper = below[np.clip(np.floor(values + margin) - values[0] + 1, 0, len(mass)).astype(int)]
        shares = [lower**i * upper ** (rivals - i) for i in range(rivals + 1)]
        kept.append(mass @ np.mean(shares, axis=0))  # E[no rival above / (1 + ties)]
    return 1 - np.array(kept)


def normal_errors(law, margins, rivals):
    """Return by how much the normal stand-in is off for single draws of a law."""
    stands_in = [normal_flip(margin, law.variance, rivals) for margin in margins]
    return np.abs(stands_in - enumerated(law, margins, rivals))


@pytest.mark.parametrize("scale", [0.125, 0.3125, 0.75, 2, 10, 50])
def test_the_normal_law_is_as_far_off_as_is_said(scale):
    """Whole margins within `NORMAL_ERROR`, others within half a tie more; several rivals .051."""
    for law in (DiscreteLaplace(Fraction(scale)), DiscreteGaussian(Fraction(scale))):
        spread = np.sqrt(law.variance)
        whole = np.unique(np.round(np.linspace(0, 6 * spread + 3, 60)))
        between = np.linspace(1e-3, 6 * spread + 3, 61)
        tie = 1 - 2 * enumerated(law, [1e-9], 1)[0]  # the lead is a trace
        assert normal_errors(law, whole, 1).max() <= NORMAL_ERROR
        assert normal_errors(law, between, 1).max() <= NORMAL_ERROR + tie / 2
        if scale >= 0.75:
            assert normal_errors(law, whole, 3).max() <= 0.051
            assert normal_errors(law, whole, 9).max() <= 0.051


def test_the_bound_of_the_normal_law_is_reached_by_one_draw_and_not_by_sums():
    """Negative control: .03 would be too little, and single draws of small scale are far worse."""
    x = np.linspace(0, 20, 20_001)
    continuous = [normal_flip(one, 2.0) - (2 + one) * np.exp(-one) / 4 for one in x]
    assert 0.0333 < np.abs(continuous).max() <= NORMAL_ERROR
    law = DiscreteLaplace(Fraction(50))
    margins = np.arange(0, 300.0)
    assert normal_errors(law, margins, 1).max() > 0.03
    assert normal_errors(DiscreteLaplace(Fraction(1, 8)), [1e-3], 1)[0] > 0.4
    rng = np.random.default_rng(0)
    for weights in ([1.0, 0.2], [1.0, 0.7], rng.random(4)):
        error = NoiseSum((NoiseTerm.of(np.asarray(weights), law),))
        exact = error.flip_probabilities(margins, 1)
        stands_in = [normal_flip(margin, error.variance) for margin in margins]
        assert np.abs(exact - stands_in).max() < 0.0334


# Noise of hard votes -----------------------------------------------------------------------------


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
