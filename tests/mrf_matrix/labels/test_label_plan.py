"""The plan of a tree of labels: the rate, how deep it is among which cuts, what is refused."""

import json
from fractions import Fraction

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.forests.random_trees import number_of_cuts
from mrf_matrix.labels.plan import (
    BELOW,
    DEEP,
    DEEPEST,
    FLAT,
    GROWN_FROM,
    GROWN_FROM_OF_TWO,
    MORE_CUTS,
    MOST_CLASSES,
    MOST_COUNTS,
    MOST_CUTS,
    SHARE_OF_COUNTS,
    SHARE_OF_FIRST,
    counted_from,
    label_plan,
    label_signal,
    most_cuts,
    why_no_labels,
)
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, DiscreteGaussian, DiscreteLaplace, PureDP
from mrf_matrix.planning.plans.verdict import verdict_of
from mrf_matrix.residual.settings import ASSUMED_RECORDS

DOMAIN = Domain.from_sizes([4, 3, 5, 2, 6], n_classes=2)
BUDGETS = [PureDP(Fraction(1, 7)), PureDP(0.3), PureDP(2), ZCDP(Fraction(1, 130)), ZCDP(0.7)]


MANY_CUTS = [20] * 5
"""Codes of attributes with more cuts than a tree of sixteen cells has to choose from."""


def planned(budget, n_records=300, domain=DOMAIN, seed=0, **options):
    return label_plan(domain, budget, np.random.default_rng(seed), n_records=n_records, **options)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("n_records", [None, 1, 20, 300, 10**6])
@pytest.mark.parametrize("budget", BUDGETS)
def test_steps_spend_the_whole_exactly(budget, n_records, neighboring):
    plan = planned(budget, n_records, neighboring=neighboring)
    if label_signal(budget, n_records, neighboring) < counted_from(plan.n_classes):
        assert plan.counts is None
        assert plan.steps == (plan.labels,)
        assert plan.labels.budget == budget
    else:
        assert plan.steps == (*[one.step for one in plan.rounds], plan.counts)
        assert plan.counts.budget.exact == budget.exact * SHARE_OF_COUNTS
        assert plan.counts.kind == "totals"
        assert plan.counts.n_columns == plan.n_classes
        assert f"class counts of {plan.n_cells} cells" in plan.counts.measured
    assert sum(step.budget.exact for step in plan.steps) == budget.exact
    assert {step.neighboring for step in plan.steps} == {neighboring}
    assert plan.spent == budget


@pytest.mark.parametrize("k", [2, 3, 9])
@pytest.mark.parametrize(("neighboring", "times"), [("add_remove", 10), ("replace_one", 20)])
def test_counts_are_released_from_a_signal_a_class_on(neighboring, times, k):
    budget, records = PureDP(Fraction(1, 10)), times * counted_from(k)
    domain = Domain.from_sizes(MANY_CUTS, n_classes=k)
    below, above = (
        planned(budget, n, domain, neighboring=neighboring) for n in (records - 1, records)
    )
    assert label_signal(budget, records, neighboring) == counted_from(k)
    assert (below.counts, len(above.steps)) == (None, 2)
    assert above.labels.choice_rate == below.labels.choice_rate * (1 - SHARE_OF_COUNTS)
    assert above.cell_signal == pytest.approx(counted_from(k) / 8 * float(1 - SHARE_OF_COUNTS))
    assert (below.depth, below.cuts) == (above.depth, above.cuts)


@pytest.mark.parametrize(("n_records", "share"), [(100, 1), (2000, 1 - SHARE_OF_COUNTS)])
@pytest.mark.parametrize(
    ("neighboring", "times"), [("add_remove", 1), ("replace_one", Fraction(1, 2))]
)
def test_rates_are_those_of_monotone_scores(neighboring, times, n_records, share):
    plan = planned(PureDP(Fraction(1, 10)), n_records, neighboring=neighboring)
    assert plan.labels.choice_rate == Fraction(1, 10) * times * share
    of_rho = planned(ZCDP(Fraction(1, 50)), n_records, neighboring=neighboring)
    epsilon = of_rho.labels.choice_rate / times
    assert epsilon**2 / 8 <= Fraction(1, 50) * share  # rounded down, never up
    assert epsilon**2 / 8 == pytest.approx(float(share) / 50, rel=1e-9)


@pytest.mark.parametrize(("neighboring", "moved"), [("add_remove", 1), ("replace_one", 2)])
def test_noise_of_counts_is_that_of_one_record_in_one_cell_and_class(neighboring, moved):
    laplace = planned(PureDP(2 / SHARE_OF_COUNTS), neighboring=neighboring).counts
    assert laplace.law == DiscreteLaplace(Fraction(moved, 2))
    gaussian = planned(ZCDP(1 / (2 * SHARE_OF_COUNTS)), neighboring=neighboring).counts
    assert isinstance(gaussian.law, DiscreteGaussian)
    square = gaussian.law.scale**2  # two cells or classes move by one each: joint norm sqrt(2)
    assert moved <= square < moved * (1 + Fraction(1, 2**50))


def test_signals_rise_with_budget_and_records():
    for changes in (
        [label_signal(PureDP(0.01 * i), 300, "add_remove") for i in range(1, 60)],
        [label_signal(ZCDP(0.0001 * i), 300, "add_remove") for i in range(1, 60)],
        [label_signal(PureDP(0.1), 20 * i, "replace_one") for i in range(1, 200)],
    ):
        assert changes == sorted(changes)
        assert changes[0] < changes[-1]
    assert label_signal(PureDP(0.1), None, "add_remove") == 0.1 * ASSUMED_RECORDS


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("k", [2, 4, 5, 7])
@pytest.mark.parametrize("n_records", [1, 299, 301, 599, 601, 1199, 1201, 10**5])
def test_trees_are_deep_from_a_signal_on(n_records, k, neighboring):
    budget, domain = PureDP(Fraction(1, 10)), Domain.from_sizes(MANY_CUTS, n_classes=k)
    plan = planned(budget, n_records, domain, neighboring=neighboring)
    signal = label_signal(budget, n_records, neighboring)
    assert signal == pytest.approx(n_records / (20 if neighboring == "replace_one" else 10))
    first = DEEP if signal >= (60 if k < 5 else 30) else FLAT
    grown = signal >= (GROWN_FROM_OF_TWO if k == 2 else GROWN_FROM)
    assert [one.depth for one in plan.rounds] == [first, BELOW][: 1 + grown]
    assert plan.depth == first + grown * BELOW
    assert plan.n_cells == 2**plan.depth
    assert plan.cell_records == n_records / plan.n_cells
    assert f"a tree of {1 << first} cells" in plan.rounds[0].step.measured


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("more", [0, 1])
def test_trees_are_deepest_of_several_classes_where_cuts_are_few(k, more):
    most = int(MORE_CUTS * most_cuts(DEEPEST, k)) + more
    domain = Domain.from_sizes([2] * most, n_classes=k)
    assert number_of_cuts(domain) == most
    small, found, large = (planned(PureDP(0.1), n, domain) for n in (599, 600, 4000))
    assert found.depth == (DEEPEST if k > 2 and not more else DEEP)
    assert len(found.cuts) == min(most, most_cuts(found.depth, k))
    assert small.depth < DEEPEST
    assert large.depth == (DEEP if k == 2 else DEEP + BELOW)


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("budget", [PureDP(Fraction(7, 5)), ZCDP(Fraction(1, 3))], ids=str)
@pytest.mark.parametrize("k", [2, 3])
def test_two_rounds_share_what_counts_leave(k, budget, neighboring):
    domain = Domain.from_sizes([4, 3, 5], n_classes=k)
    one, two = (planned(budget, n, domain, neighboring=neighboring) for n in (200, 10**5))
    assert one.depth == (DEEP if k == 2 else DEEPEST)
    assert (len(one.rounds), len(two.rounds)) == (1, 2)
    drawn = budget.exact * (1 - SHARE_OF_COUNTS)
    first, second = (one.step.budget.exact for one in two.rounds)
    assert first == drawn * SHARE_OF_FIRST
    assert first + second == drawn == one.labels.budget.exact
    assert two.labels == two.rounds[1].step
    assert "below each" in two.labels.measured


@pytest.mark.parametrize("depth", [FLAT, DEEP])
@pytest.mark.parametrize("k", [2, 3, 10, 100, MOST_CLASSES])
def test_cuts_are_as_many_as_their_counts_allow(depth, k):
    found = most_cuts(depth, k)
    assert 1 <= found <= MOST_CUTS
    assert found**depth * k <= MOST_COUNTS
    assert found == MOST_CUTS or (found + 1) ** depth * k > MOST_COUNTS
    plan = planned(PureDP(1), 10**4, Domain.from_sizes([20] * 30, n_classes=k))
    depths = [one.depth for one in plan.rounds]
    assert len(plan.cuts) == max(most_cuts(one, k) for one in depths)
    assert plan.attributes == tuple(sorted({cut.attribute for cut in plan.cuts}))


def test_an_unknown_number_of_records_is_the_assumed_one():
    for budget in BUDGETS:
        unknown, assumed = planned(budget, None), planned(budget, ASSUMED_RECORDS)
        assert unknown.steps == assumed.steps
        assert unknown.cell_signal == assumed.cell_signal
        assert unknown.n_records is None


def test_cuts_are_drawn_from_the_public_domain_and_the_seed_alone():
    domain = Domain.from_sizes([20] * 30, n_classes=2)
    one, other = (
        planned(PureDP(0.2), 300, domain),
        planned(ZCDP(0.2), 900, domain, neighboring="replace_one"),
    )
    assert one.depth == other.depth
    assert planned(PureDP(0.2), 10**5, domain).cuts == one.cuts
    assert one.cuts == other.cuts
    assert one.cuts != planned(PureDP(0.2), 300, domain, seed=1).cuts


@pytest.mark.parametrize("kind", [PureDP, ZCDP])
def test_an_infinite_budget_stays_infinite(kind):
    plan = planned(kind(float("inf")))
    assert plan.spent.is_infinite
    assert plan.labels.choice_rate == float("inf")
    assert all(step.budget.is_infinite for step in plan.steps)
    assert plan.counts.law.variance == 0
    assert plan.depth == DEEP + BELOW
    assert plan.cell_signal == float("inf")


def test_the_signal_of_a_cell_is_what_its_records_move_a_label_by():
    plan = planned(PureDP(Fraction(1, 10)), 400)
    assert plan.cell_records == 100
    assert plan.cell_signal == pytest.approx(100 * float(plan.labels.choice_rate))
    assert plan.n_classes == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"domain": Domain.from_sizes([3, 3], n_classes=MOST_CLASSES + 1)},
            "domain names 1001 classes: expected 1 to 1000",
        ),
        (
            {"domain": Domain.from_sizes([1, 1, 1], n_classes=2)},
            "domain has no attribute that can be cut",
        ),
        (
            {"domain": Domain.from_sizes([1, 10**9, 10**9], n_classes=2)},
            "domain has no attribute that can be cut",
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
    assert read["kind"] == "labels"
    assert read["records"] == n_records
    assert read["budget"] == read["claim"] == repr(budget)
    assert (read["attributes"], read["classes"]) == (5, 2)
    assert (read["cuts"], read["cells"]) == (len(plan.cuts), plan.n_cells)
    assert [one["measured"] for one in read["steps"]] == [one.measured for one in plan.steps]
    rates = [float(one.step.choice_rate) for one in plan.rounds]
    assert [one.get("rate") for one in read["steps"]] == [*rates, None][: len(plan.steps)]


@pytest.mark.parametrize(("n_records", "counts"), [(100, []), (2000, [2**0.5])])
def test_its_figures_tell_the_sensitivity_and_the_claim(n_records, counts):
    found = planned(ZCDP(0.02), n_records, neighboring="replace_one", delta=1e-6).to_dict()
    assert [step["sensitivity"] for step in found["steps"]] == pytest.approx([2, *counts])
    assert found["claim"].startswith("(epsilon=")
    assert found["neighboring"] == "replace_one"


@pytest.mark.parametrize(
    ("n_records", "epsilon", "advice"),
    [
        (100, 0.01, "do not deploy"),
        (400, 0.1, "do not deploy"),  # records times epsilon are 40
        (400, 0.2, "noise is the smaller part"),
    ],
)
def test_the_verdict_weighs_the_choice_of_labels_however_deep_the_tree(n_records, epsilon, advice):
    plan = planned(PureDP(epsilon), n_records)
    found = verdict_of(plan)
    sizes = plan.domain.sizes
    assert found.noise == pytest.approx(np.pi / 6**0.5 / float(plan.labels.choice_rate))
    assert found.records == n_records / np.median(sizes)
    assert (found.advice, found.unit, found.ok) == (advice, "count", advice != "do not deploy")


def test_the_verdict_without_a_number_of_records_says_what_is_missing():
    plan = planned(PureDP(0.1), None)
    assert "public number of records" in str(verdict_of(plan))
    assert verdict_of(plan, n_records=40).records == 40 / np.median(plan.domain.sizes)
    assert not verdict_of(planned(PureDP(float("inf")))).is_hopeless


def test_a_budget_that_moves_no_label_has_a_verdict():
    for budget in (ZCDP(Fraction(1, 10**26)), PureDP(Fraction(1, 10**400))):
        assert verdict_of(planned(budget, 50)).is_hopeless


def test_what_suits_labels_has_no_reason_against_it():
    assert why_no_labels(DOMAIN) is None
    assert why_no_labels(Domain.from_sizes([3, 1], n_classes=2)) is None  # one attribute is enough
