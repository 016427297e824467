"""The choice of blocks: its variances are the mechanism's, and it looks at no record."""

import inspect
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Domain, plan
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.claim import claiming_budgets
from mrf_matrix.planning.plans.block_design import (
    FEW_CELLS,
    MOST_CELLS,
    TELLING_NOISE,
    TELLING_RECORDS,
    TOTALS_SHARE,
    BlockChoice,
    choose_blocks,
    row_weights,
    variances,
)
from mrf_matrix.planning.plans.block_part import block_part, blocks_budget

CAR = [4, 4, 4, 3, 3, 3]


def chosen(sizes, budget, n_records=1000, seed=0, n_classes=2, **settings):
    return choose_blocks(
        sizes, n_classes, budget, n_records, np.random.default_rng(seed), **settings
    )


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(Fraction(1, 10)), PureDP(1), ZCDP(0.05), ZCDP(0.5)])
@pytest.mark.parametrize("n_blocks", [1, 3, 6, "auto"])
def test_variances_are_those_of_the_calibrated_mechanism(neighboring, budget, n_blocks):
    plan = block_part(
        Domain.from_sizes(CAR, n_classes=4),
        budget,
        np.random.default_rng(0),
        BlockChoice(n_blocks),
        n_classes=4,
        n_records=2000,
        neighboring=neighboring,
    )
    mechanism = plan.mechanism
    leaf, total = (weight * float(mechanism.rounded.scale) for weight in plan.weights)
    # Discrete Laplace noise has a variance below the continuous one by at most 1/6 of its unit.
    rounding = 0.01 * plan.design.noise_variance + 0.2 / leaf**2
    assert mechanism.law.variance / leaf**2 == pytest.approx(
        plan.design.noise_variance, abs=rounding
    )
    doubled = 4 if isinstance(budget, PureDP) else 2  # no entry of a path matrix is negative
    factor = doubled if neighboring == "replace_one" else 1
    t = len(plan.design.blocks)
    of_leaf, of_total = (factor * v for v in variances(budget, t))
    assert plan.design.noise_variance == pytest.approx(of_leaf)
    assert mechanism.law.variance / total**2 == pytest.approx(of_total, rel=0.03)


def test_weights_give_the_class_totals_their_share():
    for t in (1, 2, 7, 100):
        leaf, total = row_weights(PureDP(1), t)
        assert total / (total + t * leaf) == pytest.approx(TOTALS_SHARE, rel=0.1)
        leaf, total = row_weights(ZCDP(1), t)
        assert total**2 / (total**2 + t * leaf**2) == pytest.approx(TOTALS_SHARE, rel=0.05)


def test_an_infinite_budget_has_no_noise():
    assert variances(PureDP(float("inf")), 3) == (0, 0)
    assert chosen(CAR, PureDP(float("inf"))).noise_variance == 0


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    k=st.integers(1, 6),
    n_records=st.sampled_from([0, 1, 50, 1000, 10**6]),
    rho=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_more_budget_is_never_worth_less(sizes, k, n_records, rho, seed):
    if max(sizes) == 1:
        sizes = [*sizes, 2]
    values = []
    for amount in (1e-3, 0.1, 1, 10, 1e6):
        design = chosen(
            sizes, ZCDP(amount) if rho else PureDP(amount), n_records, seed, n_classes=k
        )
        values.append(design.value)
        seen = [i for block in design.blocks for i in block]
        assert len(seen) == len(set(seen))
        assert all(sizes[i] > 1 for i in seen)
        cells = max(prod(sizes[i] for i in block) for block in design.blocks)
        whole = len(design.blocks) == 1 and len(seen) == sum(n > 1 for n in sizes)
        told = (n_records or 0) / (k * cells * TELLING_RECORDS) if whole else 0
        telling = design.noise_variance < max(TELLING_NOISE, told) ** 2
        assert cells <= (MOST_CELLS if telling else FEW_CELLS)
    assert 0.5 <= min(values) <= max(values) <= 1
    assert (np.diff(values) > -0.002).all()  # designs closer than 1e-4 count as equal


def test_more_budget_is_spent_on_more():
    used = [
        sum(map(len, chosen([4] * 40, PureDP(epsilon), 5000).blocks)) for epsilon in (0.02, 0.5, 5)
    ]
    assert used[0] < used[1] <= used[2] == 40


@pytest.mark.parametrize(("epsilon", "whole"), [(0.5, False), (1, True), (2, True)])
def test_one_table_of_all_attributes_is_taken_where_its_cells_tell(epsilon, whole):
    blocks = chosen([2] * 12, PureDP(epsilon), 4800).blocks
    assert (sorted(blocks[0]) == list(range(12))) == whole


@pytest.mark.parametrize(("sizes", "n_records"), [([2] * 24, 50_000), ([2] * 14, 5000)])
def test_several_tables_and_tables_of_some_attributes_stay_small(sizes, n_records):
    """However many records there are: where noise is not small, only one table of all is large."""
    design = chosen(sizes, PureDP(1), n_records)
    assert design.noise_variance > TELLING_NOISE**2
    assert max(prod(sizes[i] for i in block) for block in design.blocks) <= FEW_CELLS


def test_no_record_can_reach_it():
    parameters = set(inspect.signature(choose_blocks).parameters)
    assert parameters == {
        "sizes",
        "n_classes",
        "budget",
        "n_records",
        "random_state",
        "squared_factor",
        "n_blocks",
    }
    assert chosen(CAR, PureDP(1)) == chosen(CAR, PureDP(1)), "a function of its arguments"


def test_a_given_number_of_blocks_uses_every_attribute():
    for count in (1, 2, 6):
        blocks = chosen(CAR, PureDP(1), n_blocks=count).blocks
        assert len(blocks) == count
        assert sorted(i for block in blocks for i in block) == list(range(6))


def test_what_has_no_design_is_refused():
    with pytest.raises(ValueError, match="single code"):
        chosen([1, 1], PureDP(1))
    with pytest.raises(ValueError, match="n_blocks=1: blocks would have more than 2048 cells"):
        chosen([4] * 10, PureDP(0.1), n_blocks=1)
    with pytest.raises(ValueError, match="n_blocks=3: expected at most 2"):
        chosen([4, 1, 3], PureDP(1), n_blocks=3)
    with pytest.raises(ValueError, match="n_blocks=0"):
        chosen(CAR, PureDP(1), n_blocks=0)
    with pytest.raises(ValueError, match="has 9000 codes: effects of so many would not fit"):
        chosen([9000], PureDP(0.1))
    assert len(chosen([1000], PureDP(0.1)).blocks) == 1, "one attribute is never split"


# The law of a plan of blocks ---------------------------------------------------------------------


CLAIM = (1, 1e-6, None)


@pytest.mark.parametrize("n_attributes", [2, 5, 9, 10, 11, 12, 30])
def test_naive_bayes_takes_the_smaller_noise(n_attributes):
    domain = Domain.from_sizes([3] * n_attributes, n_classes=2)
    pure, gaussian = claiming_budgets(*CLAIM)
    found = blocks_budget(CLAIM, domain, None, None, "add_remove")
    trees = n_attributes + 1  # and that of the class totals, all of equal weight
    laplace = 2 * trees**2 <= trees / (2 * float(gaussian.exact))
    assert found == (pure if laplace else gaussian)
    assert laplace == (n_attributes < 10), "both laws are taken here"


def test_without_delta_or_a_domain_nothing_is_compared():
    domain = Domain.from_sizes([3, 3], n_classes=2)
    assert blocks_budget((1, 0, None), domain, None, None, "add_remove").parameter == "epsilon"
    assert blocks_budget((None, 0, 1), domain, None, None, "add_remove").parameter == "rho"
    assert blocks_budget(CLAIM, "from_data", BlockChoice(), None, "add_remove").parameter == "rho"


@pytest.mark.parametrize(("sizes", "parameter"), [((3, 3, 2), "epsilon"), ((4,) * 40, "rho")])
def test_plans_and_classifiers_take_the_same_law(sizes, parameter):
    domain = Domain.from_sizes(sizes, n_classes=2)
    asked = {"epsilon": 1, "delta": 1e-6, "n_records": 5000}
    planned = plan(domain, "tables", **asked, random_state=0)
    assert planned.budget.parameter == parameter
    assert PosteriorForestClassifier(domain, **asked, random_state=0)._budget == planned.budget
    assert planned.at(epsilon=2, delta=1e-6).budget.parameter == parameter
