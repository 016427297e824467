"""The plan of a tree of labels: exact budgets, when a pair is chosen, and what is refused."""

import json
from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.labels.plan import (
    FOR_ALL,
    LARGEST_CHOICE,
    LEAST_FOR_MORE,
    LEAST_SHARE,
    MOST_CLASSES,
    N_CANDIDATES,
    halves_choice_share,
    label_plan,
    label_signal,
    n_attributes_cut,
    why_no_labels,
)
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import NEIGHBORING
from mrf_matrix.planning.plans.verdict import verdict_of
from mrf_matrix.residual.settings import ASSUMED_RECORDS

DOMAIN = Domain.from_sizes([4, 3, 5, 2, 6], n_classes=2)
BUDGETS = [PureDP(Fraction(1, 7)), PureDP(0.3), PureDP(2), ZCDP(Fraction(1, 130)), ZCDP(0.7)]


def planned(budget, n_records=300, domain=DOMAIN, seed=0, **options):
    return label_plan(domain, budget, np.random.default_rng(seed), n_records=n_records, **options)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("n_records", [None, 1, 20, 300, 10**6])
@pytest.mark.parametrize("budget", BUDGETS)
def test_both_steps_add_up_to_the_whole_exactly(budget, n_records, neighboring):
    plan = planned(budget, n_records, neighboring=neighboring)
    assert plan.spent == budget
    assert sum(step.budget.exact for step in plan.steps) == budget.exact
    assert {step.neighboring for step in plan.steps} == {neighboring}


@pytest.mark.parametrize(
    ("neighboring", "times"), [("add_remove", 1), ("replace_one", Fraction(1, 2))]
)
def test_rates_are_those_of_monotone_scores(neighboring, times):
    plan = planned(PureDP(Fraction(1, 10)), neighboring=neighboring)
    for step in plan.steps:
        assert step.choice_rate == step.budget.exact * times
    of_rho = planned(ZCDP(Fraction(1, 50)), 10_000, neighboring=neighboring)
    assert of_rho.choice is not None
    for step in of_rho.steps:
        epsilon = step.choice_rate / times
        assert epsilon**2 / 8 <= step.budget.exact  # rounded down, never up
        assert epsilon**2 / 8 == pytest.approx(float(step.budget.exact), rel=1e-9)


@pytest.mark.parametrize(("budget", "flips"), [(PureDP(0.5), True), (ZCDP(0.5), False)])
def test_permute_and_flip_labels_under_pure_privacy_alone(budget, flips):
    plan = planned(budget)
    assert plan.labels.flips == flips
    assert not plan.choice.flips


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("n_records", [1, 40, 100, 300, 1000, 10**5, 10**15])
def test_the_share_is_in_proportion_to_the_signal_of_a_class(n_records, k, neighboring):
    budget = PureDP(Fraction(1, 10))
    signal = label_signal(budget, n_records, neighboring)
    assert signal == pytest.approx(n_records / (20 if neighboring == "replace_one" else 10))
    share, wanted = halves_choice_share(signal, k), Fraction(signal) / (FOR_ALL * k)
    if wanted > LARGEST_CHOICE:
        assert share == LARGEST_CHOICE
    elif wanted < LEAST_SHARE - Fraction(1, 10**6):
        assert share == 0
    else:
        assert abs(share - wanted) <= Fraction(1, 2 * 10**6)


def test_the_least_share_is_taken_and_one_below_is_not():
    assert halves_choice_share(2 * FOR_ALL * float(LEAST_SHARE), 2) == LEAST_SHARE
    assert halves_choice_share(1.99 * FOR_ALL * float(LEAST_SHARE), 2) == 0
    assert halves_choice_share(FOR_ALL, 2) == halves_choice_share(2 * FOR_ALL, 2) == LARGEST_CHOICE
    assert halves_choice_share(0.998 * FOR_ALL, 2) == Fraction(499, 1000)


def test_signals_rise_with_budget_and_records():
    for changes in (
        [label_signal(PureDP(0.01 * i), 300, "add_remove") for i in range(1, 60)],
        [label_signal(ZCDP(0.0001 * i), 300, "add_remove") for i in range(1, 60)],
        [label_signal(PureDP(0.1), 20 * i, "replace_one") for i in range(1, 200)],
    ):
        assert changes == sorted(changes)
        assert changes[0] < changes[-1]
    assert label_signal(PureDP(0.1), None, "add_remove") == 0.1 * ASSUMED_RECORDS


@pytest.mark.parametrize(
    ("signal", "k", "n_cut"),
    [(29, 9, 2), (30, 2, 2), (30, 4, 2), (30, 5, 3), (30, 8, 3), (30, 9, 4), (1e9, 1000, 4)],
)
def test_each_class_may_be_named_where_signal_allows(signal, k, n_cut):
    assert n_attributes_cut(signal, k) == n_cut
    if n_cut < 4:
        assert 2**n_cut >= k or signal < LEAST_FOR_MORE


@pytest.mark.parametrize(("k", "n_cells"), [(2, 4), (6, 8), (12, 16)])
def test_more_classes_get_more_cells(k, n_cells):
    domain = Domain.from_sizes([4, 3, 5, 2, 6], n_classes=k)
    plan = planned(PureDP(Fraction(1, 5)), 400, domain)
    assert plan.n_cells == n_cells
    assert {one.n_cells for one in plan.candidates} == {n_cells}
    assert plan.cell_records == 400 / n_cells
    assert f"labels of {n_cells} cells" in plan.labels.measured
    few = planned(PureDP(Fraction(1, 5)), 400, Domain.from_sizes([4, 3], n_classes=k))
    assert few.n_cells == 4
    assert few.choice is None  # both attributes are cut


def test_an_unknown_number_of_records_is_the_assumed_one():
    for budget in BUDGETS:
        unknown, assumed = planned(budget, None), planned(budget, ASSUMED_RECORDS)
        assert unknown.steps == assumed.steps
        assert unknown.cell_signal == assumed.cell_signal
        assert unknown.n_records is None


def test_with_little_signal_there_is_one_candidate_and_no_choice():
    plan = planned(PureDP(0.01), 100)
    assert plan.choice is None
    assert plan.steps == (plan.labels,)
    assert len(plan.candidates) == 1
    assert plan.labels.budget == PureDP(0.01)


def test_two_attributes_leave_nothing_to_choose():
    plan = planned(PureDP(1), 10**6, Domain.from_sizes([4, 1, 5], n_classes=2))
    assert plan.choice is None
    assert [one.attributes for one in plan.candidates] == [(0, 2)]
    assert plan.labels.budget == plan.spent == PureDP(1)


def test_candidates_are_drawn_from_the_public_domain_and_the_seed_alone():
    one, other = planned(PureDP(0.2), 300), planned(ZCDP(0.2), 10**5, neighboring="replace_one")
    assert one.candidates == other.candidates
    assert 1 < len(one.candidates) <= N_CANDIDATES
    assert one.candidates != planned(PureDP(0.2), seed=1).candidates


@pytest.mark.parametrize("kind", [PureDP, ZCDP])
def test_an_infinite_budget_is_never_halved(kind):
    plan = planned(kind(float("inf")))
    assert plan.spent.is_infinite
    assert all(step.budget.is_infinite for step in plan.steps)
    assert all(step.choice_rate == float("inf") for step in plan.steps)
    assert plan.choice is not None  # so that the best pair is found
    assert plan.cell_signal == float("inf")


def test_the_signal_of_a_cell_is_what_its_records_move_a_label_by():
    plan = planned(PureDP(Fraction(1, 10)), 400)
    assert plan.cell_records == 100
    assert plan.cell_signal == pytest.approx(100 * float(plan.labels.choice_rate))
    assert plan.n_classes == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"domain": Domain.from_sizes([3, 3], n_classes=1)}, "domain names 1 classes"),
        (
            {"domain": Domain.from_sizes([3, 3], n_classes=MOST_CLASSES + 1)},
            "domain names 1001 classes: expected 2 to 1000",
        ),
        (
            {"domain": Domain.from_sizes([3, 1, 1], n_classes=2)},
            "domain has n_features=1",
        ),
        (
            {"domain": Domain.from_sizes([3, 10**9, 10**9], n_classes=2)},
            "domain has n_features=1",
        ),
        ({"neighboring": "both"}, "neighboring='both'"),
        ({"budget": PureDP(10**9)}, r"PureDP\(epsilon=1000000000\) is too large"),
        ({"budget": ZCDP(10**18)}, r"ZCDP\(rho=.*is too large for exact choices.*inf"),
    ],
)
def test_refusals_name_what_is_wrong(options, message):
    given = {"budget": PureDP(1), "n_records": 100} | options
    with pytest.raises(ValueError, match=message):
        planned(**given)


def test_a_domain_without_classes_is_refused():
    with pytest.raises(ValueError, match="target"):
        planned(PureDP(1), domain=Domain.from_sizes([3, 3]))


@pytest.mark.parametrize("n_records", [None, 500])
@pytest.mark.parametrize("budget", [*BUDGETS, PureDP(float("inf"))])
def test_its_figures_are_ready_for_json(budget, n_records):
    plan = planned(budget, n_records)
    found = plan.to_dict()
    read = json.loads(json.dumps(found))
    assert read["mode"] == "labels"
    assert read["records"] == n_records
    assert read["budget"] == read["claim"] == repr(budget)
    assert (read["attributes"], read["cells"], read["classes"]) == (5, 4, 2)
    assert len(read["steps"]) == len(plan.steps)


def test_its_figures_tell_the_sensitivity_and_the_claim():
    found = planned(ZCDP(0.02), 10_000, neighboring="replace_one", delta=1e-6).to_dict()
    assert [step["sensitivity"] for step in found["steps"]] == [2, 2]
    assert found["claim"].startswith("(epsilon=")
    assert found["neighboring"] == "replace_one"


@pytest.mark.parametrize(
    ("n_records", "epsilon", "advice"),
    [
        (100, 0.01, "do not deploy"),  # 25 records a cell, a label ahead by 100 by chance
        (100, 0.04, "noise decides many labels"),
        (400, 0.1, "noise is the smaller part"),
    ],
)
def test_the_verdict_weighs_a_quarter_of_the_records_against_one_over_the_rate(
    n_records, epsilon, advice
):
    plan = planned(PureDP(epsilon), n_records)
    found = verdict_of(plan)
    assert found.noise == pytest.approx(1 / float(plan.labels.choice_rate))
    assert found.records == n_records / 4
    assert found.advice == advice
    assert found.unit == "cell"


def test_the_verdict_without_a_number_of_records_says_what_is_missing():
    plan = planned(PureDP(0.1), None)
    assert "public number of records" in str(verdict_of(plan))
    assert verdict_of(plan, n_records=40).records == 10
    assert not verdict_of(planned(PureDP(float("inf")))).is_hopeless


def test_a_budget_that_moves_no_label_has_a_verdict():
    for budget in (ZCDP(Fraction(1, 10**26)), PureDP(Fraction(1, 10**400))):
        assert verdict_of(planned(budget, 50)).is_hopeless


def test_what_suits_labels_has_no_reason_against_it():
    assert why_no_labels(DOMAIN) is None
