"""A tree with its labels, counts of its cells, and tables: their joint law, for all neighbours.

Given a tree all noise is independent, and of discrete Laplace noise of scale t on answers that are
d apart no outcome is more than ``exp(d/t)`` times as likely, which is reached. So every tree with
labels has a bound for whatever is released with it: the draw's own, in whole numbers, times these.
"""

import sys
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.estimators import PooledForestClassifier
from mrf_matrix.labels.plan import label_plan
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP

sys.path.insert(0, str(Path(__file__).parent))
from every_tree import SIZES, cells, exponential, law, types, with_marks, with_one_more
from every_tree import counted as with_counts

SMALL, LARGE = PureDP(Fraction(1, 10)), PureDP(Fraction(3, 2))
CASES = [*product(NEIGHBORING, (2,), (False, True), (SMALL, LARGE))]
CASES += [(neighboring, 3, True, LARGE) for neighboring in NEIGHBORING]


@cache
def parts_of(budget, neighboring="add_remove", k=2, *, counted=True):
    """Return the plan of a small tree and the mechanism of tables, as a pooled forest shares them.

    `counted`: with the steps of a tree that releases counts, too.
    """
    domain = Domain.from_sizes(SIZES, n_classes=k)
    given = {budget.parameter: budget.exact, "neighboring": neighboring}
    plan = PooledForestClassifier(domain, n_records=20, random_state=0, **given).plan()
    assert plan.budget == budget
    assert (plan.tree.depth, plan.tree.counts) == (2, None)
    tree = with_counts(plan.tree) if counted else plan.tree
    return tree, plan.tables.parts[0].mechanism


def of_whole_budget(parts, which):
    """Return the parts, some of which were given the whole budget."""
    (tree, tables), counted = parts, parts[0].counts is not None
    whole = tree.budget + tables.budget
    if "tree" in which:
        alone = label_plan(
            tree.domain,
            whole,
            np.random.default_rng(0),
            n_records=20,
            neighboring=tree.neighboring,
        )
        tree = with_counts(alone) if counted else alone
    return tree, tables.at(whole) if "tables" in which else tables


def answers(mechanism, k):
    """Return what is measured of every table and those of one record more, (tables, ..., rows)."""
    rows = np.array([np.ravel_multi_index(codes, SIZES) * k + c for codes, c in types(k)])
    counts = np.zeros((*with_one_more(k).shape[:2], 4 * k), dtype=np.int64)
    counts[..., rows] = with_one_more(k)
    matrix = mechanism.rounded.matrix.to_dense().astype(int)
    found = np.einsum("rc,tmck->tmrk", matrix, counts.reshape(*counts.shape[:2], 4, k))
    return found.reshape(*counts.shape[:2], 1, -1)


def apart(one, other, power=1):
    return (np.abs(one - other) ** power).sum(axis=-1)[..., None]


def neighbours(parts):
    """Yield pairs of (weights, sums, counts of cells, answers) of neighbours, both ways."""
    tree, tables = parts
    found = *law(tree), cells(tree), answers(tables, tree.n_classes)
    if tree.neighboring == "add_remove":
        fewer, more = ([one[:, part] for one in found] for part in np.s_[:1, 1:])
        yield fewer, more
        yield more, fewer
    else:
        moved = [one[:, 1:] for one in found]
        for i in range(1, moved[0].shape[1]):
            yield moved, [np.roll(one, i, axis=1) for one in moved]


def by_tree(found):
    return found.reshape(*found.shape[:-1], 2**3, -1)


def is_within(parts, epsilon):
    """Whether no joint probability is above ``exp(epsilon)`` times that of a neighbour, exactly."""
    tree, tables = parts
    for (one, sum_one, *counts), (two, sum_two, *others) in neighbours(parts):
        of_cells, of_tables = (apart(a, b) for a, b in zip(counts, others, strict=True))
        if tree.counts is None:
            of_cells = np.zeros_like(of_cells)
        left, right = by_tree(one * sum_two), by_tree(two * sum_one)
        for cell, row in product(np.unique(of_cells).tolist(), np.unique(of_tables).tolist()):
            spent = Fraction(row) / tables.law.scale
            if cell:
                spent += Fraction(cell) / tree.counts.law.scale
            most = exponential(epsilon - spent)
            here = np.broadcast_to((of_cells == cell) & (of_tables == row), left.shape)
            if not (left[here] * most.denominator <= right[here] * most.numerator).all():
                return False
    return True


@pytest.mark.parametrize(("neighboring", "k", "counted", "budget"), with_marks(CASES))
def test_all_that_is_released_is_within_the_budget_exactly(neighboring, k, counted, budget):
    assert is_within(parts_of(budget, neighboring, k, counted=counted), budget.exact)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("counted", [False, True])
def test_the_bound_is_nearly_reached(neighboring, counted):
    parts = parts_of(LARGE, neighboring, counted=counted)
    assert not is_within(parts, LARGE.exact * Fraction(9, 10))


@pytest.mark.parametrize("which", [("tree",), ("tables",), ("tree", "tables")], ids=" and ".join)
@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("counted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_part_that_takes_the_whole_budget_exceeds_it(counted, neighboring, which):
    """The negative control: neither is free beside the other; both are twice the budget."""
    parts = of_whole_budget(parts_of(LARGE, neighboring, counted=counted), which)
    assert not is_within(parts, LARGE.exact)
    assert is_within(parts, LARGE.exact * 2)
    assert is_within(parts, LARGE.exact * Fraction(3, 2)) == (len(which) == 1)


@pytest.mark.slow
@pytest.mark.parametrize("which", [(), ("tree", "tables")], ids=["shared", "both the whole"])
@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("rho", [Fraction(1, 500), Fraction(1, 10)])
def test_zcdp_bounds_every_moment_of_all_together(rho, neighboring, which):
    """Discrete Gaussian noise has at most ``order d**2 / 2 sigma**2`` of d apart."""
    parts = of_whole_budget(parts_of(ZCDP(rho), neighboring), which)
    tree, tables = parts
    squares = [2 * float(one.law.scale) ** 2 for one in (tree.counts, tables)]
    for order in (1.05, 2.0, 8.0):
        most = 0.0
        for (one, sum_one, *counts), (two, sum_two, *others) in neighbours(parts):
            above = by_tree((one / sum_one).astype(float))
            ratio = by_tree(((one * sum_two) / (two * sum_one)).astype(float))
            noise = sum(
                apart(a, b, 2) / square
                for a, b, square in zip(counts, others, squares, strict=True)
            )
            noise = np.exp(order * (order - 1) * noise)
            moments = (above * ratio ** (order - 1) * noise).sum(axis=(-2, -1))
            most = max(most, float(np.log(moments).max()) / (order - 1) / order)
        assert (most <= float(rho) * (1 + 1e-9)) == (not which)


def test_what_is_measured_moves_by_one_record_of_tables_and_totals():
    _, tables = parts_of(SMALL)
    for k in (2, 3):
        found = answers(tables, k)
        moved = apart(found[:, :1], found[:, 1:])
        assert set(np.unique(moved).tolist()) == {tables.rounded.column_sum}
