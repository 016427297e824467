"""Two rounds: their joint law by enumeration, for all neighbours of tiny tables, and what is drawn.

Of a first cut only the cells count, and of a tree below one of them its cut and its labels: both
are enumerated with the records of every cell, so that nothing rests on how draws compose.
"""

import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.kinds.labels import TreeCells
from mrf_matrix.labels.draw import weights
from mrf_matrix.labels.plan import Round
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP
from mrf_matrix.mechanisms.selection.bits import Bits

sys.path.insert(0, str(Path(__file__).parent))
from every_tree import ORDERS, Counted, drawn, exponential, plan_of, types

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


def test_without_noise_every_round_is_the_best():
    plan = in_rounds(PureDP(float("inf")))
    generator = np.random.default_rng(1)
    for _ in range(5):
        data = generator.integers(0, 6, len(TYPES))
        counts = np.eye(K, dtype=np.int64)[CLASSES] * data[:, None]
        tree = drawn(plan, Counted(CODES, counts), Bits())
        right = data[tree.labels[tree.cells(CODES)] == CLASSES].sum()
        best = max(
            sum(most_right(np.where(side(cut) == upper, data, 0), plan) for upper in (False, True))
            for cut in plan.cuts
            if one_cut(data, cut) == max(one_cut(data, other) for other in plan.cuts)
        )
        assert right <= best
        assert right >= max(one_cut(data, cut) for cut in plan.cuts)


def one_cut(data, cut):
    """Return on how many records both sides of a cut are right."""
    sides = [np.bincount(CLASSES[side(cut) == u], data[side(cut) == u], K) for u in (0, 1)]
    return max(sides[0]) + max(sides[1])


def most_right(data, plan):
    return max(one_cut(data, cut) for cut in plan.cuts)


def test_trees_take_the_place_of_cells():
    cuts = plan_of(BUDGETS[0], "add_remove", K).cuts
    root = LabelTree((cuts[0],), np.array([0, 1]))
    one = LabelTree((cuts[1], cuts[0], cuts[0]), np.array([0, 1, 1, 0]))
    other = LabelTree((cuts[0], cuts[1], cuts[1]), np.array([1, 1, 0, 0]))
    whole = root.grown([one, other])
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
