"""The table of rules: public numbers alone say which row holds, and every row does somewhere."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from mrf_matrix import Attribute, Domain, PrivateForestClassifier
from mrf_matrix.labels.plan import MOST_ENTRIES, MOST_RECORDS
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.claim import claiming_budgets
from mrf_matrix.planning import RULES, private_plan
from mrf_matrix.planning.private import planned_for
from mrf_matrix.planning.private.choices import GATED_RECORDS
from mrf_matrix.planning.private.rules import UNDER_ZCDP, row_for
from mrf_matrix.residual.sequence import MOST_CODES

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
    made = private_plan(domain, [budget], n_records=n_records, **changes)
    assert made.row + 1 == row
    assert (made.screening is not None) == RULES[made.row].screened
    goes_on = made.screening is not None and made.screening.enough is not None
    assert made.measured == RULES[made.row].measured or (goes_on and made.measured == "additive")
    assert made.budget == budget
    if not budget.is_infinite:
        assert made.rest.exact + sum(one.budget.exact for one in made.choices) == budget.exact


def test_every_row_holds_somewhere():
    assert {row for *_, row in CASES} == set(range(1, len(RULES) + 1))


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("d", [12, 30])
@pytest.mark.parametrize("claim", [{}, {"delta": 1e-6}, {"rho": True}])
def test_no_kind_comes_back_as_the_budget_grows(d, k, claim):
    """Of many attributes: of few, wide tables come between residuals."""
    kinds = []
    for step in range(14):
        epsilon = Fraction(1, 100) * Fraction(3, 2) ** step
        budget = {"rho": epsilon**2 / 30} if "rho" in claim else {"epsilon": epsilon, **claim}
        made = private_plan(wide(d, k), claiming_budgets(**budget), n_records=20_000)
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
    made = private_plan(domain, [budget], n_records=n_records)
    near = [one for one in (made.below, made.above) if one is not None]
    assert near
    for signal, name in near:
        assert f"{signal:,.0f}: {name}" in made.reason
        times = Fraction(signal / made.facts.signal)
        outward = Fraction(1001 if times > 1 else 999, 1000)
        for hair, found in ((outward, name), (1 / outward, made.name)):
            power = 1 if budget.parameter == "epsilon" else 2
            there = private_plan(domain, [budget * (times * hair) ** power], n_records=n_records)
            assert there.name == found


def test_rows_are_read_from_the_top():
    facts = private_plan(wide(12), [PureDP(1)], n_records=3000).facts
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
    made = private_plan(wide(d), laws, n_records=n_records, delta=1e-6)
    assert made.budget.norm == norm
    alone = private_plan(wide(d), [made.budget], n_records=n_records)
    assert (made.row, made.balance) == (alone.row, alone.balance)
    assert {"l1": "Laplace", "l2": "Gaussian"}[norm] in made.name


def test_labels_and_screening_are_of_the_law_of_the_larger_rate():
    for delta, n_records, larger in ((1e-6, 800, 0), (0.3, 80, 1)):
        laws = claiming_budgets(0.1, delta)
        made = private_plan(wide(12), laws, n_records=n_records, delta=delta)
        assert (made.measured, made.budget) == ("labels", laws[larger])
    laws = claiming_budgets(0.004, 1e-6)
    few = private_plan(wide(20, 6), laws, n_records=140_000, delta=1e-6)
    assert few.screening is not None
    assert few.budget == laws[0]


def test_one_table_has_laplace_noise():
    """Of one table it is the smaller, though there are many attributes."""
    domain = wide(13, size=2)
    made = private_plan(domain, claiming_budgets(1, 1e-6), n_records=10**7, delta=1e-6)
    assert "one table would hold all" in made.rule.where
    assert made.budget.norm == "l1"
    assert private_plan(domain, claiming_budgets(1, 1e-6), n_records=2000).budget.norm == "l2"


def test_gaussian_noise_at_hand_asks_no_last_question():
    laws = claiming_budgets(1, 1e-6)
    assert private_plan(wide(30), laws[:1], n_records=20_000).screening is not None
    for budgets in (laws, laws[1:]):
        assert private_plan(wide(30), budgets, n_records=20_000).screening is None


def test_several_classes_have_residuals_under_gaussian_noise_alone():
    pure, gaussian = claiming_budgets(1, 1e-6)
    for budget, kind in ((pure, "tables"), (gaussian, "additive")):
        assert private_plan(wide(12, 5), [budget], n_records=20_000).measured == kind


# In words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("domain", "n_records", "budget", "changes", "row"), CASES[::6])
def test_a_plan_names_its_row_and_no_accuracy(domain, n_records, budget, changes, row):
    made = private_plan(domain, [budget], n_records=n_records, **changes)
    rule = RULES[row - 1]
    assert f"row {row} of the rules ({rule.condition}). Its lead on public" in str(made)
    assert f"in points: {rule.worth}." in str(made)
    assert "accuracy" not in str(made)
    record = made.to_dict()
    assert (record["row"], record["rule"]) == (row, rule.to_dict())
    if made.balance is not None:
        assert "of even classes" in planned_for(made, n_records // 20).reason


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
    assert model.plan() == private_plan(wide(12), [PureDP(1)], n_records=3000)
