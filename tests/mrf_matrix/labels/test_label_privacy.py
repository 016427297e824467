"""Labels alone: the whole mechanism by enumeration, for all neighbours of tiny tables."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy import stats

from mrf_matrix import Domain
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.growth.private.permute_and_flip import flip_probabilities
from mrf_matrix.labels.plan import label_plan
from mrf_matrix.labels.releases import release_labels
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.residual.step import ResidualStep

N_CELLS = 4  # of two classes two attributes are cut
ORDERS = (1.05, 1.5, 2.0, 4.0, 16.0, 64.0)
N_RECORDS = 300
"""Public number of records: it shapes shares and nothing else, so that it may be far off."""

SMALL, LARGE = PureDP(Fraction(1, 10)), PureDP(Fraction(3, 2))


def domain_of(k):
    return Domain.from_sizes([2, 3, 2] if k == 2 else [2, 3], n_classes=k)


@cache
def plan_of(budget, neighboring="add_remove", k=2):
    return label_plan(
        domain_of(k),
        budget,
        np.random.default_rng(0),
        n_records=N_RECORDS,
        neighboring=neighboring,
    )


def types(k):
    """Return every record there can be: its codes, and its class."""
    return [(codes, c) for codes in product(*map(range, domain_of(k).sizes)) for c in range(k)]


@cache
def tables(k):
    """Return tables as numbers of records of every type: up to two, and some of a handful."""
    n = len(types(k))
    few = [one for size in range(3) for one in combinations_with_replacement(range(n), size)]
    found = [np.bincount(np.array(places, dtype=int), minlength=n) for places in few]
    generator = np.random.default_rng(0)
    found += [generator.multinomial(size, np.full(n, 1 / n)) for size in [3, 4, 6, 9] * 10]
    return np.array(found)


@cache
def with_one_more(k):
    """Return each table, followed by all with one record more, (tables, 1 + types, types)."""
    n = len(types(k))
    moves = np.vstack([np.zeros((1, n), dtype=int), np.eye(n, dtype=int)])
    return tables(k)[:, None] + moves


def cell_counts(plan, data):
    """Return counts of the cells of every candidate, (..., candidates, 4, k), record by record."""
    k = plan.n_classes
    found = np.zeros((*data.shape[:-1], len(plan.candidates), N_CELLS, k), dtype=np.int64)
    for place, halves in enumerate(plan.candidates):
        first, second = halves.attributes
        for number, (codes, c) in enumerate(types(k)):
            cell = 2 * halves.upper[0][codes[first]] + halves.upper[1][codes[second]]
            found[..., place, cell, c] += data[..., number]
    return found


def law(plan, counts, *, pays_for_choice=True, label_times=1):
    """Return the probability of every (place, four labels), from the mechanism's definition.

    `counts` (..., candidates, 4, k); of shape (..., candidates * k**4).
    """
    choice = np.zeros(counts.shape[:-2])
    if plan.choice is not None:
        choice = float(plan.choice.choice_rate) * counts.max(axis=-1).sum(axis=-1)
    weights = np.exp(choice - choice.max(axis=-1, keepdims=True))
    places = weights / weights.sum(axis=-1, keepdims=True)
    labels = plan.labels if pays_for_choice else replace(plan.labels, budget=plan.budget)
    gaps = counts.max(axis=-1, keepdims=True) - counts
    rate = label_times * float(labels.choice_rate)
    if labels.flips:
        k = plan.n_classes
        said = flip_probabilities(gaps.reshape(-1, k).T, rate).T.reshape(gaps.shape)
    else:
        weights = np.exp(-rate * gaps)
        said = weights / weights.sum(axis=-1, keepdims=True)
    found = places
    for cell in range(N_CELLS):
        label = said[..., cell, :]
        found = found[..., None] * label.reshape(*label.shape[:-1], *(1,) * cell, label.shape[-1])
    return found.reshape(*counts.shape[:-3], -1)


@cache
def logs(plan, k, **changes):
    return np.log(law(plan, cell_counts(plan, with_one_more(k)), **changes))


def differences(found, neighboring):
    """Yield log ratios of neighbours, both ways, with the logs of the law above the line."""
    if neighboring == "add_remove":
        for one, other in ((found[:, :1], found[:, 1:]), (found[:, 1:], found[:, :1])):
            yield one - other, one
    else:
        more = found[:, 1:]
        for i in range(1, more.shape[1]):
            other = np.roll(more, i, axis=1)  # every pair of types, either way
            yield more - other, more


def largest_loss(plan, **changes):
    found = logs(plan, plan.n_classes, **changes)
    return max(float(np.abs(ratio).max()) for ratio, _ in differences(found, plan.neighboring))


def largest_divergence(plan, order, **changes):
    """Return the largest Renyi divergence of an order, over that order."""
    found = logs(plan, plan.n_classes, **changes)
    most = 0.0
    for ratio, above in differences(found, plan.neighboring):
        moments = np.exp((order - 1) * ratio + above).sum(axis=-1)
        most = max(most, float(np.log(moments).max()) / (order - 1) / order)
    return most


CASES = [
    (neighboring, k, budget)
    for neighboring in ("add_remove", "replace_one")
    for k in (2, 3)
    for budget in (SMALL, LARGE)
]


def test_what_is_enumerated_is_a_law_over_several_pairs():
    plan = plan_of(SMALL)
    assert plan.choice is not None
    assert plan.choice.budget == SMALL * Fraction(1, 2)
    assert len({one.attributes for one in plan.candidates}) == 3
    np.testing.assert_allclose(np.exp(logs(plan, 2)).sum(axis=-1), 1, rtol=1e-12)
    assert logs(plan, 2).shape[-1] == len(plan.candidates) * 2**N_CELLS


@pytest.mark.parametrize(("neighboring", "k", "budget"), CASES)
def test_every_neighbour_is_within_the_budget(neighboring, k, budget):
    plan = plan_of(budget, neighboring, k)
    assert largest_loss(plan) <= float(budget.exact) * (1 + 1e-12)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_the_bound_is_nearly_reached(neighboring):
    assert largest_loss(plan_of(SMALL, neighboring)) > 0.88 * 0.1


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_labels_at_twice_the_rate_exceed_the_budget(neighboring, k):
    """The negative control: the enumeration finds a rate that is too large."""
    assert largest_loss(plan_of(SMALL, neighboring, k), label_times=2) > 0.1 * 1.05


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_a_choice_that_is_not_paid_for_exceeds_the_budget(neighboring):
    """The negative control of composition: labels of the whole budget, and the choice besides."""
    assert largest_loss(plan_of(SMALL, neighboring), pays_for_choice=False) > 0.1 * 1.05


def test_the_rate_of_one_record_more_does_not_cover_one_in_anothers_place():
    plan = replace(plan_of(SMALL), neighboring="replace_one")  # of neighbours, not of its steps
    assert largest_loss(plan) > 0.1 * 1.5


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rho", [Fraction(1, 500), Fraction(1, 10)])
def test_zcdp_bounds_every_moment(rho, neighboring):
    plan = plan_of(ZCDP(rho), neighboring)
    assert plan.choice is not None
    for order in ORDERS:
        assert largest_divergence(plan, order) <= float(rho) * (1 + 1e-9)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("order", [1.05, 2.0, 16.0])
def test_labels_at_twice_the_rate_exceed_every_moment(neighboring, order):
    plan = plan_of(ZCDP(Fraction(1, 500)), neighboring)
    assert largest_divergence(plan, order, label_times=2) > 1.05 / 500


def test_a_choice_that_is_not_paid_for_exceeds_the_moments():
    plan = plan_of(ZCDP(Fraction(1, 500)))
    assert largest_divergence(plan, 2.0, pays_for_choice=False) > 1.02 / 500


def test_permute_and_flip_would_exceed_the_moments():
    """Why labels under zCDP are chosen by the exponential mechanism."""
    plan = plan_of(ZCDP(Fraction(1, 500)))
    epsilon = Fraction(plan.labels.choice_epsilon)
    flips = replace(plan, labels=replace(plan.labels, budget=PureDP(epsilon)))
    assert flips.labels.flips
    assert flips.labels.choice_rate == plan.labels.choice_rate
    assert largest_divergence(flips, 2.0) > 1.5 / 500


@pytest.mark.parametrize(
    ("budget", "k"), [(PureDP(2), 2), (ZCDP(Fraction(1, 4)), 2), (PureDP(2), 3)]
)
def test_the_sampler_has_this_law(budget, k):
    plan = plan_of(budget, "replace_one", k)
    table = np.random.default_rng(7).integers(0, 2, len(types(k)))
    counts = cell_counts(plan, table)
    bits, draws, number = Bits(np.random.default_rng(0)), 2500, outputs_of(plan)
    found = [release_labels(plan, list(counts), bits) for _ in range(draws)]
    seen = np.bincount(
        [number[place, *labels.tolist()] for place, labels in found], minlength=len(number)
    )
    assert agreement(seen, law(plan, counts)) > 1e-4
    assert agreement(seen, law(plan, counts, label_times=2)) < 1e-6
    wrong = replace(plan, choice=replace(plan.choice, budget=plan.budget * 6)) if k == 2 else None
    assert wrong is None or agreement(seen, law(wrong, counts)) < 1e-6


def outputs_of(plan):
    """Return the number of each output in the order of `law`: its place and its four labels."""
    said = list(product(range(plan.n_classes), repeat=N_CELLS))
    return {
        (place, *one): place * len(said) + i
        for place in range(len(plan.candidates))
        for i, one in enumerate(said)
    }


def agreement(seen, expected):
    """Return the p-value of chi-square, rare outputs taken together."""
    order = np.argsort(expected)
    hoped = seen.sum() * expected[order]
    rare = np.searchsorted(np.cumsum(hoped), 20) + 1
    f_obs, f_exp = (np.append(one[:rare].sum(), one[rare:]) for one in (seen[order], hoped))
    return stats.chisquare(f_obs, f_exp * f_obs.sum() / f_exp.sum()).pvalue


def test_without_noise_the_best_pair_says_its_largest_classes():
    plan = plan_of(PureDP(float("inf")))
    for table in tables(2)[-20:]:
        counts = cell_counts(plan, table)
        place, labels = release_labels(plan, list(counts), Bits(np.random.default_rng(0)))
        right = counts.max(axis=-1).sum(axis=-1)
        assert place == int(np.argmax(right))  # the first of the best
        assert labels.tolist() == counts[place].argmax(axis=-1).tolist()


def test_without_a_choice_the_first_candidate_is_labelled():
    plan = plan_of(PureDP(Fraction(1, 200)))
    assert plan.choice is None
    assert len(plan.candidates) == 1
    assert largest_loss(plan) <= 0.005 * (1 + 1e-12)
    place, labels = release_labels(
        plan, list(cell_counts(plan, tables(2)[5])), Bits(np.random.default_rng(0))
    )
    assert place == 0
    assert labels.shape == (N_CELLS,)


def test_all_that_is_released_is_a_place_and_four_labels():
    plan = plan_of(LARGE)
    found = release_labels(plan, list(cell_counts(plan, tables(2)[-1])), Bits())
    assert len(found) == 2
    assert isinstance(plan.choice, ResidualStep)
    assert set(found[1].tolist()) <= {0, 1}
