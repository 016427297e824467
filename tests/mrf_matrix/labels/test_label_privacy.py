"""A tree with its labels: the whole mechanism by enumeration, for all neighbours of tiny tables."""

import sys
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.labels.draw import Exponential, _of_each_cut, weights
from mrf_matrix.labels.joint_counts import joint_counts
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP
from mrf_matrix.mechanisms.selection.bits import Bits

sys.path.insert(0, str(Path(__file__).parent))
from every_tree import (
    LARGE,
    ORDERS,
    SMALL,
    Counted,
    cell_counts,
    drawn,
    exponential,
    law,
    neighbours,
    numbers,
    plan_of,
    tables,
    types,
    with_marks,
)


def is_within(plan, epsilon, **changes):
    """Whether no probability is above ``exp(epsilon)`` times that of a neighbour, exactly."""
    most = exponential(epsilon)
    return all(
        bool((one * sum_two * most.denominator <= two * sum_one * most.numerator).all())
        for (one, sum_one, _), (two, sum_two, _) in neighbours(plan, **changes)
    )


def largest_divergences(plan, orders, **changes):
    """Return the largest Renyi divergence of each order, over that order."""
    most = dict.fromkeys(orders, 0.0)
    for (one, sum_one, _), (two, sum_two, _) in neighbours(plan, **changes):
        above = (one / sum_one).astype(float)
        ratio = ((one * sum_two) / (two * sum_one)).astype(float)
        for order in orders:
            moments = (above * ratio ** (order - 1)).sum(axis=-1)
            most[order] = max(most[order], float(np.log(moments).max()) / (order - 1) / order)
    return most


CASES = [*product(NEIGHBORING, (2,), (SMALL, LARGE)), *product(NEIGHBORING, (3,), (LARGE,))]


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("times", [1, Fraction(6, 5)])
def test_trees_of_other_depths_are_within_the_budget_too(depth, times):
    """By sums over all trees: of a tree with labels only the counts of its cells matter."""
    plan, rate = plan_of(LARGE), LARGE.exact * times
    codes = np.array([row for row, _ in types(2)])
    classes = np.array([c for _, c in types(2)])
    table, least, most = weights(rate, 60), exponential(-LARGE.exact), exponential(LARGE.exact)
    held = True
    for data in tables(2)[[0, 1, 4, -3]]:
        found = []
        for more in with_one_more_of(data):
            counts = np.eye(2, dtype=np.int64)[classes] * more[:, None]
            joint = joint_counts(plan.cuts, plan.attributes, codes, counts, depth)
            worth = sum(_of_each_cut(*joint.split(), Exponential(table, Bits())))
            cells = LabelTree((plan.cuts[0],) * (2**depth - 1), np.zeros(2**depth, dtype=int))
            of_cells = np.zeros((2**depth, 2), dtype=np.int64)
            np.add.at(of_cells, cells.cells(codes), counts)
            right = reduce(lambda one, other: one * other, table[of_cells[:, 1]].tolist())
            found.append(Fraction(right, worth))  # of one tree that says the second class
        ratios = [one / found[0] for one in found[1:]]
        held &= all(least <= ratio <= most for ratio in ratios)
    assert held == (times == 1)


def with_one_more_of(data):
    """Return a table, and all with one record more."""
    return [data, *(data + one for one in np.eye(len(data), dtype=int))]


def test_what_is_enumerated_is_all_trees_and_labels():
    plan = plan_of(SMALL)
    assert plan.depth == 2
    assert len(plan.cuts) == 2
    weighed, whole = law(plan)
    assert weighed.shape[-1] == 2**3 * 2**4
    assert (weighed.sum(axis=-1, keepdims=True) == whole).all()


@pytest.mark.parametrize(("neighboring", "k", "budget"), with_marks(CASES))
def test_every_neighbour_is_within_the_budget_exactly(neighboring, k, budget):
    assert is_within(plan_of(budget, neighboring, k), budget.exact)


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_the_bound_is_nearly_reached(neighboring):
    assert not is_within(plan_of(LARGE, neighboring), LARGE.exact * Fraction(9, 10))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_a_larger_rate_exceeds_the_budget(neighboring, k):
    """The negative control: the enumeration finds a rate that is too large."""
    plan = plan_of(LARGE, neighboring, k)
    assert not is_within(plan, LARGE.exact, times=Fraction(6, 5))


def test_the_rate_of_one_record_more_does_not_cover_one_in_anothers_place():
    plan = replace(plan_of(LARGE), neighboring="replace_one")  # of neighbours, not of its step
    assert not is_within(plan, LARGE.exact * Fraction(3, 2))


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rho", [Fraction(1, 500), Fraction(1, 10)])
def test_zcdp_bounds_every_moment(rho, neighboring):
    plan = plan_of(ZCDP(rho), neighboring)
    assert max(largest_divergences(plan, ORDERS).values()) <= float(rho) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_a_larger_rate_exceeds_every_moment(neighboring):
    plan = plan_of(ZCDP(Fraction(1, 500)), neighboring)
    found = largest_divergences(plan, (1.05, 2.0, 16.0), times=2)
    assert min(found.values()) > 1.05 / 500


@pytest.mark.parametrize("budget", [PureDP(2), ZCDP(Fraction(1, 4)), PureDP(float("inf"))])
def test_what_is_released_is_drawn_by_this_law(budget):
    """Of one table the most probable tree with labels is drawn as often as the law says."""
    plan = plan_of(budget)
    data = np.random.default_rng(7).integers(0, 3, len(types(2)))
    rows, classes = np.array([codes for codes, _ in types(2)]), np.array([c for _, c in types(2)])
    counted = Counted(rows, np.eye(2, dtype=np.int64)[classes] * data[:, None])
    plan = replace(plan, rounds=plan.rounds[:1])  # without noise there are two
    bits, right = Bits(np.random.default_rng(0)), []
    for _ in range(400):
        tree = drawn(plan, counted, bits)
        right.append(int(data[tree.labels[tree.cells(rows)] == classes].sum()))
    cells = cell_counts(plan, data)
    score = reduce(
        lambda one, other: (one[..., :, None] + other[..., None, :]).reshape(len(one), -1),
        [cells[:, cell] for cell in range(4)],
    ).ravel()
    if budget.is_infinite:
        assert set(right) == {score.max()}
        return
    weighed = numbers(plan, data)
    mean = float((weighed * score).sum() / weighed.sum())
    wrong = numbers(plan, data, times=2)
    error = np.std(right) / len(right) ** 0.5
    assert abs(np.mean(right) - mean) < 4 * error
    assert abs(np.mean(right) - float((wrong * score).sum() / wrong.sum())) > 4.5 * error
