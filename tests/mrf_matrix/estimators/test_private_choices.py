"""Private choices of a private forest: their laws by enumeration, and what follows from them."""

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations, product

import numpy as np
import pytest

from mrf_matrix import Domain, PrivateForestClassifier
from mrf_matrix.estimators.record_source import EncodedRecords
from mrf_matrix.kinds import private as kind
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.budget import claiming_budgets
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.planning import Screening, auto_plan
from mrf_matrix.planning.auto import plan_after_imbalance, records_after
from mrf_matrix.planning.auto.choices import (
    ONE_IN,
    Attribute,
    Enough,
    Rarity,
    balance_scores,
    budget_after,
    even_records,
    plan_screening,
)
from mrf_matrix.planning.auto.pooled_plan import PooledPlan
from mrf_matrix.residual.step import ResidualStep

# How rare the rarer class is ----------------------------------------------------------------------


MOST = 9
TOTALS = [(a, b) for a in range(MOST) for b in range(MOST)]
ONE_MORE = [((a, b), one) for a, b in TOTALS for one in ((a + 1, b), (a, b + 1))]
ANOTHER_CLASS = [((a, b + 1), (a + 1, b)) for a, b in TOTALS]
NEIGHBOURS = {"add_remove": ONE_MORE, "replace_one": ANOTHER_CLASS}


WHOLE = PureDP(1.5)


def step_of(neighboring="add_remove", budget=WHOLE):
    return ResidualStep("choice", "how rare", budget, neighboring)


def law_of_levels(totals, step, *, times=1):
    """Return the probability of every level, from the definition of the mechanism."""
    scores = [-(abs(a * min(totals) - sum(totals)) // a) for a in ONE_IN]
    weights = np.exp(times * float(step.choice_rate) * np.array(scores, dtype=float))
    return weights / weights.sum()


def largest_loss(law, pairs):
    """Return the largest log ratio of an outcome's probabilities, over pairs of neighbours."""
    return float(max(np.abs(np.log(law(one) / law(other))).max() for one, other in pairs))


@pytest.mark.parametrize("neighboring", NEIGHBOURS)
def test_every_neighbour_of_class_totals_is_within_the_budget(neighboring):
    lawful = partial(law_of_levels, step=step_of(neighboring))
    assert largest_loss(lawful, NEIGHBOURS[neighboring]) <= 1.5 * (1 + 1e-12)


def test_twice_the_rate_of_levels_exceeds_the_budget():
    """The negative control: the enumeration finds a rate that is too large."""
    assert largest_loss(partial(law_of_levels, step=step_of(), times=2), ONE_MORE) > 1.5


@pytest.mark.parametrize("neighboring", NEIGHBOURS)
def test_one_record_moves_a_score_by_one_at_most(neighboring):
    for one, other in NEIGHBOURS[neighboring]:
        moved = balance_scores(min(one), sum(one)) - balance_scores(min(other), sum(other))
        assert np.abs(moved).max() <= 1


def chosen_balance(step, data, bits):
    """Return the level that is chosen."""
    return Rarity().draw(Rarity().scores(data), step, bits)[0]


def with_totals(totals):
    labels = np.repeat([0, 1], totals).astype(np.int32)
    codes = np.zeros((len(labels), 2), dtype=np.int32)
    return EncodedRecords(Domain.from_sizes([2, 2], n_classes=2), codes, labels)


def test_levels_are_drawn_by_this_law():
    step, data, bits, draws = step_of(), with_totals((3, 14)), Bits(np.random.default_rng(0)), 900
    found = [chosen_balance(step, data, bits) for _ in range(draws)]
    seen = np.bincount(found, minlength=len(ONE_IN))
    expected, wrong = (draws * law_of_levels((3, 14), step, times=times) for times in (1, 2))
    assert ((seen - expected) ** 2 / expected).sum() < 26.1  # chi-square, 8 degrees, 1e-3
    assert ((seen - wrong) ** 2 / wrong).sum() > 26.1


@pytest.mark.parametrize("one_in", ONE_IN)
def test_with_little_noise_the_nearest_level_is_chosen(one_in):
    totals = (5000 // one_in, 5000 - 5000 // one_in)
    for data in (with_totals(totals), with_totals(totals[::-1])):
        level = chosen_balance(step_of(), data, Bits(np.random.default_rng(0)))
        assert ONE_IN[level] == one_in


def test_rarer_classes_tell_less():
    found = [even_records(10_000, level) for level in range(len(ONE_IN))]
    assert found[0] == 10_000
    assert np.diff(found).max() <= 0
    assert found[-1] >= 1


TWELVE = Domain.from_sizes([4] * 12, n_classes=2)


@pytest.mark.parametrize("budget", [PureDP(1), PureDP(Fraction(1, 3))])
def test_what_follows_spends_what_the_choice_leaves(budget):
    announced = auto_plan(TWELVE, [budget], n_records=20_000)
    assert announced.balance is not None
    for even in (100, 1000, 10_000):
        follows = plan_after_imbalance(announced, even)
        spent = sum((step.budget.exact for step in follows.choices), follows.rest.exact)
        assert spent == follows.budget.exact == budget.exact
        assert follows.choices[0] == announced.balance
        assert follows.n_records == 20_000


def test_a_rare_class_changes_how_much_is_measured_and_not_which_kind():
    many_codes = Domain.from_sizes([16] * 12, n_classes=2)
    announced = auto_plan(many_codes, [PureDP(4)], n_records=3500)
    follows = plan_after_imbalance(announced, 465)
    assert announced.name == follows.name == "residual forest"
    assert plan_after_imbalance(announced, 350).measured != "additive"  # a signal of 117


def test_what_is_not_screened_before_the_question_is_not_after_it():
    many, laws = Domain.from_sizes([3] * 14, n_classes=2), claiming_budgets(1, 1e-6)
    for domain, n_records, screened in ((many, 6200, True), (TWELVE, 6200, False)):
        announced = auto_plan(domain, laws[:1], n_records=n_records)
        assert announced.balance is not None
        follows = plan_after_imbalance(announced, n_records)
        assert (announced.screening is not None, follows.screening is not None) == (screened,) * 2
        assert plan_after_imbalance(announced, n_records // 10).screening is None
    assert auto_plan(many, laws, n_records=6200, delta=1e-6).screening is None


def rare_records(n=8000, share=0.05):
    generator = np.random.default_rng(3)
    codes = generator.integers(0, 4, (n, 12))
    return codes, (generator.random(n) < share * 2 * codes[:, 0] / 3).astype(int)


def test_the_names_of_the_classes_decide_nothing():
    codes, labels = rare_records()
    plans = [
        PrivateForestClassifier(
            TWELVE, n_records=len(labels), noise="research", noise_state=0, random_state=0
        )
        .fit(codes, named)
        .plan_
        for named in (labels, 1 - labels)
    ]
    assert plans[0] == plans[1]
    assert plans[0].even_records < len(labels) / 2


@pytest.mark.parametrize(
    ("sizes", "k", "n_records", "budget"),
    [
        ([4] * 12, 3, 10_000, PureDP(1)),  # several classes
        ([4] * 12, 2, None, PureDP(1)),  # no public number
        ([4] * 12, 2, 10_000, PureDP(0.04)),  # too little to tell
        ([4] * 3, 2, 10_000, PureDP(1)),  # nothing to plan
        ([4] * 12, 2, 10_000, PureDP(float("inf"))),
        ([4] * 12, 2, 10_000, ZCDP(1)),
    ],
)
def test_where_it_would_tell_nothing_it_is_not_made(sizes, k, n_records, budget):
    domain = Domain.from_sizes(sizes, n_classes=k)
    assert auto_plan(domain, [budget], n_records=n_records).balance is None


@pytest.mark.parametrize(("level", "one_in"), [*enumerate(ONE_IN)][2:])
def test_noise_leaves_as_much_of_log_odds_as_of_those_of_even_classes(level, one_in):
    rare, n = 10**6 / one_in, even_records(10**6, level)
    left = rare**-2 + (10**6 - rare) ** -2
    assert (n / 2) ** -2 * 2 == pytest.approx(left, rel=1e-3)


@pytest.mark.parametrize(("level", "one_in"), [*enumerate(ONE_IN)])
def test_a_tree_stays_beside_tables_unless_a_class_is_rarer_than_one_in_twelve(level, one_in):
    pool = auto_plan(TWELVE, [PureDP(0.2)], n_records=8000)
    residuals = auto_plan(TWELVE, [PureDP(1)], n_records=8000)
    assert pool.name == "tree beside tables"
    assert residuals.measured == "additive"
    assert records_after(residuals, level) == even_records(8000, level)
    stays = records_after(pool, level) == 8000
    assert stays == (one_in <= 12)
    follows = plan_after_imbalance(pool, records_after(pool, level))
    assert (follows.name == pool.name) == stays


@pytest.mark.parametrize(("share", "measured"), [(0.1, "pool"), (0.02, "tables")])
def test_a_forest_has_the_tree_that_its_plan_says(share, measured):
    codes, labels = rare_records(share=share)
    model = PrivateForestClassifier(
        TWELVE, epsilon=0.25, n_records=len(labels), noise="research", noise_state=0, random_state=0
    ).fit(codes, labels)
    assert model.plan_.announced.measured == "pool"
    assert model.plan_.measured == measured
    assert isinstance(model.forest_plan_, PooledPlan) == (measured == "pool")
    assert model.plan_.is_rare == (measured == "tables")
    assert model.plan_.choices == (model.plan_.announced.balance,)


@pytest.mark.parametrize("reads", [False, True])
def test_what_follows_the_choice_follows_from_it_alone(reads, monkeypatch):
    """Of any records, else budgets would not add up; the control plans by the records."""
    monkeypatch.setattr(Rarity, "draw", lambda self, scores, step, bits: (5,))
    plans = []
    for share in (0.05, 0.3):
        codes, labels = rare_records(share=share)
        if reads:
            seen = partial(max, int(labels.sum()))  # in place of the level that was chosen
            monkeypatch.setattr(kind, "records_after", lambda plan, level, f=seen: f(1))
        model = PrivateForestClassifier(
            TWELVE, n_records=len(labels), noise="research", noise_state=0, random_state=0
        ).fit(codes, labels)
        plans.append((model.plan_, repr(model.forest_plan_)))
    assert (plans[0] == plans[1]) != reads


# Which attributes are kept ------------------------------------------------------------------------


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


def largest_loss_of(pairs, plan, **changes):
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
    assert largest_loss_of(pairs, plan) <= 1.5 * (1 + 1e-12)


def test_twice_the_rate_exceeds_the_budget():
    """The negative control: the enumeration finds a rate that is too large."""
    assert largest_loss_of(ADDED, screening(), times=2) > 1.5


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
    draws = 450
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
    plan = plan_screening(
        domain, budget, n_records=400 * (5 if k == 2 else 1), neighboring="add_remove"
    )
    rest = budget_after(plan.steps, budget)
    assert sum((step.budget.exact for step in plan.steps), rest.exact) == budget.exact
    assert (plan.enough is None) == (k > 2)


def test_all_records_alike_move_no_score_by_more_than_one():
    plan = replace(screening(), told=Fraction(7, 10))
    for best in range(6):
        for n in range(best, 9):
            moves = [
                plan.score_of_all(best + up, n + 1) - plan.score_of_all(best, n) for up in (0, 1)
            ]
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
    assert plan_screening(wide, budget, n_records=300, neighboring="add_remove") is None
