"""Which kinds are considered follows from public numbers alone."""

from fractions import Fraction

import pytest

from mrf_matrix import Domain, plan
from mrf_matrix.labels.plan import MOST_ENTRIES, MOST_RECORDS
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import claiming_budgets
from mrf_matrix.planning.private import private_plan
from mrf_matrix.planning.private.screening import GATED_FROM, GATED_RECORDS, planned_screening
from mrf_matrix.planning.private.trees import (
    LABELS_AN_ATTRIBUTE,
    LABELS_OF_MANY,
    MANY,
    POOLED,
    SEVERAL_POOLED_UP_TO,
    SIGNAL_A_RECORD,
)
from mrf_matrix.residual.settings import ASSUMED_RECORDS

MONKS = (3, 3, 2, 3, 4, 2)


def kinds_of(sizes, n_records, budgets, n_classes=2):
    domain = Domain.from_sizes(sizes, n_classes=n_classes)
    made = private_plan(domain, budgets, n_records=n_records)
    names = [one.name for one in made.forecasts]
    return {
        "posterior": any(name.startswith("posterior") for name in names),
        "residual": any(name.startswith("residual") for name in names),
        "screened": any("screened" in name for name in names),
    }


def kinds(sizes, n_records, epsilon, n_classes=2):
    return kinds_of(sizes, n_records, [PureDP(epsilon)], n_classes)


@pytest.mark.parametrize(
    ("sizes", "n_records", "epsilon", "residual", "screened"),
    [
        ((10,) * 10, 10_000, 0.05, False, True),  # signal 50
        ((10,) * 10, 10_000, 0.14, False, True),  # signal 140
        ((10,) * 10, 10_000, 0.15, True, True),  # signal 150
        ((10,) * 10, 2000, 0.1, False, True),  # 200 records times epsilon
        ((10,) * 10, 2000, 0.009, False, False),  # 18 of them
        (MONKS, 346, 1.0, False, True),  # a table holds half of the attributes
        ((2,) * 12, 4800, 0.5, False, True),  # the same at a signal of 200
        ((8,) * 7, 20_000, 2.0, True, False),  # beside a wide table, at a signal beyond 500
        (MONKS, 346, 4.0, False, False),  # one table of all attributes
    ],
)
def test_kinds_wait_for_their_signal(sizes, n_records, epsilon, residual, screened):
    found = kinds(sizes, n_records, epsilon)
    assert found == {"posterior": True, "residual": residual, "screened": screened}


@pytest.mark.parametrize(
    ("sizes", "n_records", "n_classes", "epsilon", "screened"),
    [
        ((4,) * 18, 1848, 7, 0.5, False),
        ((3,) * 9, 767, 2, 0.4, True),
    ],
)
def test_where_one_law_keeps_all_attributes_each_law_of_the_claim_does(
    sizes, n_records, n_classes, epsilon, screened
):
    laws = claiming_budgets(epsilon, 1e-6)
    assert kinds_of(sizes, n_records, laws[1:], n_classes)["screened"]
    assert kinds_of(sizes, n_records, laws, n_classes)["screened"] == screened


def test_gaussian_noise_keeps_all_attributes_unless_records_are_few():
    laws = claiming_budgets(0.7, 1e-6)
    assert kinds_of((3,) * 9, 2200, laws[:1])["screened"]
    assert not kinds_of((3,) * 9, 2200, laws)["screened"]
    assert not kinds_of((3,) * 9, 22_000, laws[1:])["screened"]


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


def test_several_classes_have_residuals_under_gaussian_noise_alone():
    pure, gaussian = claiming_budgets(1, 1e-6)
    wanted = {"posterior": True, "screened": False}
    assert kinds((4,) * 12, 20_000, 1.0, 5) == {**wanted, "residual": False}
    both = kinds_of((4,) * 12, 20_000, [pure, gaussian], 5)
    assert both == {**wanted, "residual": True}
    domain = Domain.from_sizes((4,) * 12, n_classes=5)
    made = private_plan(domain, [pure, gaussian], n_records=20_000)
    assert made.chosen.name == "residual forest with Gaussian noise"
    few = kinds_of((4,) * 12, 1000, [gaussian], 5)  # a signal below 50
    assert not few["residual"]


def test_a_thousand_classes_are_no_system_of_all_terms():
    domain = Domain.from_sizes([10] * 10, n_classes=1000)
    made = plan(domain, "posterior", epsilon=4, n_records=20_000, random_state=0)
    assert made.seconds - made.select_seconds < 20
    shapes = [one.shape for one in made.array_sizes if "covariances" in one.name]
    assert shapes[0][1] == 1000, "so many are held at once, first"
    assert max(shapes[0][2:]) < 100


POOLED_FROM, BESIDE = POOLED["l1"][0], "beside tables"
TENTH, TENTH_OF_RHO = PureDP(0.1), ZCDP(Fraction(1, 800))
"""Budgets that label at a rate of a tenth."""


@pytest.mark.parametrize(
    ("n_records", "budget", "n_classes", "changes", "taken"),
    [
        (10 * POOLED_FROM, TENTH, 2, {}, True),
        (10 * POOLED_FROM + 10, TENTH, 2, {}, False),  # tables are asked beside them
        (15_000, TENTH, 3, {}, True),
        (15_010, TENTH, 3, {}, False),  # the same
        (15_000, TENTH, 10, {}, True),
        (15_010, TENTH, 10, {}, False),
        (1200, TENTH_OF_RHO, 2, {}, True),
        (1210, TENTH_OF_RHO, 2, {}, False),
        (6000, TENTH_OF_RHO, 3, {}, True),
        (6010, TENTH_OF_RHO, 3, {}, False),
        (20 * POOLED_FROM, TENTH, 2, {"neighboring": "replace_one"}, True),  # they count half
        (20 * POOLED_FROM + 20, TENTH, 2, {"neighboring": "replace_one"}, False),
        (30_000, TENTH, 3, {"neighboring": "replace_one"}, True),
        (30_010, TENTH, 3, {"neighboring": "replace_one"}, False),
        (2400, TENTH_OF_RHO, 2, {"neighboring": "replace_one"}, True),
        (2410, TENTH_OF_RHO, 2, {"neighboring": "replace_one"}, False),
        (MOST_RECORDS, PureDP(1e-5), 2, {}, True),  # weights are written out for each
        (MOST_RECORDS + 1, PureDP(1e-5), 2, {}, False),
        (MOST_ENTRIES // 256, PureDP(1e-5), 256, {}, True),  # and counts for each class
        (MOST_ENTRIES // 256 + 1, PureDP(1e-5), 256, {}, False),
        (None, TENTH, 2, {}, False),
        (800, TENTH, 2, {"tables": False}, False),
        (800, TENTH, 2, {"labels": False}, False),
        (800, PureDP(float("inf")), 2, {}, False),
    ],
)
def test_labels_alone_are_for_little_data(n_records, budget, n_classes, changes, taken):
    domain = Domain.from_sizes((4,) * 12, n_classes=n_classes)
    made = private_plan(domain, [budget], n_records=n_records, **changes)
    assert (made.chosen.measured == "labels") == taken
    assert ("taken at such a signal" in made.reason) <= (taken or BESIDE in made.reason)


def test_labels_are_of_the_law_of_the_larger_rate_and_of_one_attribute_too():
    domain = Domain.from_sizes((4,) * 12, n_classes=2)
    for delta, n_records, larger in ((1e-6, 800, 0), (0.3, 80, 1)):
        laws = claiming_budgets(0.1, delta)
        either = private_plan(domain, laws, n_records=n_records, delta=delta)
        labelled = [one.budget for one in either.forecasts if one.measured == "labels"]
        assert labelled == [laws[larger]]
        assert (either.chosen.measured, either.budget) == ("labels", laws[larger])
    more = private_plan(domain, laws, n_records=130, delta=delta)  # though not under ε alone
    assert more.chosen.measured == "tables"
    assert private_plan(domain, laws[:1], n_records=130).chosen.measured == "labels"
    one = Domain.from_sizes((4,), n_classes=2)  # though one table would hold all attributes
    most = 10 * LABELS_AN_ATTRIBUTE
    assert private_plan(one, [TENTH], n_records=most).chosen.measured == "labels"
    assert private_plan(one, [TENTH], n_records=most + 10).chosen.measured == "tables"


SEVERAL = [(3, 300), (4, 400), (5, 450), (10, 450)]


@pytest.mark.parametrize(("k", "most"), SEVERAL)
def test_of_more_classes_labels_are_taken_further(k, most):
    domain = Domain.from_sizes((4,) * (MANY - 1), n_classes=k)
    for n, kind in ((10 * most, True), (10 * most + 10, False)):
        assert (private_plan(domain, [TENTH], n_records=n).chosen.measured == "labels") == kind
    few = Domain.from_sizes((4,) * 5, n_classes=k)
    for n, kind in ((2500, True), (2510, False)):
        assert (private_plan(few, [TENTH], n_records=n).chosen.measured == "labels") == kind


@pytest.mark.parametrize("k", [3, 10])
def test_of_several_classes_and_many_attributes_trees_are_pooled_from_where_labels_end(k):
    domain = Domain.from_sizes((4,) * MANY, n_classes=k)

    def taken(signal, epsilon):
        n_records = round(signal / epsilon)
        return private_plan(domain, [PureDP(epsilon)], n_records=n_records).chosen.measured

    upto = SEVERAL_POOLED_UP_TO["l1"]
    wanted = [(LABELS_OF_MANY, "labels"), (LABELS_OF_MANY + 10, "pool"), (upto, "pool")]
    for signal, kind in wanted:
        assert taken(signal, 1) == kind
    assert taken(upto + 10, 1) not in ("pool", "labels")
    assert taken(LABELS_OF_MANY, SIGNAL_A_RECORD) == "labels"
    assert taken(LABELS_OF_MANY - 20, SIGNAL_A_RECORD * 1.01) == "pool"  # few records, much budget
    assert taken(upto, 50) == "pool"


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_under_delta_labels_of_several_classes_end_where_pools_begin(delta):
    domain = Domain.from_sizes((4,) * 12, n_classes=4)
    kinds = []
    for signal in range(300, 3200, 300):
        laws = claiming_budgets(signal / 20_000, delta)
        made = private_plan(domain, laws, n_records=20_000, delta=delta)
        assert sum(one.measured in ("labels", "pool") for one in made.forecasts) <= 1
        kinds.append(made.chosen.measured)
    changes = [one for one, before in zip(kinds, [None, *kinds], strict=False) if one != before]
    assert changes[:2] == ["labels", "pool"]
    assert len(changes) == len(set(changes))


def test_labels_are_forecast_between_chance_and_what_tables_know():
    """A forecast on the scale of the others: it grows with records, and little data suit it."""
    domain = Domain.from_sizes((4,) * 12, n_classes=2)

    def right(n_records, measured):
        found = private_plan(domain, [PureDP(0.1)], n_records=n_records).forecasts
        return next(one.accuracy for one in found if one.measured == measured)

    found = [right(n, "labels") for n in (10, 50, 200, 800, 2000)]
    assert found == sorted(found)
    assert 0.5 < found[0] < right(10, "tables") + 0.01
    assert abs(found[-2] - right(800, "tables")) < 0.05
    assert found[-1] < right(2000, "tables") < found[-1] + 0.2


@pytest.mark.parametrize("k", [2, 5])
def test_domains_of_more_cells_than_a_float_can_count_are_planned(k):
    domain = Domain.from_sizes([4] * 600, n_classes=k)
    assert domain.size > 10**308
    assert private_plan(domain, [PureDP(1)], n_records=400).chosen.accuracy > 1 / 2


def test_where_one_kind_is_considered_the_reason_does_not_say_that_no_other_could_be_fitted():
    domain = Domain.from_sizes((4, 4, 4, 3, 3, 3), n_classes=4)
    made = private_plan(domain, [PureDP(1)], n_records=1728)
    assert len(made.forecasts) == 1
    assert "no other kind is considered for this domain and budget" in made.reason
    assert plan(domain, "residual", n_records=1728).steps  # which could be


@pytest.mark.parametrize(
    ("n_records", "epsilon", "faint"), [(100, 0.4, True), (100, 0.6, False), (None, 1e-3, False)]
)
def test_a_plan_says_where_the_majority_class_may_be_right_more_often(n_records, epsilon, faint):
    made = private_plan(Domain.from_sizes([3] * 6, 2), [PureDP(epsilon)], n_records=n_records)
    assert made.is_faint == faint
    assert ("majority class" in made.reason) == faint
