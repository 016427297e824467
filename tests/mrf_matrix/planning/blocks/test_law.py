"""Laplace noise for few tables, Gaussian noise for many: the same in a plan and in a fit."""

import pytest

from mrf_matrix import Domain, plan
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.mechanisms.budgets.claim import claiming_budgets
from mrf_matrix.planning.blocks.block_design import BlockChoice
from mrf_matrix.planning.blocks.law import blocks_budget

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
