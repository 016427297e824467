"""The table of rules, screening and pools: public numbers alone say which row holds."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Attribute, Domain, PrivateForestClassifier, plan
from mrf_matrix.estimators import PooledForestClassifier
from mrf_matrix.labels.plan import MOST_ENTRIES, MOST_RECORDS
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP
from mrf_matrix.mechanisms.budget import claiming_budgets
from mrf_matrix.planning import RULES, auto_plan
from mrf_matrix.planning.auto import plan_after_imbalance
from mrf_matrix.planning.auto.choices import GATED_FROM, GATED_RECORDS, plan_screening
from mrf_matrix.planning.auto.pooled_plan import (
    CLEAR_SIGNAL,
    LARGEST_SHARE,
    SMALLEST_SHARE,
    PooledPlan,
    split_budget,
)
from mrf_matrix.planning.auto.rules import UNDER_ZCDP, row_for
from mrf_matrix.residual.sequence import MOST_CODES
from mrf_matrix.residual.step import ASSUMED_RECORDS

TENTH, TENTH_OF_RHO = PureDP(0.1), ZCDP(Fraction(1, 800))
"""Budgets that label at a rate of a tenth: n records have a signal of n / 10, and of n / 4."""

TWICE, NO_RECORDS, NO_TABLES = (
    {"neighboring": "replace_one"}, {"records": False}, {"records": False, "tables": False},
)  # fmt: skip


def wide(d, k=2, size=4):
    return Domain.from_sizes((size,) * d, n_classes=k)


def rho(signal_a_record):
    """Return the zCDP budget of such a signal a record."""
    return ZCDP((signal_a_record * Fraction(UNDER_ZCDP).limit_denominator(10)) ** 2 / 8)


NAMES = Domain(
    [Attribute("x0", categories=[f"{i:03}" for i in range(MOST_CODES + 1)]),
     *wide(12).attributes[1:]], wide(12).target,
)  # fmt: skip
"""A domain that residuals do not suit."""

CASES = [  # domain, records, budget, changes, row from 1
    (wide(12), 2000, TENTH, {}, 1),
    (wide(12), 2010, TENTH, {}, 5),
    (wide(12), 4000, TENTH, TWICE, 1),
    (wide(12), 4020, TENTH, TWICE, 5),
    (wide(12), 1200, TENTH_OF_RHO, {}, 1),
    (wide(12), 1210, TENTH_OF_RHO, {}, 5),
    (wide(12), MOST_RECORDS, PureDP(1e-5), {}, 1),  # weights are written out for each
    (wide(12), MOST_RECORDS + 1, PureDP(1e-5), {}, 12),
    (wide(12, 256), MOST_ENTRIES // 256, PureDP(1e-5), {}, 3),  # and counts for each class
    (wide(12, 256), MOST_ENTRIES // 256 + 1, PureDP(1e-5), {}, 12),
    (wide(1), 500, TENTH, {}, 1),  # 50 an attribute
    (wide(1), 510, TENTH, {}, 4),
    (wide(9, 3), 3000, TENTH, {}, 2),
    (wide(9, 3), 3010, TENTH, {}, 12),
    (wide(9, 4), 4000, TENTH, {}, 2),
    (wide(9, 4), 4010, TENTH, {}, 12),
    (wide(9, 5), 4500, TENTH, {}, 2),  # 50 an attribute
    (wide(9, 5), 4510, TENTH, {}, 12),
    (wide(12, 3), 15_000, TENTH, {}, 3),
    (wide(12, 3), 15_010, TENTH, {}, 8),
    (wide(12, 10), 15_000, TENTH, {}, 3),
    (wide(12, 10), 15_010, TENTH, {}, 8),
    (wide(12, 3), 6000, TENTH_OF_RHO, {}, 3),
    (wide(12, 3), 6010, TENTH_OF_RHO, {}, 8),
    (wide(12, 3), 700, PureDP(2), {}, 3),  # 2 a record
    (wide(12, 3), 700, PureDP(Fraction(2001, 1000)), {}, 8),
    (wide(12, 3), 60_000, TENTH, {}, 8),
    (wide(12, 3), 60_010, TENTH, {}, 12),
    (wide(12, 3), 300, rho(3), {}, 8),
    (wide(12, 3), 300, rho(Fraction(3001, 1000)), {}, 12),
    (wide(3), 5000, PureDP(4), {}, 4),
    (wide(2, size=3), 1000, PureDP(1), {}, 4),  # one table says all that a tree does
    (Domain.from_sizes((3, 3, 2, 3, 4, 2), 2), 346, PureDP(4), {}, 4),
    (wide(12), 30_000, TENTH, {}, 5),
    (wide(12), 30_010, TENTH, {}, 6),
    (wide(12), 6000, TENTH_OF_RHO, {}, 5),
    (wide(12), 6010, TENTH_OF_RHO, {}, 6),
    (wide(12), 499, PureDP(2), {}, 5),  # 2 a record of fewer than 500
    (wide(12), 499, PureDP(Fraction(2001, 1000)), {}, 12),
    (wide(12), 500, PureDP(Fraction(2001, 1000)), {}, 5),
    (wide(12), 499, PureDP(4), TWICE, 5),
    (wide(12), 499, PureDP(Fraction(4001, 1000)), TWICE, 10),
    (wide(12), 1000, rho(3), NO_RECORDS, 7),
    (wide(12), 1000, rho(Fraction(3001, 1000)), {}, 10),
    (wide(12), 60_000, TENTH, {}, 6),
    (wide(12), 60_010, TENTH, {}, 10),
    (wide(12), 20_000, TENTH_OF_RHO, {}, 6),
    (wide(12), 20_010, TENTH_OF_RHO, {}, 10),
    (wide(12), 60_000, TENTH, NO_RECORDS, 7),
    (wide(12), 60_010, TENTH, NO_RECORDS, 12),
    (NAMES, 1000, PureDP(6), {}, 7),
    (wide(200), GATED_RECORDS, PureDP(Fraction(3001, 1999)), NO_RECORDS, 9),
    (wide(300), GATED_RECORDS, PureDP(Fraction(3001, 1999)), NO_RECORDS, 7),  # 12 an attribute
    (wide(30), 20_000, PureDP(1), NO_RECORDS, 9),
    (wide(30), 20_000, PureDP(1), {}, 9),
    (wide(20, 6), 140_000, PureDP(0.004), {}, 11),  # too many for labels
    (wide(12), None, PureDP(0.5), {}, 9),
    (wide(12, 5), 20_000, ZCDP(1), {}, 10),
    (wide(12), 100_000, PureDP(1), {}, 10),
    (wide(12), 100_000, PureDP(1), NO_RECORDS, 12),
    (wide(12), 2010, TENTH, NO_TABLES, 12),
    (wide(12), None, TENTH, {}, 12),
    (wide(12), 800, PureDP(float("inf")), {}, 10),
]  # fmt: skip


@pytest.mark.parametrize(("domain", "n_records", "budget", "changes", "row"), CASES)
def test_a_row_holds_up_to_its_signal(domain, n_records, budget, changes, row):
    made = auto_plan(domain, [budget], n_records=n_records, **changes)
    assert made.row + 1 == row
    assert (made.screening is not None) == RULES[made.row].screened
    goes_on = made.screening is not None and made.screening.enough is not None
    assert made.measured == RULES[made.row].measured or (goes_on and made.measured == "additive")
    assert made.budget == budget
    if not budget.is_infinite:
        assert made.rest.exact + sum(one.budget.exact for one in made.choices) == budget.exact


def test_every_row_holds_somewhere():
    assert {row for *_, row in CASES} == set(range(1, len(RULES) + 1))


@pytest.mark.parametrize(("d", "k"), [(12, 2), (30, 3), (12, 5)])
@pytest.mark.parametrize("claim", [{}, {"delta": 1e-6}, {"rho": True}])
def test_no_kind_comes_back_as_the_budget_grows(d, k, claim):
    """Of many attributes: of few, wide tables come between residuals."""
    kinds = []
    for step in range(14):
        epsilon = Fraction(1, 100) * Fraction(3, 2) ** step
        budget = {"rho": epsilon**2 / 30} if "rho" in claim else {"epsilon": epsilon, **claim}
        made = auto_plan(wide(d, k), claiming_budgets(**budget), n_records=20_000)
        kinds.append(made.measured)
    changes = [kinds[0], *(later for one, later in pairwise(kinds) if one != later)]
    assert changes[0] == "labels"
    assert len(changes) == len(set(changes))


@pytest.mark.parametrize(
    ("domain", "n_records", "budget"),
    [(wide(12), 3000, PureDP(1)), (wide(12), 40_000, TENTH), (wide(12, 5), 10_000, TENTH),
     (wide(12), 3000, ZCDP(0.02)), (wide(30), 20_000, PureDP(1))],
)  # fmt: skip
def test_a_plan_says_where_other_kinds_begin(domain, n_records, budget):
    """It was planned there: a hair inside it is the same kind, a hair outside the other."""
    made = auto_plan(domain, [budget], n_records=n_records)
    near = [one for one in (made.below, made.above) if one is not None]
    assert near
    for signal, name in near:
        assert f"{signal:,.0f}: {name}" in made.reason
        times = Fraction(signal / made.facts.signal)
        outward = Fraction(1001 if times > 1 else 999, 1000)
        for hair, found in ((outward, name), (1 / outward, made.name)):
            power = 1 if budget.parameter == "epsilon" else 2
            there = auto_plan(domain, [budget * (times * hair) ** power], n_records=n_records)
            assert there.name == found


def test_rows_are_read_from_the_top():
    facts = auto_plan(wide(12), [PureDP(1)], n_records=3000).facts
    rows = [row for row, rule in enumerate(RULES) if rule.holds(facts)]
    assert row_for(facts) == rows[0] < rows[-1] == len(RULES) - 1
    assert not any(rule.holds(replace(facts, trees=False)) for rule in RULES[:3])


# Two laws of one claim ---------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "norm"), [(5, "l1"), (9, "l1"), (12, "l2"), (30, "l2")])
@pytest.mark.parametrize("n_records", [1000, 4000, 50_000])
def test_under_delta_tables_have_the_noise_that_is_smaller_of_one_for_each_attribute(
    d, norm, n_records
):
    laws = claiming_budgets(1, 1e-6)
    made = auto_plan(wide(d), laws, n_records=n_records, delta=1e-6)
    assert made.budget.norm == norm
    alone = auto_plan(wide(d), [made.budget], n_records=n_records)
    assert (made.row, made.balance) == (alone.row, alone.balance)
    assert {"l1": "Laplace", "l2": "Gaussian"}[norm] in made.name


def test_labels_and_screening_are_of_the_law_of_the_larger_rate():
    for delta, n_records, larger in ((1e-6, 800, 0), (0.3, 80, 1)):
        laws = claiming_budgets(0.1, delta)
        made = auto_plan(wide(12), laws, n_records=n_records, delta=delta)
        assert (made.measured, made.budget) == ("labels", laws[larger])
    laws = claiming_budgets(0.004, 1e-6)
    few = auto_plan(wide(20, 6), laws, n_records=140_000, delta=1e-6)
    assert few.screening is not None
    assert few.budget == laws[0]


def test_one_table_has_laplace_noise():
    """Of one table it is the smaller, though there are many attributes."""
    domain = wide(13, size=2)
    made = auto_plan(domain, claiming_budgets(1, 1e-6), n_records=10**7, delta=1e-6)
    assert "one table would hold all" in made.rule.where
    assert made.budget.norm == "l1"
    assert auto_plan(domain, claiming_budgets(1, 1e-6), n_records=2000).budget.norm == "l2"


def test_gaussian_noise_at_hand_asks_no_last_question():
    laws = claiming_budgets(1, 1e-6)
    assert auto_plan(wide(30), laws[:1], n_records=20_000).screening is not None
    for budgets in (laws, laws[1:]):
        assert auto_plan(wide(30), budgets, n_records=20_000).screening is None


# In words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("domain", "n_records", "budget", "changes", "row"), CASES[::6])
def test_a_plan_names_its_row_and_no_accuracy(domain, n_records, budget, changes, row):
    made = auto_plan(domain, [budget], n_records=n_records, **changes)
    rule = RULES[row - 1]
    assert f"This is row {row} of the table of rules (`RULES` of mrf_matrix.planning" in str(made)
    assert f"docs/private/choices.md): {rule.condition}. The kind's lead on public" in str(made)
    assert f"percentage points of right labels: {rule.worth}." in str(made)
    assert "accuracy" not in str(made)
    facts = made.facts
    assert f"{facts.domain.n_classes} classes, {facts.domain.n_attributes} attributes" in str(made)
    noise = "Laplace" if facts.budget.norm == "l1" else "Gaussian"
    assert f"{noise} noise of tables" in str(made)
    if n_records is not None and not budget.is_infinite:
        assert f"{n_records:,} records (signal {facts.signal_formula} = " in str(made)
    record = made.to_dict()
    assert (record["row"], record["rule"]) == (row, rule.to_dict())
    if made.balance is not None:
        even = n_records // 20
        told = plan_after_imbalance(made, even).reason
        assert f"{even:,} records of even classes (signal " in told or budget.is_infinite
        assert f"as for {even} records of even classes" in told


def test_the_page_has_the_table():
    """Printed here to be copied where it differs."""
    columns = ("classes", "attributes", "signal", "where", "worth")
    rows = ["| | kind | classes | attributes | signal | where | worth |", "|---" * 7 + "|"]
    for number, rule in enumerate(RULES, start=1):
        words = [str(getattr(rule, name)) for name in columns]
        rows.append(f"| {number} | {' | '.join([rule.name, *words])} |")
    page = Path(__file__).parents[4] / "docs" / "private" / "choices.md"
    assert "\n".join(rows) in page.read_text()


def test_the_classifier_plans_by_it():
    model = PrivateForestClassifier(wide(12), epsilon=1, n_records=3000)
    assert model.plan() == auto_plan(wide(12), [PureDP(1)], n_records=3000)


# A tree beside tables -----------------------------------------------------------------------------


FRACTIONS = st.fractions(min_value=Fraction(1, 10**9), max_value=10**9)
NUMBERS = st.one_of(st.none(), st.integers(1, 10**9))


@given(FRACTIONS, NUMBERS, st.sampled_from(NEIGHBORING), st.sampled_from([PureDP, ZCDP]))
def test_both_shares_are_the_whole_exactly(amount, n_records, neighboring, kind):
    budget = kind(amount)
    tree, tables = split_budget(budget, n_records, neighboring)
    assert tree + tables == budget
    assert tree.exact + tables.exact == amount
    assert SMALLEST_SHARE <= tree.exact / amount <= LARGEST_SHARE
    again = split_budget(tree + tables, n_records, neighboring)
    assert again == (tree, tables), "a file tells the shares by their sum"


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("kind", [PureDP, ZCDP])
def test_the_tree_has_less_where_more_is_legible(kind, neighboring):
    known = [10**i for i in range(1, 9)]
    shares = [split_budget(kind(1), n, neighboring)[0].exact for n in known]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == (LARGEST_SHARE, SMALLEST_SHARE)
    assert split_budget(kind(1), None, neighboring) == split_budget(
        kind(1), ASSUMED_RECORDS, neighboring
    )


def test_the_share_is_of_a_clear_signal():
    """Rates are what tells: they halve under replace-one, and are roots of a zCDP budget."""
    rho = Fraction(1, 8)  # of the same rate as an epsilon of one
    for times, share, of_rho in (
        (1, LARGEST_SHARE, LARGEST_SHARE),
        (2, 1 / 2, 1 / 4),
        (4, 1 / 4, 0),
    ):
        n = times * CLEAR_SIGNAL
        assert split_budget(PureDP(1), n, "add_remove")[0].exact == share
        assert split_budget(PureDP(1), 2 * n, "replace_one")[0].exact == share
        of_rho = max(of_rho, SMALLEST_SHARE)
        assert split_budget(ZCDP(rho), n, "add_remove")[0].exact == rho * Fraction(of_rho)
        assert split_budget(ZCDP(rho), 2 * n, "replace_one")[0].exact == rho * Fraction(of_rho)


def test_a_budget_without_end_has_no_parts():
    whole = PureDP(float("inf"))
    assert split_budget(whole, 1000, "add_remove") == (whole, whole)


# When and with what ------------------------------------------------------------------------------

DOMAIN = Domain.from_sizes((4,) * 12, n_classes=2)


def test_how_rare_a_class_is_is_asked_before_a_pool_too():
    """Of rare classes a tree sees little: what follows then has none."""
    for n, kind in ((20_000, "pool"), (50_000, "additive pool")):
        made = auto_plan(DOMAIN, [PureDP(0.1)], n_records=n)
        assert made.measured == kind
        assert made.balance is not None
        assert plan_after_imbalance(made, n).measured == kind
        rare = plan_after_imbalance(made, n // 8)
        assert rare.is_rare
        assert rare.measured in ("tables", "additive")
    assert auto_plan(DOMAIN, [PureDP(0.1)], n_records=9000).balance is None


@pytest.mark.parametrize(
    "budget", [{}, {"rho": 0.02}, {"epsilon": 1, "delta": 1e-6}, {"neighboring": "replace_one"}]
)
def test_a_private_forest_is_the_pooled_one_that_it_plans(budget):
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 4, size=(900, 12))
    labels = (codes[:, 0] + codes[:, 1] + generator.integers(0, 3, size=900) > 3).astype(int)
    given = {"n_records": 900, "random_state": 0, "noise": "research", "noise_state": 0}
    model = PrivateForestClassifier(DOMAIN, **given, **budget).fit(codes, labels)
    assert isinstance(model.forest_plan_, PooledPlan)
    same = PooledForestClassifier(DOMAIN, **given, **budget).fit(codes, labels)
    np.testing.assert_array_equal(model.predict_proba(codes), same.predict_proba(codes))
    np.testing.assert_array_equal(model.vote_intervals(codes), same.vote_intervals(codes))
    assert model.privacy_report_.measurements == same.privacy_report_.measurements
    assert model.privacy_report_.statement == same.privacy_report_.statement
    assert model.plan_.budget == same.plan_.budget == model.forest_plan_.budget
    assert model.plan_ == PrivateForestClassifier(DOMAIN, **given, **budget).plan()
    assert model.plan_.reason == model.privacy_report_.notes[0]


@pytest.mark.parametrize("d", [6, 8, 10, 12, 30])
def test_what_the_question_costs_takes_no_tree_away(d):
    """Signals below which residuals or pools are not considered are those of the whole budget."""
    domain = Domain.from_sizes([4] * d, n_classes=2)
    kinds = set()
    for n in (1000, 3000, 3050, 4000, 4500, 5050, 6000):
        made = auto_plan(domain, [PureDP(1)], n_records=n)
        if made.measured not in ("pool", "additive pool"):
            continue
        follows = plan_after_imbalance(made, n)
        kinds.add(made.measured)
        assert follows.measured == made.measured
        assert follows.rest == made.budget_after_balance
        assert "left the tree" in follows.reason
    assert kinds == {"pool", "additive pool"}


# Screening ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signal", "n_classes", "kept", "gated"),
    [
        (19, 2, 0, False),
        (30, 2, 1, False),
        (150, 2, 2, False),
        (200, 2, 3, False),
        (500, 2, 3, True),
        (30, 7, 0, False),  # five records times epsilon a class
        (60, 7, 1, False),
        (200, 7, 3, False),
    ],
)
def test_little_signal_chooses_few_attributes_and_asks_no_more(signal, n_classes, kept, gated):
    domain = Domain.from_sizes([3] * 12, n_classes=n_classes)
    budget, n = PureDP(signal / GATED_RECORDS), GATED_RECORDS
    made = plan_screening(domain, budget, n_records=n, neighboring="add_remove")
    assert (0 if made is None else len(made.choices)) == kept
    assert (made is not None and made.enough is not None) == gated
    few = plan_screening(domain, budget * n, n_records=1, neighboring="add_remove")
    assert (few is None) == (made is None or gated), "of few records at larger budgets none asks"


@pytest.mark.parametrize("n_records", [10, GATED_RECORDS - 1, GATED_RECORDS, None])
def test_few_records_are_not_asked_whether_few_attributes_are_enough(n_records):
    """Their joint table would have too few cells; an unknown number is assumed to be larger."""
    assert GATED_RECORDS <= ASSUMED_RECORDS
    domain, known = Domain.from_sizes([3] * 12, n_classes=2), n_records or ASSUMED_RECORDS
    for signal in (399, 500, 1500):
        budget = PureDP(signal / known)
        made = plan_screening(domain, budget, n_records=n_records, neighboring="add_remove")
        if signal < GATED_FROM:
            assert (made is None) == (n_records is None), "without a question few are enough"
        else:
            assert (made is None) == (known < GATED_RECORDS)
            assert made is None or made.enough is not None


@pytest.mark.parametrize(("n_attributes", "gated"), [(30, True), (40, False)])
def test_many_attributes_are_few_records_each(n_attributes, gated):
    domain = Domain.from_sizes([3] * n_attributes, n_classes=2)
    made = plan_screening(domain, PureDP(0.225), n_records=2000, neighboring="add_remove")
    assert (made.enough is not None) == gated


def test_two_classes_of_unknown_number_are_not_left_to_few_attributes():
    """There may be many more than are assumed."""
    domain = Domain.from_sizes([3] * 12, n_classes=2)
    budget, relation = PureDP(0.1), "add_remove"
    assert plan_screening(domain, budget, n_records=2000, neighboring=relation) is not None
    assert plan_screening(domain, budget, n_records=None, neighboring=relation) is None


def test_a_thousand_classes_are_no_system_of_all_terms():
    domain = Domain.from_sizes([10] * 10, n_classes=1000)
    made = plan(domain, "tables", epsilon=4, n_records=20_000, random_state=0)
    assert made.seconds - made.select_seconds < 20
    shapes = [one.shape for one in made.array_sizes if "covariances" in one.name]
    assert shapes[0][1] == 1000, "so many are held at once, first"
    assert max(shapes[0][2:]) < 100


@pytest.mark.parametrize("k", [2, 5])
def test_domains_of_more_cells_than_a_float_can_count_are_planned(k):
    domain = Domain.from_sizes([4] * 600, n_classes=k)
    assert domain.size > 10**308
    assert auto_plan(domain, [PureDP(1)], n_records=400).name.startswith("tree")


@pytest.mark.parametrize(
    ("n_records", "epsilon", "faint"), [(100, 0.4, True), (100, 0.6, False), (None, 1e-3, False)]
)
def test_a_plan_says_where_the_majority_class_may_be_right_more_often(n_records, epsilon, faint):
    made = auto_plan(Domain.from_sizes([3] * 6, 2), [PureDP(epsilon)], n_records=n_records)
    assert made.verdict.is_faint == faint
    assert ("majority class" in made.reason) == faint
