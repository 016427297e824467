"""A tree with its labels, and with counts of its cells: joint laws, for all neighbours."""

from dataclasses import replace
from fractions import Fraction
from functools import cache, reduce
from itertools import product

import numpy as np
import pytest
from every_tree import (
    LARGE,
    ORDERS,
    SMALL,
    Counted,
    cell_counts,
    counted,
    drawn,
    exponential,
    law,
    neighbours,
    numbers,
    plan_of,
    tables,
    types,
    with_draw,
    with_marks,
)

from mrf_matrix.forests.label_tree import LabelTree
from mrf_matrix.labels.draw import Exponential, _cut_worths, weights
from mrf_matrix.labels.plan import SHARE_OF_COUNTS
from mrf_matrix.labels.questions import joint_counts
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP
from mrf_matrix.mechanisms.measurement.mechanism import exact_choice_epsilon
from mrf_matrix.mechanisms.selection import Bits


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
            worth = sum(_cut_worths(*joint.split(), Exponential(table, Bits())))
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
    for _ in range(40 if budget.is_infinite else 400):
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


# With noisy counts of cells ----------------------------------------------------------------------


@cache
def counted_plan(budget, neighboring="add_remove", k=2):
    """Return the plan of small trees with the steps of one that releases counts."""
    plan = counted(plan_of(budget, neighboring, k))
    assert len(plan.steps) == 2
    return plan


def apart(one, other, power=1):
    """Return how far counts of the cells of each tree are apart, in all cells and classes."""
    return (np.abs(one - other) ** power).sum(axis=-1)[..., None]


def by_tree(found):
    """Return figures of all trees with all labels as a row of labels for each tree."""
    return found.reshape(*found.shape[:-1], 2**3, -1)


def is_jointly_within(plan, epsilon):
    """Whether no joint probability is above ``exp(epsilon)`` times that of a neighbour, exactly.

    Discrete Laplace noise of scale t says any counts at most ``exp(d/t)`` times as often of true
    ones that are d apart (`test_noise_of_counts_says_them_at_most_so_often`).
    """
    scale = plan.counts.law.scale
    for (one, sum_one, cells_one), (two, sum_two, cells_two) in neighbours(plan):
        distances = apart(cells_one, cells_two)
        left, right = by_tree(one * sum_two), by_tree(two * sum_one)
        for distance in np.unique(distances).tolist():
            most = exponential(epsilon - Fraction(distance) / scale)
            here = np.broadcast_to(distances == distance, left.shape)
            if not (left[here] * most.denominator <= right[here] * most.numerator).all():
                return False
    return True


@pytest.mark.parametrize(("neighboring", "k", "budget"), with_marks(CASES))
def test_tree_labels_and_counts_together_are_within_the_budget_exactly(neighboring, k, budget):
    plan = counted_plan(budget, neighboring, k)
    assert is_jointly_within(plan, budget.exact)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
def test_the_bound_is_nearly_reached_with_counts(neighboring):
    assert not is_jointly_within(counted_plan(LARGE, neighboring), LARGE.exact * Fraction(9, 10))


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("step", ["labels", "counts"])
def test_a_step_that_takes_the_whole_budget_exceeds_it(step, neighboring):
    """The negative control: neither is free beside the other."""
    plan = counted_plan(LARGE, neighboring)
    whole = replace(getattr(plan, step), budget=LARGE)
    more = with_draw(plan, whole) if step == "labels" else replace(plan, counts=whole)
    assert not is_jointly_within(more, LARGE.exact)


@pytest.mark.parametrize("k", [2, 3])
def test_counts_of_one_record_more_do_not_cover_one_in_anothers_place(k):
    """The negative control: noise for other neighbours is too little."""
    plan = counted_plan(LARGE, "replace_one", k)
    less = counted_plan(LARGE, "add_remove", k).counts
    assert not is_jointly_within(replace(plan, counts=less), LARGE.exact)


def test_what_is_enumerated_are_counts_of_the_cells_of_every_tree():
    """A record more is in one cell of each; in another's place it may stay, or move."""
    for neighboring, distances in (("add_remove", {1}), ("replace_one", {0, 2})):
        plan = counted_plan(SMALL, neighboring)
        weighed, _ = law(plan)
        for (*_, one), (*_, two) in neighbours(plan):
            assert one.shape[-2:] == (2**3, 4 * 2)
            assert weighed.shape[-1] == one.shape[-2] * 2**4
            found = set(np.unique(apart(one, two)).tolist())
            assert 0 < len(found) <= len(distances)
            assert found <= distances


@pytest.mark.parametrize("neighboring", NEIGHBORING)
def test_noise_of_counts_says_them_at_most_so_often(neighboring):
    """On a grid of noisy counts of one cell, two classes, by the exact probabilities."""
    noise = counted_plan(LARGE, neighboring).counts.law
    noisy = np.array(list(product(range(-12, 13), repeat=2)))

    def log_pmf(true):
        return noise.log_pmf(noisy - np.array(true)).sum(axis=1)

    for one, other in product(product(range(3), repeat=2), repeat=2):
        distance = abs(one[0] - other[0]) + abs(one[1] - other[1])
        ratios = log_pmf(one) - log_pmf(other)
        assert ratios.max() == pytest.approx(distance / float(noise.scale))


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("rho", [Fraction(1, 500), Fraction(1, 10)])
def test_zcdp_bounds_every_moment_of_both_together(rho, neighboring, times):
    """Discrete Gaussian noise has at most ``order d**2 / 2 sigma**2`` of d apart."""
    plan = counted_plan(ZCDP(rho), neighboring)
    counts = replace(plan.counts, budget=plan.counts.budget * times)
    assert (counts.budget == plan.budget) == (times * SHARE_OF_COUNTS == 1)
    square = 2 * float(counts.law.scale) ** 2
    most = dict.fromkeys(ORDERS, 0.0)
    for (one, sum_one, cells_one), (two, sum_two, cells_two) in neighbours(plan):
        above = by_tree((one / sum_one).astype(float))
        ratio = by_tree(((one * sum_two) / (two * sum_one)).astype(float))
        squares = apart(cells_one, cells_two, 2) / square
        for order in ORDERS:
            noise = np.exp(order * (order - 1) * squares)
            moments = (above * ratio ** (order - 1) * noise).sum(axis=(-2, -1))
            most[order] = max(most[order], float(np.log(moments).max()) / (order - 1) / order)
    if times == 1:
        assert max(most.values()) <= float(rho) * (1 + 1e-9)
    else:  # the negative control; of large orders the draw's moments are far below
        assert min(most[order] for order in ORDERS if order < 16) > float(rho)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize(
    "budget", [PureDP(Fraction(2, 7)), PureDP(0.1), ZCDP(Fraction(1, 3)), ZCDP(0.07)], ids=str
)
def test_budgets_of_both_steps_add_up_to_the_whole_exactly(budget, neighboring):
    plan = counted_plan(budget, neighboring)
    draw, counts = (step.budget.exact for step in plan.steps)
    assert (type(draw), type(counts)) == (Fraction, Fraction)
    assert draw + counts == budget.exact
    assert counts == budget.exact * SHARE_OF_COUNTS
    assert {step.neighboring for step in plan.steps} == {neighboring}
    moved = 1 if neighboring == "add_remove" else 2
    if isinstance(budget, ZCDP):
        assert plan.counts.law.scale**2 * 2 * counts >= moved
        assert exact_choice_epsilon(plan.labels.budget) ** 2 / 8 <= draw
    else:
        assert plan.counts.law.scale * counts >= moved
        assert exact_choice_epsilon(plan.labels.budget) == draw
