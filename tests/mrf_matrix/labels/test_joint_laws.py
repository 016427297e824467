"""Two rounds, and a tree beside tables: joint laws by enumeration, for all neighbours."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest
from every_tree import (
    ORDERS,
    SIZES,
    Counted,
    cells,
    drawn,
    exponential,
    plan_of,
    types,
    with_marks,
    with_one_more,
)
from every_tree import counted as with_counts
from every_tree import law as tree_law
from scipy import stats

from mrf_matrix import Domain
from mrf_matrix.estimators import PooledForestClassifier
from mrf_matrix.forests.label_tree import LabelTree
from mrf_matrix.labels.draw import weights
from mrf_matrix.labels.plan import Round, label_plan
from mrf_matrix.labels.questions import TreeCells
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP
from mrf_matrix.mechanisms.selection import Bits

BUDGETS = [PureDP(Fraction(1, 10)), PureDP(Fraction(3, 2))]
K = 2
TYPES = types(K)
DRAWS = 500
CODES = np.array([codes for codes, _ in TYPES])
CLASSES = np.array([c for _, c in TYPES])
SOME = np.random.default_rng(0).multinomial(6, np.full(len(TYPES), 1 / len(TYPES)), size=2)
MANY = np.array([{((0, 0), 0): 60, ((1, 0), 1): 30}.get(one, 0) for one in TYPES])
"""A cut of the first attribute tells both classes apart, one of the other hides the second."""

TABLES = np.vstack([np.zeros(len(TYPES), dtype=int), MANY, SOME])


def in_rounds(budget, neighboring="add_remove", shares=(Fraction(1, 5), Fraction(4, 5))):
    """Return a plan of one cut, and one more below each side; `shares`: of the budget."""
    plan = plan_of(budget, neighboring, K)
    step = plan.labels
    rounds = tuple(Round(1, replace(step, budget=budget * share)) for share in shares)
    return replace(plan, rounds=rounds)


def side(cut):
    return cut.upper[CODES[:, cut.attribute]]


def of_one(table, cuts, counts):
    """Return the weight of every cut with both labels; `counts` (types,), those of one cell."""
    found = []
    for cut in cuts:
        for one, other in product(range(K), repeat=2):
            right = [
                int(counts[(side(cut) == upper) & (c == CLASSES)].sum())
                for upper, c in ((False, one), (True, other))
            ]
            found.append(prod(int(table[n]) for n in right))
    return np.array(found, dtype=object)


def law(plan, counts):
    """Return the probability of each first cut and both trees below it, in fractions."""
    first, second = (weights(Fraction(one.step.choice_rate), 100) for one in plan.rounds)
    n_labels = K * K
    tops = of_one(first, plan.cuts, counts).reshape(len(plan.cuts), n_labels).sum(axis=1)
    found = []
    for top, cut in zip(tops, plan.cuts, strict=True):
        below, above = (
            of_one(second, plan.cuts, np.where(side(cut) == upper, counts, 0))
            for upper in (False, True)
        )
        whole = int(tops.sum()) * int(below.sum()) * int(above.sum())
        found += [Fraction(int(top * b * a), whole) for b in below for a in above]
    return found


def neighbours(plan):
    """Yield the laws of two neighbours, either way."""
    moves = np.eye(len(TYPES), dtype=int)
    for data in TABLES:
        laws = [law(plan, data + one) for one in moves]
        if plan.neighboring == "add_remove":
            here = law(plan, data)
            yield from ((here, one) for one in laws)
            yield from ((one, here) for one in laws)
        else:
            yield from product(laws[::2], laws)


def is_within(plan, epsilon):
    most = exponential(epsilon)
    return all(
        all(p <= q * most for p, q in zip(one, other, strict=True))
        for one, other in neighbours(plan)
    )


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_both_rounds_are_within_the_budget_exactly(budget, neighboring):
    plan = in_rounds(budget, neighboring)
    assert len(plan.cuts) == 2
    assert sum(law(plan, TABLES[-1])) == 1
    assert is_within(plan, budget.exact)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
def test_the_bound_is_nearly_reached(neighboring):
    plan = in_rounds(BUDGETS[1], neighboring)
    assert not is_within(plan, BUDGETS[1].exact * Fraction(4, 5))


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("shares", [(Fraction(1), Fraction(4, 5)), (Fraction(1, 2), Fraction(1))])
def test_neither_round_is_free_beside_the_other(shares, neighboring):
    """The negative control."""
    plan = in_rounds(BUDGETS[1], neighboring, shares)
    assert not is_within(plan, BUDGETS[1].exact)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
def test_zcdp_bounds_every_moment(neighboring):
    rho = Fraction(1, 10)
    found = {}
    for times in (1, 3):
        plan = in_rounds(ZCDP(rho) * times, neighboring)
        pairs = [(np.array(p, float), np.array(q, float)) for p, q in neighbours(plan)]
        found[times] = {
            order: max(
                float(np.log((q * (p / q) ** order).sum())) / (order - 1) / order for p, q in pairs
            )
            for order in ORDERS[:4]
        }
    assert max(found[1].values()) <= float(rho) * (1 + 1e-9)
    assert max(found[3].values()) > float(rho), "the control: a budget that is larger"


def test_what_is_drawn_has_this_law():
    plan = in_rounds(PureDP(1))
    counts = np.eye(K, dtype=np.int64)[CLASSES] * TABLES[-1][:, None]
    data, bits = Counted(CODES, counts), Bits(np.random.default_rng(0))
    places = {cut: place for place, cut in enumerate(plan.cuts)}
    seen: Counter[tuple[object, ...]] = Counter()
    for _ in range(DRAWS):
        tree = drawn(plan, data, bits)
        of_cells = TreeCells(plan, tree).counts(data).counts
        expected = np.zeros_like(of_cells)
        np.add.at(expected, tree.cells(CODES), counts)
        assert of_cells.tolist() == expected.tolist(), "what its cells hold is told beside it"
        seen[(*[places[cut] for cut in tree.cuts], *tree.labels.tolist())] += 1
    options = [
        (top, below, above, *low, *high)
        for top in range(2)
        for below in range(2)
        for low in product(range(K), repeat=2)
        for above in range(2)
        for high in product(range(K), repeat=2)
    ]
    observed = np.array([seen.get(one, 0) for one in options])
    assert observed.sum() == DRAWS
    assert agreement(observed, law(plan, TABLES[-1])) > 1e-4
    other = in_rounds(PureDP(1), shares=(Fraction(4, 5), Fraction(1, 5)))
    assert agreement(observed, law(other, TABLES[-1])) < 1e-4, "the control: shares swapped"


def agreement(observed, probabilities):
    """Return the p-value of chi-square, rare outcomes taken together."""
    expected = np.array(probabilities, dtype=float) * observed.sum()
    order = np.argsort(expected)
    rare = np.searchsorted(np.cumsum(expected[order]), 20) + 1
    f_obs, f_exp = (
        np.append(one[order][:rare].sum(), one[order][rare:]) for one in (observed, expected)
    )
    return stats.chisquare(f_obs, f_exp * f_obs.sum() / f_exp.sum()).pvalue


def test_trees_take_the_place_of_cells():
    cuts = plan_of(BUDGETS[0], "add_remove", K).cuts
    root = LabelTree((cuts[0],), np.array([0, 1]))
    one = LabelTree((cuts[1], cuts[0], cuts[0]), np.array([0, 1, 1, 0]))
    other = LabelTree((cuts[0], cuts[1], cuts[1]), np.array([1, 1, 0, 0]))
    whole = root.extend([one, other])
    assert (whole.depth, whole.n_cells) == (3, 8)
    upper = side(cuts[0])
    expected = np.where(upper, 4 + other.cells(CODES), one.cells(CODES))
    assert whole.cells(CODES).tolist() == expected.tolist()
    assert whole.labels.tolist() == [0, 1, 1, 0, 1, 1, 0, 0]
    assert whole.cells(CODES[:, :], of=(0, 1)).tolist() == expected.tolist()
    wide = np.insert(CODES, [0, 1], 9, axis=1)  # columns of which only two are told of
    moved = [replace(cut, attribute=2 * cut.attribute + 1) for cut in whole.cuts]
    shifted = LabelTree(tuple(moved), whole.labels)
    assert shifted.cells(wide).tolist() == shifted.cells(CODES, of=(1, 3)).tolist()
    assert shifted.cells(wide).tolist() == expected.tolist()


# Beside tables -----------------------------------------------------------------------------------


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


def neighbouring_pools(parts):
    """Yield pairs of (weights, sums, counts of cells, answers) of neighbours, both ways."""
    tree, tables = parts
    found = *tree_law(tree), cells(tree), answers(tables, tree.n_classes)
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


def is_jointly_within(parts, epsilon):
    """Whether no joint probability is above ``exp(epsilon)`` times that of a neighbour, exactly."""
    tree, tables = parts
    for (one, sum_one, *counts), (two, sum_two, *others) in neighbouring_pools(parts):
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
    assert is_jointly_within(parts_of(budget, neighboring, k, counted=counted), budget.exact)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("counted", [False, True])
def test_the_bound_is_nearly_reached_beside_tables(neighboring, counted):
    parts = parts_of(LARGE, neighboring, counted=counted)
    assert not is_jointly_within(parts, LARGE.exact * Fraction(9, 10))


@pytest.mark.parametrize("which", [("tree",), ("tables",), ("tree", "tables")], ids=" and ".join)
@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("counted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_part_that_takes_the_whole_budget_exceeds_it(counted, neighboring, which):
    """The negative control: neither is free beside the other; both are twice the budget."""
    parts = of_whole_budget(parts_of(LARGE, neighboring, counted=counted), which)
    assert not is_jointly_within(parts, LARGE.exact)
    assert is_jointly_within(parts, LARGE.exact * 2)
    assert is_jointly_within(parts, LARGE.exact * Fraction(3, 2)) == (len(which) == 1)


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
        for (one, sum_one, *counts), (two, sum_two, *others) in neighbouring_pools(parts):
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
