"""Screening: its whole law by enumeration, for all neighbours of tiny tables."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.estimators.given_data import EncodedRecords
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.planning import Screening
from mrf_matrix.planning.private.choices import (
    Attribute,
    Enough,
    planned_screening,
    screening_share,
)
from mrf_matrix.residual.step import ResidualStep

DOMAIN = Domain.from_sizes([2, 2, 2], n_classes=2)
ROWS = list(product((0, 1), repeat=4))
"""Codes of three attributes, and a class."""


def screening(neighboring="add_remove", epsilon=1.5, budget=PureDP, most_cells=4):
    each = budget(epsilon) * Fraction(1, 3)
    steps = [ResidualStep("screening", f"choice {i}", each, neighboring) for i in range(3)]
    return Screening(tuple(steps[:2]), steps[2], Fraction(3, 10), most_cells)


def right(rows, attributes):
    cells = {}
    for *codes, label in rows:
        cells.setdefault(tuple(codes[i] for i in attributes), []).append(label)
    return sum(max(found.count(0), found.count(1)) for found in cells.values())


def law(rows, plan, *, times=1):
    """Return the probability of every outcome, from the definition of the mechanism."""
    rates = (times * float(step.choice_rate) for step in plan.steps)
    return law_of(tuple(sorted(rows)), plan.together((2, 2)), *rates)


@cache
def law_of(rows, together, *rates):
    outcomes = {}
    for chosen in permutations(range(3), 2):
        chance, left = 1.0, [0, 1, 2]
        for one, rate in zip(chosen, rates[:2], strict=True):
            weights = {i: np.exp(rate * right(rows, (i,))) for i in left}
            chance *= weights[one] / sum(weights.values())
            left.remove(one)
        best = max(sum(row[-1] == c for row in rows) for c in (0, 1))
        scores = [right(rows, chosen[:together]), (7 * best + 3 * len(rows)) // 10]
        weights = np.exp(rates[2] * np.array(scores, dtype=float))
        for enough, weight in zip((True, False), weights / weights.sum(), strict=True):
            outcomes[chosen, enough] = chance * weight
    return np.array(list(outcomes.values()))


def tables(most=2):
    for n in range(most + 1):
        yield from (list(rows) for rows in combinations_with_replacement(ROWS, n))


def largest_loss(pairs, plan, **changes):
    losses = [np.log(law(a, plan, **changes) / law(b, plan, **changes)) for a, b in pairs]
    return float(np.abs(losses).max())


ADDED = [(rows, [*rows, one]) for rows in tables() for one in ROWS]
REPLACED = [([*rows, a], [*rows, b]) for rows in tables(1) for a in ROWS for b in ROWS if a < b]


@pytest.mark.parametrize("most_cells", [2, 4])  # one attribute is looked at, or two together
@pytest.mark.parametrize(
    ("neighboring", "pairs"), [("add_remove", ADDED), ("replace_one", REPLACED)]
)
def test_every_neighbour_is_within_the_budget(neighboring, pairs, most_cells):
    plan = screening(neighboring, most_cells=most_cells)
    assert largest_loss(pairs, plan) <= 1.5 * (1 + 1e-12)


def test_twice_the_rate_exceeds_the_budget():
    """The negative control: the enumeration finds a rate that is too large."""
    assert largest_loss(ADDED, screening(), times=2) > 1.5


def test_zcdp_bounds_every_moment():
    """Divergences of order α are at most αρ: those of one choice, where they are largest."""
    plan = screening(epsilon=0.3, budget=ZCDP)
    for one, other in ADDED[::7]:
        p, q = law(one, plan), law(other, plan)
        for order in (1.5, 2.0, 8.0, 32.0):
            divergence = np.log((p**order * q ** (1 - order)).sum()) / (order - 1)
            assert divergence <= 0.3 * order * (1 + 1e-9)


def screened(plan, data, sizes, bits):
    """Return the attributes that are chosen, and whether they are enough."""
    left, chosen = np.array(sizes) > 1, []
    for step in plan.choices:
        asked = Attribute(left.copy())
        (place,) = asked.draw(asked.scores(data), step, bits)
        chosen.append(place)
        left[place] = False
    if plan.enough is None:
        return tuple(chosen), True
    asked = Enough(plan, tuple(chosen[: plan.together([sizes[i] for i in chosen])]))
    return tuple(chosen), asked.draw(asked.scores(data), plan.enough, bits) == (0,)


def encoded(rows):
    table = np.array(rows, dtype=np.int32)
    return EncodedRecords(DOMAIN, table[:, :-1], table[:, -1])


@pytest.mark.parametrize("most_cells", [2, 4])
def test_the_sampler_has_this_law(most_cells):
    rows = [(0, 0, 1, 0), (0, 1, 1, 0), (1, 1, 0, 1), (1, 0, 1, 1), (1, 1, 1, 0)]
    plan, known = screening(most_cells=most_cells), encoded(rows)
    bits = Bits(np.random.default_rng(0))
    draws = 700
    names = [(pair, flag) for pair in permutations(range(3), 2) for flag in (True, False)]
    found = [screened(plan, known, DOMAIN.sizes, bits) for _ in range(draws)]
    seen = np.array([found.count(name) for name in names])
    expected = draws * law(rows, plan)
    assert ((seen - expected) ** 2 / expected).sum() < 31.3  # chi-square, 11 degrees, 1e-3
    wrong = draws * law(rows, plan, times=2)
    assert ((seen - wrong) ** 2 / wrong).sum() > 31.3


@pytest.mark.parametrize("budget", [PureDP(Fraction(1, 3)), ZCDP(Fraction(1, 7))])
@pytest.mark.parametrize(("k", "d"), [(2, 12), (5, 30)])
def test_choices_and_the_rest_add_up_to_the_whole(budget, k, d):
    domain = Domain.from_sizes([3] * d, n_classes=k)
    plan = planned_screening(
        domain, budget, n_records=400 * (5 if k == 2 else 1), neighboring="add_remove"
    )
    rest = screening_share(plan, budget)
    assert sum((step.budget.exact for step in plan.steps), rest.exact) == budget.exact
    assert (plan.enough is None) == (k > 2)


def test_all_records_alike_move_no_score_by_more_than_one():
    plan = replace(screening(), told=Fraction(7, 10))
    for best in range(6):
        for n in range(best, 9):
            moves = [plan.without(best + up, n + 1) - plan.without(best, n) for up in (0, 1)]
            assert min(moves) >= 0
            assert max(moves) <= 1


@pytest.mark.parametrize(
    ("sizes", "most_cells", "together"),
    [((2, 2, 2), 8, 3), ((2, 2, 2), 7, 2), ((10, 2), 9, 1), ((3, 4, 2), 12, 2), ((3,), 100, 1)],
)
def test_as_many_are_looked_at_together_as_have_records(sizes, most_cells, together):
    assert screening(most_cells=most_cells).together(sizes) == together


def test_attributes_of_one_code_are_never_chosen():
    """They are right as often as the largest class is, and would leave nothing to measure."""
    domain = Domain.from_sizes([2, 1, 1, 1], n_classes=2)
    table = np.zeros((4, 4), dtype=np.int32)
    data = EncodedRecords(domain, table, np.array([0, 0, 0, 1], dtype=np.int32))
    one = screening(epsilon=1e-6)
    few = replace(one, choices=one.choices[:1], enough=None)
    bits = Bits(np.random.default_rng(0))
    assert {screened(few, data, domain.sizes, bits)[0] for _ in range(50)} == {(0,)}
    wide = Domain.from_sizes([2, 2, 2, *[1] * 20], n_classes=2)
    budget = PureDP(0.2)
    assert planned_screening(wide, budget, n_records=300, neighboring="add_remove") is None
