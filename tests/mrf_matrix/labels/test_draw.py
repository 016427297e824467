"""The draw of a tree and its labels: sums over all trees and laws, by brute force."""

from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
from scipy import stats

from mrf_matrix import Domain
from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.forests.sources.cuts import public_cuts
from mrf_matrix.labels.draw import Exponential, MostRight, _of_each_cut, draw_tree, weights
from mrf_matrix.labels.joint_counts import joint_counts
from mrf_matrix.mechanisms.selection.bits import Bits

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
    found = _of_each_cut(*case(name)[-1].split(), rules)
    assert found == [expected[place] for place in range(len(found))]


def test_deep_trees_are_worth_the_sum_over_all_of_them_exactly():
    table = weights(Fraction(1, 3), 50)
    expected = [0, 0]
    for places, cells in all_trees("deep"):
        expected[places[0]] += prod(int(table[one].sum()) for one in cells)
    rules = Exponential(table, Bits())
    assert _of_each_cut(*case("deep")[-1].split(), rules) == expected


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
    seen = drawn(name, Fraction(1, 4), 1500)
    assert agreement(seen, law(name, Fraction(1, 4))) > 1e-4
    assert agreement(seen, law(name, Fraction(1, 2))) < 1e-6  # the negative control


def test_deep_draws_are_right_as_often_as_the_law_says():
    """Records that are right have a known mean, the derivative of log Z by the rate."""
    cuts, *_, counts = case("deep")
    codes, n = case("deep")[2:4]
    rate, step = Fraction(1, 4), Fraction(1, 1000)

    def whole(rate):
        rules = Exponential(weights(rate, 50), Bits())
        return sum(_of_each_cut(*counts.split(), rules))

    def log_ratio(one, other):
        return float(np.log(float(Fraction(one, other))))

    mean = log_ratio(whole(rate + step), whole(rate - step)) / float(2 * step)
    rules = Exponential(weights(rate, 50), Bits(np.random.default_rng(0)))
    right = []
    for _ in range(600):
        tree, of_cells = draw_tree(cuts, counts, rules)
        cells = cell_counts(tree.cuts, codes, n)
        assert of_cells.tolist() == cells.tolist(), "what its cells hold is told beside it"
        right.append(int(cells[np.arange(len(cells)), tree.labels].sum()))
    error = np.std(right) / np.sqrt(len(right))
    assert abs(np.mean(right) - mean) < 4 * error
    faster = log_ratio(whole(2 * rate + step), whole(2 * rate - step)) / float(2 * step)
    assert abs(np.mean(right) - faster) > 5 * error  # the negative control


@pytest.mark.parametrize("name", CASES)
def test_without_noise_the_first_of_the_best_is_taken(name):
    cuts, _, codes, counts, joint = case(name)
    best = max(int(cells.max(axis=1).sum()) for _, cells in all_trees(name))
    tree, of_cells = draw_tree(cuts, joint, MostRight())
    cells = cell_counts(tree.cuts, codes, counts)
    assert of_cells.dtype == np.int64
    assert of_cells.tolist() == cells.tolist()
    assert tree.counts is None, "nothing of them is told with the tree"
    assert int(cells[np.arange(len(cells)), tree.labels].sum()) == best
    assert tree.labels.tolist() == cells.argmax(axis=1).tolist()
    first = next(places for places, cells in all_trees(name) if cells.max(axis=1).sum() == best)
    assert tree.cuts[0] == cuts[first[0]]


def test_system_randomness_draws_different_trees():
    cuts, *_, counts = case("two classes")
    rules = Exponential(weights(Fraction(1, 100), 50), Bits())
    drawn = [draw_tree(cuts, counts, rules)[0] for _ in range(20)]
    assert len({(tree.cuts, tuple(tree.labels.tolist())) for tree in drawn}) > 10
