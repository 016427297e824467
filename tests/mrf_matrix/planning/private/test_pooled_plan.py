"""A tree beside tables: how both share a budget, and when they are asked together."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import (
    Attribute,
    Domain,
    PooledForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
)
from mrf_matrix.labels.plan import MOST_RECORDS
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import NEIGHBORING, claiming_budgets
from mrf_matrix.planning.private import planned_for, private_plan
from mrf_matrix.planning.private.pooled_plan import (
    CLEAR_SIGNAL,
    LARGEST_SHARE,
    SMALLEST_SHARE,
    PooledPlan,
    shared,
)
from mrf_matrix.planning.private.private_plan import POOLS
from mrf_matrix.planning.private.screening import GATED_RECORDS
from mrf_matrix.planning.private.trees import (
    CLEAR_OF_GAUSS,
    FEW_RECORDS,
    POOLED,
    RESIDUALS_FROM,
    SIGNAL_A_RECORD,
    UNDER_ZCDP,
)
from mrf_matrix.residual.sequence import MOST_CODES
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


# When ----------------------------------------------------------------------------------------

DOMAIN = Domain.from_sizes((4,) * 12, n_classes=2)
(PURE_FROM, BY_LAPLACE), (FROM, BY_GAUSS) = POOLED["l1"], POOLED["l2"]
PURE_UP_TO, UP_TO = RESIDUALS_FROM["l1"], RESIDUALS_FROM["l2"]
"""Where tables give way to residuals."""
TENTH, TENTH_OF_RHO = PureDP(0.1), ZCDP(Fraction(1, 800))
"""Budgets that label at a rate of a tenth."""
OF_RHO = int(10 * UNDER_ZCDP)
"""Records a signal under the second."""
TWICE, THREE = {"neighboring": "replace_one"}, {"n_classes": 3}
INSIDE = 10 * (PURE_FROM + 100)

CASES = [
    (10 * PURE_FROM, TENTH, {}, False),  # labels alone
    (10 * PURE_FROM + 10, TENTH, {}, True),
    (10 * PURE_UP_TO, TENTH, {}, True),
    (10 * PURE_UP_TO + 10, TENTH, {}, False),
    (20 * PURE_FROM, TENTH, TWICE, False),  # records count half
    (20 * PURE_FROM + 20, TENTH, TWICE, True),
    (20 * PURE_UP_TO, TENTH, TWICE, True),
    (20 * PURE_UP_TO + 20, TENTH, TWICE, False),
    (OF_RHO * FROM, TENTH_OF_RHO, {}, False),
    (OF_RHO * FROM + 10, TENTH_OF_RHO, {}, True),
    (OF_RHO * UP_TO, TENTH_OF_RHO, {}, True),
    (OF_RHO * UP_TO + 10, TENTH_OF_RHO, {}, False),
    (FEW_RECORDS - 1, PureDP(SIGNAL_A_RECORD), {}, True),
    (FEW_RECORDS - 1, PureDP(SIGNAL_A_RECORD * Fraction(1001, 1000)), {}, False),
    (FEW_RECORDS, PureDP(SIGNAL_A_RECORD * Fraction(1001, 1000)), {}, True),
    (FEW_RECORDS, PureDP(Fraction(PURE_UP_TO, FEW_RECORDS)), {}, True),
    (FEW_RECORDS - 1, PureDP(2 * SIGNAL_A_RECORD), TWICE, True),
    (FEW_RECORDS - 1, PureDP(SIGNAL_A_RECORD * Fraction(2001, 1000)), TWICE, False),
    (FEW_RECORDS - 1, ZCDP((SIGNAL_A_RECORD * Fraction(2, 5)) ** 2 / 8), {}, True),
    (FEW_RECORDS - 1, ZCDP((SIGNAL_A_RECORD * Fraction(2001, 5000)) ** 2 / 8), {}, False),
    (FEW_RECORDS, ZCDP((CLEAR_OF_GAUSS * Fraction(2, 5)) ** 2 / 8), {}, True),
    (FEW_RECORDS, ZCDP((CLEAR_OF_GAUSS * Fraction(2001, 5000)) ** 2 / 8), {}, False),
    (INSIDE, TENTH, THREE, False),
    (10 * PURE_FROM + 10, TENTH, THREE, False),
    (None, TENTH, {}, False),
    (None, PureDP(1), {}, False),
    (INSIDE, TENTH, {"tables": False}, False),
    (INSIDE, TENTH, {"labels": False}, False),
    (INSIDE, TENTH, {"records": False}, True),
    (10 * PURE_UP_TO + 10, TENTH, {"records": False}, False),  # residuals need records
    (10 * BY_LAPLACE, TENTH, {"records": False}, True),  # nor is a last question asked
    (10 * BY_LAPLACE + 10, TENTH, {"records": False}, False),
    (INSIDE, PureDP(float("inf")), {}, False),
    (MOST_RECORDS, PureDP(Fraction(1000, MOST_RECORDS)), {}, True),  # weights are written out
    (MOST_RECORDS + 1, PureDP(Fraction(1000, MOST_RECORDS)), {}, False),
]


@pytest.mark.parametrize(("n_records", "budget", "changes", "taken"), CASES)
def test_trees_are_asked_beside_tables_between_two_signals(n_records, budget, changes, taken):
    domain, changes = DOMAIN, dict(changes)
    if "n_classes" in changes:
        domain = Domain.from_sizes(domain.sizes, n_classes=changes.pop("n_classes"))
    made = private_plan(domain, [budget], n_records=n_records, **changes)
    pools = [one for one in made.forecasts if one.measured == "pool"]
    assert (made.chosen.measured == "pool") == taken == bool(pools)
    assert made.reason.count("cells beside tables") == taken
    if taken:
        assert made.chosen.screening is None
        assert made.budget == made.rest == budget
        assert "runner-up" in made.reason
        assert 0.5 < made.chosen.accuracy < 1


BESIDE_RESIDUALS = [
    (10 * PURE_UP_TO, TENTH, {}, False),  # tables are beside it
    (10 * PURE_UP_TO + 10, TENTH, {}, True),
    (10 * BY_LAPLACE, TENTH, {}, True),
    (10 * BY_LAPLACE + 10, TENTH, {}, False),
    (20 * BY_LAPLACE, TENTH, TWICE, True),
    (20 * PURE_UP_TO, TENTH, TWICE, False),
    (10 * BY_LAPLACE, TENTH, {"records": False}, False),
    (10 * BY_LAPLACE, TENTH, {"tables": False}, False),
    (10 * BY_LAPLACE, TENTH, {"labels": False}, False),
    (10 * BY_LAPLACE, TENTH, THREE, False),
    (FEW_RECORDS, PureDP(Fraction(BY_LAPLACE, FEW_RECORDS)), {}, True),
    (FEW_RECORDS - 1, PureDP(Fraction(BY_LAPLACE, FEW_RECORDS)), {}, False),
    (OF_RHO * UP_TO, TENTH_OF_RHO, {}, False),
    (OF_RHO * UP_TO + 10, TENTH_OF_RHO, {}, True),
    (OF_RHO * BY_GAUSS, TENTH_OF_RHO, {}, True),
    (OF_RHO * BY_GAUSS + 10, TENTH_OF_RHO, {}, False),
]


@pytest.mark.parametrize(("n_records", "budget", "changes", "taken"), BESIDE_RESIDUALS)
def test_trees_are_asked_beside_residuals_above(n_records, budget, changes, taken):
    domain, changes = DOMAIN, dict(changes)
    if "n_classes" in changes:
        domain = Domain.from_sizes(domain.sizes, n_classes=changes.pop("n_classes"))
    made = private_plan(domain, [budget], n_records=n_records, **changes)
    pools = [one for one in made.forecasts if one.measured == "residual pool"]
    assert (made.chosen.measured == "residual pool") == taken == bool(pools)
    assert ("cells beside residuals" in made.reason) == taken
    if taken:
        assert (made.balance is None) == isinstance(budget, ZCDP), "asked first under pure DP"
        assert made.budget == made.rest == budget
        assert 0.5 < made.chosen.accuracy < 1


def test_tables_stay_beside_a_tree_where_the_domain_does_not_suit_residuals():
    names = Attribute("x0", categories=[f"{i:03}" for i in range(MOST_CODES + 1)])
    wide = Domain([names, *DOMAIN.attributes[1:]], DOMAIN.target)
    for signal, kinds in (
        (PURE_UP_TO, {"pool"}),
        (PURE_UP_TO + 1, {"pool", "residual pool"}),
        (BY_LAPLACE, {"pool", "residual pool"}),
    ):
        budget = PureDP(Fraction(signal, 1000))
        plans = [private_plan(one, [budget], n_records=1000) for one in (wide, DOMAIN)]
        assert {plan.chosen.measured for plan in plans} == kinds
        assert plans[0].chosen.measured == "pool"
    assert not of_pools(wide, PureDP(Fraction(BY_LAPLACE + 1, 1000)), 1000)


def of_pools(domain, budget, n_records):
    """Return the pools that are considered."""
    made = private_plan(domain, [budget], n_records=n_records)
    return [one.measured for one in made.forecasts if one.measured in POOLS]


@pytest.mark.parametrize(("n_attributes", "asked"), [(200, True), (300, False)])
def test_tables_end_where_screening_asks_a_last_question(n_attributes, asked):
    """Of 2000 records, from a signal of 12 an attribute on; never under Gaussian noise."""
    domain = Domain.from_sizes((4,) * n_attributes, n_classes=2)
    for n_records, asks in ((GATED_RECORDS - 1, False), (GATED_RECORDS, asked)):
        budget = PureDP(Fraction(PURE_UP_TO + 1, GATED_RECORDS - 1))
        assert of_pools(domain, budget, n_records) == ["pool"] * (not asks)
    rho = ZCDP(Fraction(1, 2 * 10**4))  # a rate of .02 and a signal of .05 a record
    assert of_pools(domain, rho, 20 * (UP_TO + 100)) == ["pool"]


@pytest.mark.parametrize("k", [2, 3])
def test_under_gaussian_noise_pools_end_at_three_units_of_signal_a_record(k):
    domain = Domain.from_sizes((4,) * 12, n_classes=k)
    rate = CLEAR_OF_GAUSS * Fraction(UNDER_ZCDP).limit_denominator(10)
    for more, found in ((Fraction(1), 1), (Fraction(1001, 1000), 0)):
        assert len(of_pools(domain, ZCDP((rate * more) ** 2 / 8), 2 * FEW_RECORDS // k)) == found


def test_where_one_law_of_a_claim_measures_one_table_it_is_taken():
    domain, laws = Domain.from_sizes((10, 10), n_classes=2), claiming_budgets(0.5, 1e-6)
    pure = private_plan(domain, laws[:1], n_records=4000)
    assert pure.chosen.measured == "tables"
    found = private_plan(domain, laws, n_records=4000, delta=1e-6)
    assert not {one.measured for one in found.forecasts} & set(POOLS)
    gauss = [one for one in laws if one.norm == "l2"]
    assert of_pools(domain, gauss[0], 4000), "alone it would have a tree beside tables"


def test_how_rare_a_class_is_is_asked_before_a_pool_too():
    """Of rare classes a tree sees little: what follows then has none."""
    for n, kind in ((20_000, "pool"), (50_000, "residual pool")):
        made = private_plan(DOMAIN, [TENTH], n_records=n)
        assert made.chosen.measured == kind
        assert made.balance is not None
        assert planned_for(made, n).chosen.measured == kind
        rare = planned_for(made, n // 8)
        assert rare.is_rare
        assert rare.chosen.measured in ("tables", "residuals")
    assert private_plan(DOMAIN, [TENTH], n_records=9000).balance is None


def test_one_table_of_all_attributes_is_no_pool():
    """It says all that a tree does."""
    small = Domain.from_sizes((3, 3), n_classes=2)
    for n in (500, 1000, 2000):
        made = private_plan(small, [PureDP(1)], n_records=n)
        assert made.chosen.measured == "tables"
        assert not any(one.measured == "pool" for one in made.forecasts)
    assert private_plan(DOMAIN, [PureDP(1)], n_records=1000).chosen.measured == "pool"


def test_under_delta_a_pool_is_of_the_gaussian_law():
    """Its tables gain more by it than its tree loses."""
    pure, gaussian = laws = claiming_budgets(1, 1e-6)
    made = private_plan(DOMAIN, laws, n_records=1000, delta=1e-6)
    assert [one.budget for one in made.forecasts if one.measured == "pool"] == [gaussian]
    assert (made.chosen.measured, made.budget) == ("pool", gaussian)
    model = PrivateForestClassifier(DOMAIN, epsilon=1, delta=1e-6, n_records=1000, random_state=0)
    assert model.plan() == made
    n = int(UP_TO * UNDER_ZCDP / np.sqrt(8 * float(gaussian.exact))) + 10
    assert PURE_FROM < n < PURE_UP_TO, "the case is one that would be pooled without delta"
    assert private_plan(DOMAIN, [pure], n_records=n).chosen.measured == "pool"
    assert private_plan(DOMAIN, laws, n_records=n).chosen.measured != "pool"


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
        if made.chosen.measured not in ("pool", "residual pool"):
            continue
        follows = planned_for(made, n)
        kinds.add(made.chosen.measured)
        assert follows.chosen.measured == made.chosen.measured
        assert follows.rest == made.after_balance
        assert "left the tree" in follows.reason
    assert kinds == {"pool", "residual pool"}
