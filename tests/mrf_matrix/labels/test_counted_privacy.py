"""A tree with its labels and noisy counts of its cells: their joint law, for all neighbours.

Of the noise only how far the true counts of a tree's cells are apart matters, so that each tree has
a bound of its own for whatever counts are released with it.
"""

import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mrf_matrix.labels.plan import SHARE_OF_COUNTS
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP

sys.path.insert(0, str(Path(__file__).parent))
from every_tree import (
    LARGE,
    ORDERS,
    SMALL,
    counted,
    exponential,
    law,
    neighbours,
    plan_of,
    with_draw,
    with_marks,
)


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


def is_within(plan, epsilon):
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


CASES = [*product(NEIGHBORING, (2,), (SMALL, LARGE)), *product(NEIGHBORING, (3,), (LARGE,))]


@pytest.mark.parametrize(("neighboring", "k", "budget"), with_marks(CASES))
def test_tree_labels_and_counts_together_are_within_the_budget_exactly(neighboring, k, budget):
    plan = counted_plan(budget, neighboring, k)
    assert is_within(plan, budget.exact)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
def test_the_bound_is_nearly_reached(neighboring):
    assert not is_within(counted_plan(LARGE, neighboring), LARGE.exact * Fraction(9, 10))


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("step", ["labels", "counts"])
def test_a_step_that_takes_the_whole_budget_exceeds_it(step, neighboring):
    """The negative control: neither is free beside the other."""
    plan = counted_plan(LARGE, neighboring)
    whole = replace(getattr(plan, step), budget=LARGE)
    more = with_draw(plan, whole) if step == "labels" else replace(plan, counts=whole)
    assert not is_within(more, LARGE.exact)


@pytest.mark.parametrize("k", [2, 3])
def test_counts_of_one_record_more_do_not_cover_one_in_anothers_place(k):
    """The negative control: noise for other neighbours is too little."""
    plan = counted_plan(LARGE, "replace_one", k)
    less = counted_plan(LARGE, "add_remove", k).counts
    assert not is_within(replace(plan, counts=less), LARGE.exact)


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
        assert plan.labels.choice_epsilon**2 / 8 <= draw
    else:
        assert plan.counts.law.scale * counts >= moved
        assert plan.labels.choice_epsilon == draw
