"""A tree beside tables: how both share a budget, and when they are asked together."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Domain, PrivacyLedger, PrivateForestClassifier, plan
from mrf_matrix.estimators import PooledForestClassifier
from mrf_matrix.mechanisms import NEIGHBORING, ZCDP, PureDP
from mrf_matrix.planning import private_plan
from mrf_matrix.planning.private import planned_for
from mrf_matrix.planning.private.choices import GATED_FROM, GATED_RECORDS, planned_screening
from mrf_matrix.planning.private.forest_plan import (
    CLEAR_SIGNAL,
    LARGEST_SHARE,
    SMALLEST_SHARE,
    PooledPlan,
    shared,
)
from mrf_matrix.residual.settings import ASSUMED_RECORDS

FRACTIONS = st.fractions(min_value=Fraction(1, 10**9), max_value=10**9)
NUMBERS = st.one_of(st.none(), st.integers(1, 10**9))


@given(FRACTIONS, NUMBERS, st.sampled_from(NEIGHBORING), st.sampled_from([PureDP, ZCDP]))
def test_both_shares_are_the_whole_exactly(amount, n_records, neighboring, kind):
    budget = kind(amount)
    tree, tables = shared(budget, n_records, neighboring)
    assert tree + tables == budget
    assert tree.exact + tables.exact == amount
    assert SMALLEST_SHARE <= tree.exact / amount <= LARGEST_SHARE
    again = shared(tree + tables, n_records, neighboring)
    assert again == (tree, tables), "a file tells the shares by their sum"


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("kind", [PureDP, ZCDP])
def test_the_tree_has_less_where_more_is_legible(kind, neighboring):
    known = [10**i for i in range(1, 9)]
    shares = [shared(kind(1), n, neighboring)[0].exact for n in known]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-1]) == (LARGEST_SHARE, SMALLEST_SHARE)
    assert shared(kind(1), None, neighboring) == shared(kind(1), ASSUMED_RECORDS, neighboring)


def test_the_share_is_of_a_clear_signal():
    """Rates are what tells: they halve under replace-one, and are roots of a zCDP budget."""
    rho = Fraction(1, 8)  # of the same rate as an epsilon of one
    for times, share, of_rho in (
        (1, LARGEST_SHARE, LARGEST_SHARE),
        (2, 1 / 2, 1 / 4),
        (4, 1 / 4, 0),
    ):
        n = times * CLEAR_SIGNAL
        assert shared(PureDP(1), n, "add_remove")[0].exact == share
        assert shared(PureDP(1), 2 * n, "replace_one")[0].exact == share
        of_rho = max(of_rho, SMALLEST_SHARE)
        assert shared(ZCDP(rho), n, "add_remove")[0].exact == rho * Fraction(of_rho)
        assert shared(ZCDP(rho), 2 * n, "replace_one")[0].exact == rho * Fraction(of_rho)


def test_a_budget_without_end_has_no_parts():
    whole = PureDP(float("inf"))
    assert shared(whole, 1000, "add_remove") == (whole, whole)


# When and with what ------------------------------------------------------------------------------

DOMAIN = Domain.from_sizes((4,) * 12, n_classes=2)


def test_how_rare_a_class_is_is_asked_before_a_pool_too():
    """Of rare classes a tree sees little: what follows then has none."""
    for n, kind in ((20_000, "pool"), (50_000, "additive pool")):
        made = private_plan(DOMAIN, [PureDP(0.1)], n_records=n)
        assert made.measured == kind
        assert made.balance is not None
        assert planned_for(made, n).measured == kind
        rare = planned_for(made, n // 8)
        assert rare.is_rare
        assert rare.measured in ("tables", "additive")
    assert private_plan(DOMAIN, [PureDP(0.1)], n_records=9000).balance is None


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


def test_the_ledger_of_a_private_forest_pays_once_for_both_parts():
    codes = np.random.default_rng(0).integers(0, 4, size=(900, 12))
    ledger = PrivacyLedger(epsilon=1)
    model = PrivateForestClassifier(DOMAIN, n_records=900, random_state=0, ledger=ledger)
    report = model.fit(codes, codes[:, 0] // 2).privacy_report_
    assert isinstance(model.forest_plan_, PooledPlan)
    assert [charge.budget for charge in ledger.charges] == [PureDP(1)]
    assert report.budget == "PureDP(epsilon=1)"
    assert len(report.measurements) == 3


@pytest.mark.parametrize("d", [6, 8, 10, 12, 30])
def test_what_the_question_costs_takes_no_tree_away(d):
    """Signals below which residuals or pools are not considered are those of the whole budget."""
    domain = Domain.from_sizes([4] * d, n_classes=2)
    kinds = set()
    for n in (1000, 3000, 3050, 4000, 4500, 5050, 6000):
        made = private_plan(domain, [PureDP(1)], n_records=n)
        if made.measured not in ("pool", "additive pool"):
            continue
        follows = planned_for(made, n)
        kinds.add(made.measured)
        assert follows.measured == made.measured
        assert follows.rest == made.after_balance
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
    made = planned_screening(domain, budget, n_records=n, neighboring="add_remove")
    assert (0 if made is None else len(made.choices)) == kept
    assert (made is not None and made.enough is not None) == gated
    few = planned_screening(domain, budget * n, n_records=1, neighboring="add_remove")
    assert (few is None) == (made is None or gated), "of few records at larger budgets none asks"


@pytest.mark.parametrize("n_records", [10, GATED_RECORDS - 1, GATED_RECORDS, None])
def test_few_records_are_not_asked_whether_few_attributes_are_enough(n_records):
    """Their joint table would have too few cells; an unknown number is assumed to be larger."""
    assert GATED_RECORDS <= ASSUMED_RECORDS
    domain, known = Domain.from_sizes([3] * 12, n_classes=2), n_records or ASSUMED_RECORDS
    for signal in (399, 500, 1500):
        budget = PureDP(signal / known)
        made = planned_screening(domain, budget, n_records=n_records, neighboring="add_remove")
        if signal < GATED_FROM:
            assert (made is None) == (n_records is None), "without a question few are enough"
        else:
            assert (made is None) == (known < GATED_RECORDS)
            assert made is None or made.enough is not None


@pytest.mark.parametrize(("n_attributes", "gated"), [(30, True), (40, False)])
def test_many_attributes_are_few_records_each(n_attributes, gated):
    domain = Domain.from_sizes([3] * n_attributes, n_classes=2)
    made = planned_screening(domain, PureDP(0.225), n_records=2000, neighboring="add_remove")
    assert (made.enough is not None) == gated


def test_two_classes_of_unknown_number_are_not_left_to_few_attributes():
    """There may be many more than are assumed."""
    domain = Domain.from_sizes([3] * 12, n_classes=2)
    budget, relation = PureDP(0.1), "add_remove"
    assert planned_screening(domain, budget, n_records=2000, neighboring=relation) is not None
    assert planned_screening(domain, budget, n_records=None, neighboring=relation) is None


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
    assert private_plan(domain, [PureDP(1)], n_records=400).name.startswith("tree")


@pytest.mark.parametrize(
    ("n_records", "epsilon", "faint"), [(100, 0.4, True), (100, 0.6, False), (None, 1e-3, False)]
)
def test_a_plan_says_where_the_majority_class_may_be_right_more_often(n_records, epsilon, faint):
    made = private_plan(Domain.from_sizes([3] * 6, 2), [PureDP(epsilon)], n_records=n_records)
    assert made.verdict.is_faint == faint
    assert ("majority class" in made.reason) == faint
