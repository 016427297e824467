"""How attributes are screened, and what a plan says, follows from public numbers alone."""

import pytest

from mrf_matrix import Domain, plan
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning import private_plan
from mrf_matrix.planning.private.choices import GATED_FROM, GATED_RECORDS, planned_screening
from mrf_matrix.residual.settings import ASSUMED_RECORDS


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
