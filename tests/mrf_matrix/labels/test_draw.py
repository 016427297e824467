"""The draw of a tree and its labels: sums over all trees and laws, by brute force."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import exp, log, prod
from sys import getsizeof

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mrf_matrix import Domain
from mrf_matrix.forests.label_tree import LabelTree, public_cuts
from mrf_matrix.labels import draw as module
from mrf_matrix.labels import questions as joint
from mrf_matrix.labels.draw import (
    BITS,
    STEEPEST,
    Exponential,
    MostAccurate,
    _cut_worths,
    bytes_of,
    draw_tree,
    weights,
)
from mrf_matrix.labels.questions import joint_counts
from mrf_matrix.mechanisms.selection import Bits
from strategies.operators import MemoryCapError, memory_cap

CASES = {  # sizes, classes, cuts, depth
    "two classes": ((3, 2), 2, 3, 2),
    "three classes": ((2, 3), 3, 2, 2),
    "deep": ((2, 2), 2, 2, 3),
    "flat": ((4, 3), 3, 5, 1),
}


@cache
def case(name):
    sizes, k, n_cuts, depth = CASES[name]
    domain = Domain.from_sizes(sizes, n_classes=k)
    generator = np.random.default_rng(1)
    codes = generator.integers(0, sizes, size=(12, 2))
    counts = generator.integers(0, 4, size=(12, k))
    cuts = public_cuts(domain, n_cuts, generator)
    assert len(cuts) == n_cuts
    return cuts, depth, codes, counts, joint_counts(cuts, (0, 1), codes, counts, depth)


def cell_counts(cuts, codes, counts):
    """Return counts of the cells of a tree of these cuts, record by record."""
    tree = LabelTree(cuts, np.zeros(len(cuts) + 1, dtype=np.int64))
    found = np.zeros((tree.n_cells, counts.shape[1]), dtype=np.int64)
    np.add.at(found, tree.cells(codes), counts)
    return found


def all_trees(name):
    """Yield the places of the cuts of each tree, and the counts of its cells."""
    cuts, depth, codes, counts, _ = case(name)
    for places in product(range(len(cuts)), repeat=2**depth - 1):
        yield places, cell_counts(tuple(cuts[i] for i in places), codes, counts)


@cache
def law(name, rate):
    """Return the weight of every tree with every labels, from the definition, in whole numbers."""
    table = weights(rate, 50)
    return {
        (places, labels): prod(table[n] for n in cells[np.arange(len(cells)), list(labels)])
        for places, cells in all_trees(name)
        for labels in product(range(cells.shape[1]), repeat=len(cells))
    }


@pytest.mark.parametrize("name", ["two classes", "three classes", "flat"])
def test_what_trees_are_worth_is_the_sum_over_all_of_them_exactly(name):
    rate = Fraction(1, 5)
    expected: dict[int, int] = {}
    for (places, _), weight in law(name, rate).items():
        expected[places[0]] = expected.get(places[0], 0) + weight
    rules = Exponential(weights(rate, 50), Bits())
    found = _cut_worths(*case(name)[-1].split(), rules)
    assert found == [expected[place] for place in range(len(found))]


def test_deep_trees_are_worth_the_sum_over_all_of_them_exactly():
    table = weights(Fraction(1, 3), 50)
    expected = [0, 0]
    for places, cells in all_trees("deep"):
        expected[places[0]] += prod(int(table[one].sum()) for one in cells)
    rules = Exponential(table, Bits())
    assert _cut_worths(*case("deep")[-1].split(), rules) == expected


def drawn(name, rate, draws):
    """Return how often each tree with its labels was drawn."""
    cuts, *_, counts = case(name)
    rules = Exponential(weights(rate, 50), Bits(np.random.default_rng(0)))
    seen: dict[object, int] = {}
    places = {cut: place for place, cut in enumerate(cuts)}
    for _ in range(draws):
        tree, _ = draw_tree(cuts, counts, rules)
        key = tuple(places[cut] for cut in tree.cuts), tuple(tree.labels.tolist())
        seen[key] = seen.get(key, 0) + 1
    return seen


def agreement(seen, weighed):
    """Return the p-value of chi-square, rare outputs taken together."""
    keys = list(weighed)
    whole = sum(weighed.values())
    expected = np.array([float(Fraction(weighed[key], whole)) for key in keys])
    observed = np.array([seen.get(key, 0) for key in keys])
    order = np.argsort(expected)
    hoped = observed.sum() * expected[order]
    rare = np.searchsorted(np.cumsum(hoped), 20) + 1
    f_obs, f_exp = (np.append(one[:rare].sum(), one[rare:]) for one in (observed[order], hoped))
    return stats.chisquare(f_obs, f_exp * f_obs.sum() / f_exp.sum()).pvalue


@pytest.mark.parametrize("name", ["two classes", "three classes", "flat"])
def test_the_draw_has_the_law_of_the_exponential_mechanism(name):
    seen = drawn(name, Fraction(1, 4), 900)
    assert agreement(seen, law(name, Fraction(1, 4))) > 1e-4
    assert agreement(seen, law(name, Fraction(1, 2))) < 1e-6  # the negative control


@pytest.mark.parametrize("name", CASES)
def test_without_noise_the_first_of_the_best_is_taken(name):
    cuts, _, codes, counts, joint = case(name)
    best = max(int(cells.max(axis=1).sum()) for _, cells in all_trees(name))
    tree, of_cells = draw_tree(cuts, joint, MostAccurate())
    cells = cell_counts(tree.cuts, codes, counts)
    assert of_cells.dtype == np.int64
    assert of_cells.tolist() == cells.tolist()
    assert tree.counts is None, "nothing of them is told with the tree"
    assert int(cells[np.arange(len(cells)), tree.labels].sum()) == best
    assert tree.labels.tolist() == cells.argmax(axis=1).tolist()
    first = next(places for places, cells in all_trees(name) if cells.max(axis=1).sum() == best)
    assert tree.cuts[0] == cuts[first[0]]


# Weights of counts -------------------------------------------------------------------------------


RATES = [
    Fraction(1, 10**400),
    Fraction(1, 2**60),
    Fraction(3, 10**17),
    Fraction(1, 10**6),
    Fraction(1, 7),
    Fraction(0.1),
    Fraction(5, 2),
    Fraction(40),
    Fraction(STEEPEST),
    Fraction(10**6),
]


def exceeds(found, rate):
    """Return whether some neighbour weighs more than ``exp(rate)`` times as much, exactly."""
    steep = min(rate, Fraction(10**4))  # no double is as large as the exponential of more
    with localcontext(Context(prec=600, rounding=ROUND_FLOOR)):
        most = (Decimal(steep.numerator) / Decimal(steep.denominator)).exp()
        return any(Decimal(two) > Decimal(one) * most for one, two in pairwise(found))


@pytest.mark.parametrize("rate", RATES, ids=float)
def test_one_record_more_weighs_no_less_and_no_more_than_the_rate_allows(rate):
    found = weights(rate, 3000).tolist()
    assert len(found) == 3001
    assert found[0] == 1 << BITS
    assert all(type(one) is int for one in found)
    assert found == sorted(found)
    assert not exceeds(found, rate)


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 7), Fraction(40)], ids=float)
def test_what_is_rounded_up_would_exceed_it(rate, monkeypatch):
    """The negative control: a step that is too large by one in 2**100 is found out."""

    def rounded_up(rate):
        context = Context(prec=400, rounding=ROUND_CEILING)
        exact = context.divide(Decimal(rate.numerator), Decimal(rate.denominator))
        step = int(context.multiply(context.exp(exact), Decimal(1 << BITS)))
        return step + (step >> 100)

    monkeypatch.setattr(module, "_step", rounded_up)
    assert exceeds(weights(rate, 6).tolist(), rate)


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 7), Fraction(5, 2)], ids=float)
def test_weights_are_those_of_the_exponential_mechanism(rate):
    found = weights(rate, 100)
    for n in (1, 2, 63, 64, 100):
        assert found[n] / 2**BITS == pytest.approx(exp(float(rate) * n), rel=1e-12)


def test_far_beyond_they_rise_less_steeply_in_pieces_twice_as_wide():
    rate, width = Fraction(2), STEEPEST // 2
    logs = np.array([log(one) for one in weights(rate, 8 * width).tolist()]) - BITS * log(2)
    rises = np.diff(logs)
    for piece, (start, end) in enumerate([(0, 1), (1, 3), (3, 7)]):
        np.testing.assert_allclose(rises[start * width : end * width], 2 / 2**piece, rtol=1e-9)
    assert logs[7 * width] == pytest.approx(3 * STEEPEST)


def test_a_rate_of_nothing_is_flat():
    assert set(weights(Fraction(0), 50).tolist()) == {1 << BITS}
    assert set(weights(Fraction(1, 2**70), 50).tolist()) == {1 << BITS}
    assert len(set(weights(Fraction(1, 2**50), 50).tolist())) == 51


@pytest.mark.parametrize(
    "rate", [Fraction(1, 10**9), Fraction(1, 10), Fraction(1), Fraction(255), Fraction(300)]
)
@pytest.mark.parametrize("largest", [1, 50, 2000, 60_000])
def test_no_weight_takes_more_than_is_said(largest, rate):
    found = weights(rate, largest)
    said = bytes_of(rate, largest)
    taken = 8 + getsizeof(found[-1])
    assert 0.8 * said - 16 <= taken <= said
    assert max(map(getsizeof, found.tolist())) == getsizeof(found[-1])


# Counts above several cuts at once ---------------------------------------------------------------


DOMAIN = Domain.from_sizes([3, 2, 4], n_classes=3)
CUTS = public_cuts(DOMAIN, 5, np.random.default_rng(0))
ATTRIBUTES = (0, 1, 2)


def drawn_records(seed, n=40):
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, DOMAIN.sizes, size=(n, 3))
    return codes, generator.integers(0, 5, size=(n, 3))


def above(codes, chosen):
    """Return which cells lie above all of some cuts, from the cuts' definition."""
    found = np.ones(len(codes), dtype=bool)
    for cut in chosen:
        found &= cut.upper[codes[:, cut.attribute]]
    return found


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@given(seed=st.integers(0, 10**6))
def test_counts_are_those_above_all_of_the_cuts(order, seed):
    codes, counts = drawn_records(seed)
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, order)
    assert found.total.tolist() == counts.sum(axis=0).tolist()
    assert found.above.dtype == np.int64
    for places in product(range(len(CUTS)), repeat=order):
        here = above(codes, [CUTS[i] for i in places])
        assert found.above[places].tolist() == counts[here].sum(axis=0).tolist()


@pytest.mark.parametrize("short", [-1, 0, 7, 2**30])
def test_many_records_are_counted_to_the_last(short):
    """Single precision ends at 2**24: odd numbers beyond it would be rounded."""
    codes = np.array([(1, 1, 3), (2, 1, 3), (2, 1, 2)])
    counts = np.array([[joint.SINGLE + short - 3, 0, 0], [0, 1, 1], [1, 0, 0]])
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, 2)
    for places in product(range(len(CUTS)), repeat=2):
        here = above(codes, [CUTS[i] for i in places])
        assert found.above[places].tolist() == counts[here].sum(axis=0).tolist()


def test_single_precision_would_not_do_for_more(monkeypatch):
    """The negative control."""
    monkeypatch.setattr(joint, "SINGLE", 2**40)
    codes, counts = np.array([(2, 1, 3)] * 2), np.array([[2**24, 0, 0], [1, 0, 0]])
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, 1)
    assert found.above.max() == 2**24


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_parts_of_the_records_add_up(order, monkeypatch):
    codes, counts = drawn_records(3, n=100)
    whole = joint_counts(CUTS, ATTRIBUTES, codes, counts, order)
    monkeypatch.setattr(joint, "CHUNK", 200)
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, order)
    np.testing.assert_array_equal(found.above, whole.above)


def test_large_counts_are_summed_exactly():
    codes = np.zeros((3, 3), dtype=np.int64)
    counts = np.array([[2**51 + 1, 0, 0], [2**51 + 1, 0, 0], [0, 2**40 + 1, 1]])
    found = joint_counts(CUTS, ATTRIBUTES, codes, counts, 2)
    lower, _ = found.split()
    assert lower.total[0].tolist() == [2**52 + 2, 2**40 + 1, 1]
    assert found.above.sum() == 0  # the first code is below every cut
    found = joint_counts(CUTS, ATTRIBUTES, codes + np.array([2, 1, 3]), counts, 2)
    assert found.above[1, 1].tolist() == [2**52 + 2, 2**40 + 1, 1]


def test_too_many_are_refused_before_they_are_counted():
    codes, counts = drawn_records(0)
    with memory_cap(1000), pytest.raises(MemoryCapError, match="above several cuts at once"):
        joint_counts(CUTS, ATTRIBUTES, codes, counts, 3)
