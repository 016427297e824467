"""A claim of (ε, δ) against an accountant, and against the exact law of the noise that is drawn."""

from fractions import Fraction
from math import erfc, exp, inf, sqrt

import numpy as np
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.estimators.made_from import claim_parameters
from mrf_matrix.mechanisms import ZCDP, BudgetError, DiscreteGaussian, PureDP
from mrf_matrix.mechanisms.claim import claimed_budget, claiming_budgets

CLAIMS = [(0.1, 1e-6), (0.3, 1e-9), (1, 1e-6), (1, 1e-2), (3.7, 1e-5), (10, 1e-3)]
VECTORS = [(1,), (2,), (1, 1), (2, -1), (1, 1, 1)]


def delta_of(sigma, vector, epsilon):
    """Return δ(ε) of discrete Gaussian noise for answers that differ by a vector: enumerated."""
    law = DiscreteGaussian(Fraction(sigma))
    reach = int(9 * sigma) + 2 * max(map(abs, vector))
    values = np.arange(-reach, reach + 1)
    near, far = np.zeros(()), np.zeros(())
    for step in vector:
        near = np.add.outer(near, law.log_pmf(values))
        far = np.add.outer(far, law.log_pmf(values - step))
    return float(np.maximum(np.exp(near) - np.exp(epsilon + far), 0).sum())


@pytest.mark.parametrize("vector", VECTORS)
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-3), (2, 1e-4), (4, 0.05), (8, 1e-6)])
def test_the_drawn_noise_keeps_the_claim_and_less_noise_does_not(vector, epsilon, delta):
    budget = claimed_budget(epsilon, delta)
    law = DiscreteGaussian.calibrated(sum(x * x for x in vector), 1, budget.exact)
    scale = float(law.scale)
    found = delta_of(scale, vector, epsilon)
    assert delta / 1000 < found <= delta
    assert delta_of(scale / 2, vector, epsilon) > delta  # what a broken calibration would show


def test_the_continuous_formula_would_claim_too_much():
    def continuous(sigma, epsilon):
        upper, lower = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
        tails = [erfc(-x / sqrt(2)) / 2 for x in (upper, lower)]
        return tails[0] - exp(epsilon) * tails[1]

    sigma, epsilon = 0.6, 6.5
    assert delta_of(sigma, (1,), epsilon) > 2 * continuous(sigma, epsilon)


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_an_accountant_agrees_on_the_whole_and_on_the_sum_of_shares(epsilon, delta):
    budget = claimed_budget(epsilon, delta)
    orders = 1 + np.geomspace(0.02, 1e4, 4000)
    whole, shares = (RdpAccountant(orders) for _ in range(2))
    whole.compose(ZCDpEvent(float(budget.rho)))
    for share in budget.split([1, 2, 5]):
        shares.compose(ZCDpEvent(float(share.rho)))
    for accountant in (whole, shares):
        found = accountant.get_epsilon(delta)
        assert found == pytest.approx(epsilon, rel=1e-3)
    assert budget.epsilon(delta) <= epsilon
    assert ZCDP(budget.rho * Fraction(101, 100)).epsilon(delta) > epsilon  # the largest ρ


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS)
def test_the_claim_is_printed_as_asked(epsilon, delta):
    pure, gaussian = claiming_budgets(epsilon, delta)
    for budget in (pure, gaussian):
        said = budget.claim(delta)
        assert said == f"(epsilon={epsilon}, delta={delta!r})-DP via {budget!r}"
        assert claim_parameters(budget, delta)["delta"] == delta
        assert budget in claiming_budgets(**claim_parameters(budget, delta))


@given(st.fractions(Fraction(1, 1000), 10), st.sampled_from([1e-8, 1e-5, 1e-2]))
def test_no_share_is_printed_with_less_than_it_costs(rho, delta):
    budget = ZCDP(rho)
    printed = Fraction(budget.claim(delta).split("=")[1].split(",")[0])
    assert budget.epsilon(delta) <= printed <= budget.epsilon(delta) * 1.00001


def test_a_claim_that_cannot_be_named_again_is_refused():
    with pytest.raises(BudgetError, match=r"epsilon= and delta= itself"):
        claim_parameters(ZCDP(Fraction(1, 7)), 1e-6)


def test_without_delta_nothing_changes():
    assert claimed_budget() == PureDP(1)
    assert claimed_budget(rho=0.5) == ZCDP(0.5)
    assert ZCDP(0.5).claim(0) == "ZCDP(rho=0.5)"
    assert PureDP(inf).claim(1e-6) == "PureDP(epsilon=inf)"


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"delta": 1}, "between 0 and 1"),
        ({"delta": -1e-6}, "delta=-1e-06"),
        ({"delta": Fraction(1, 10**400)}, "between 0 and 1"),
        ({"delta": 1e-6, "rho": 1}, "delta=1e-06 and rho=1"),
        ({"delta": 1e-6, "epsilon": inf}, "infinite epsilon"),
        ({"delta": 1e-6, "epsilon": 0}, "epsilon=0"),
    ],
)
def test_what_claims_nothing_is_refused_by_name(budget, message):
    with pytest.raises(BudgetError, match=message):
        claiming_budgets(**budget)


@pytest.mark.parametrize("delta", [None, "1e-6", True, -1, float("nan")], ids=repr)
def test_the_range_that_is_said_of_delta_is_the_one_that_is_taken(delta):
    with pytest.raises((TypeError, BudgetError), match=r"expected 0 .*between 0 and 1") as found:
        claiming_budgets(1, delta)
    said = str(found.value)
    assert "positive" not in said
    assert "delta=1.0" not in said
    example = float(said.partition("such as delta=")[2].rstrip("."))
    assert len(claiming_budgets(1, example)) == 2
    assert claiming_budgets(1, 0) == (PureDP(1),)
