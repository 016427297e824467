"""Budgets are exact: what they refuse, add up to and convert to; relations and shares."""

from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import erfc, exp, inf, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from noise_laws import delta_of
from scipy import optimize

from mrf_matrix.mechanisms import (
    NEIGHBORING,
    ZCDP,
    BudgetError,
    PureDP,
    as_budget,
    budget_shares,
    neighboring_factor,
    squared_factor,
)

KINDS = [PureDP, ZCDP]
positive = st.fractions(min_value=Fraction(1, 1000), max_value=1000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given_value", "exact"),
    [
        (1, Fraction(1)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.7"), Fraction(7, 10)),
        (1e-300, Fraction(1, 10**300)),
        (10**400, Fraction(10**400)),
    ],
)
def test_amounts_are_exact(kind, given_value, exact):
    assert kind(given_value).amount == exact
    assert isinstance(kind(given_value).amount, Fraction)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value",
    [0, 0.0, -1, -0.5, -inf, nan, Decimal("NaN"), np.float64(nan), 10**5000, -(10**5000)],
    ids=lambda value: f"{type(value).__name__}",
)
def test_impossible_amounts_are_refused(kind, value):
    told = f'{kind.parameter}.*expected a positive number or float\\("inf"\\)'
    with pytest.raises(BudgetError, match=told) as error:
        kind(value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value", ["1", "inf", True, np.True_, None, 1j, [1.0], np.array([1.0]), {}]
)
def test_what_is_no_number_is_refused(kind, value):
    with pytest.raises(TypeError, match=f"{kind.parameter}=.*expected a positive number"):
        kind(value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [inf, np.float64(inf), Decimal("Infinity")])
def test_infinite_budgets(kind, value):
    budget = kind(value)
    assert budget.is_infinite
    assert budget == kind(inf)
    assert budget.split(3) == (budget,) * 3
    assert budget + kind(1) == kind(1) + budget == budget - kind(1) == 2 * budget == budget
    assert kind(10**400) < budget
    with pytest.raises(BudgetError, match="infinite"):
        _ = budget.exact
    with pytest.raises(BudgetError):
        _ = budget - budget


@pytest.mark.parametrize("kind", KINDS)
def test_ten_tenths_are_one(kind):
    tenths = [kind(0.1)] * 10
    total = tenths[0]
    for part in tenths[1:]:
        total = total + part
    assert total == kind(1) == 10 * kind(0.1) == kind(0.1) * 10
    assert hash(total) == hash(kind(1.0))
    assert not total > kind(1)


@given(positive, st.lists(positive, min_size=1, max_size=6))
def test_shares_add_up_exactly(amount, weights):
    parts = PureDP(amount).split(weights)
    assert sum(part.exact for part in parts) == amount
    assert parts[0].exact * sum(weights) == amount * weights[0]
    assert len(PureDP(amount).split(len(weights))) == len(weights)


@given(positive, positive)
def test_arithmetic_is_exact(a, b):
    total = ZCDP(a) + ZCDP(b)
    assert total.exact == a + b
    assert total - ZCDP(b) == ZCDP(a)
    assert (ZCDP(a) < ZCDP(b)) == (a < b)
    assert (ZCDP(a) <= ZCDP(b)) == (a <= b)
    with pytest.raises(BudgetError, match="nothing would be left"):
        _ = ZCDP(a) - total


EVEN = [1.0, 2.0]
REFUSED = [
    *(
        (lambda s=s: PureDP(1).split(s), BudgetError, ".")
        for s in (0, -1, [], [1, 0], [1, -2], [nan])
    ),
    *(
        (lambda s=s: PureDP(1).split(s), TypeError, "share")
        for s in ("12", True, 1.5, None, ["a"], [None])
    ),
    *((lambda f=f: f * PureDP(1), BudgetError, ".") for f in (0, -1, nan, inf)),
    (lambda: setattr(PureDP(1), "epsilon", 2), AttributeError, "epsilon"),
    *(
        (lambda d=d, convert=convert: convert(d), BudgetError, "delta")
        for d in (0, 1, 1.5, -1e-6, nan, inf)
        for convert in (ZCDP(1).epsilon, lambda d: ZCDP.for_approximate_dp(1.0, d))
    ),
    *(
        (lambda r=r: neighboring_factor(r), ValueError, "neighboring=.*add_remove.*replace_one")
        for r in ("swap", "", None, 1, ["add_remove"], "ADD_REMOVE")
    ),
    *(
        (lambda losses=losses: budget_shares(losses, "l1", "total"), ValueError, "losses")
        for losses in ([], [1.0, 0.0], [1.0, nan], [1.0, inf])
    ),
    (lambda: budget_shares(EVEN, "l3", "max"), ValueError, "norm"),
    (lambda: budget_shares(EVEN, "l1", "sum"), ValueError, "rule"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_nonsense_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_kinds_do_not_mix():
    with pytest.raises(TypeError, match="different kinds"):
        _ = PureDP(1) + ZCDP(1)
    with pytest.raises(TypeError):
        _ = PureDP(1) < ZCDP(2)
    assert PureDP(1) != ZCDP(1)


def test_printing():
    assert repr(PureDP(0.1)) == "PureDP(epsilon=0.1)"
    assert repr(PureDP(1).split(3)[0]) == "PureDP(epsilon=1/3)"
    assert repr(ZCDP(inf)) == "ZCDP(rho=inf)"
    assert repr(PureDP(10**400)) == f"PureDP(epsilon={10**400})"


def test_as_budget_takes_exactly_one():
    assert as_budget(epsilon=0.5) == PureDP(0.5)
    assert as_budget(rho=0.5) == ZCDP(0.5)
    with pytest.raises(BudgetError, match="no budget"):
        as_budget()
    with pytest.raises(BudgetError, match="exactly one"):
        as_budget(epsilon=1, rho=1)


def test_pure_implies_concentrated():
    assert PureDP(1).to_zcdp() == ZCDP(0.5)
    assert PureDP(inf).to_zcdp().is_infinite


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 5.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_conversion_lies_between_known_bounds(rho, delta):
    epsilon = ZCDP(rho).epsilon(delta)
    assert 0 < epsilon <= rho + 2 * sqrt(rho * log(1 / delta))  # Bun and Steinke 2016, Prop. 1.3
    exact_gaussian = pytest.importorskip("dp_accounting").get_epsilon_gaussian(
        1 / sqrt(2 * rho), delta
    )
    assert exact_gaussian <= epsilon * (1 + 1e-9)  # zCDP forgets part of what a Gaussian does


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 5.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_conversion_finds_the_best_order(rho, delta):
    """Canonne, Kamath and Steinke 2020, Prop. 12, minimised by another search."""
    pytest.importorskip("dp_accounting")

    def implied(log_order):
        more = np.exp(log_order)  # α - 1
        order = 1 + more
        return rho * order + np.log(more / order) - (log(delta) + np.log(order)) / more

    best = optimize.minimize_scalar(implied, bounds=(-6, 14), method="bounded").fun
    assert ZCDP(rho).epsilon(delta) == pytest.approx(max(best, 0.0), rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 10.0])
def test_conversion_inverts(epsilon):
    budget = ZCDP.for_approximate_dp(epsilon, 1e-6)
    assert epsilon * (1 - 1e-6) <= budget.epsilon(1e-6) <= epsilon
    assert (budget * Fraction(101, 100)).epsilon(1e-6) > epsilon


@pytest.mark.parametrize("epsilon", [1e-9, 1e4, 1e6])
@pytest.mark.parametrize("delta", [1e-12, 1e-6])
def test_conversion_keeps_its_word_at_both_ends(epsilon, delta):
    """The budget found implies no more than what was asked, by the same conversion."""
    budget = ZCDP.for_approximate_dp(epsilon, delta)
    assert 0.99 * epsilon <= budget.epsilon(delta) <= epsilon * (1 + 1e-12)


def test_budgets_below_any_double_convert():
    assert 0 <= ZCDP(Fraction(1, 10**400)).epsilon(1e-6) < 1e-100


def test_conversion_at_infinity():
    assert ZCDP(inf).epsilon(1e-6) == inf
    assert ZCDP.for_approximate_dp(inf, 1e-6).is_infinite


# Neighbouring relations --------------------------------------------------------------------------


matrices = arrays(np.int64, (3, 4), elements=st.integers(-3, 3))


def largest_change(matrix, n_classes, norm, neighboring):
    """Enumerate what one record can change in the answers A D, in a norm over all entries."""
    n = matrix.shape[1]
    records = list(product(range(n), range(n_classes)))

    def table(record):
        counts = np.zeros((n, n_classes), dtype=np.int64)
        counts[record] = 1
        return matrix @ counts

    if neighboring == "add_remove":
        changes = [table(record) for record in records]
    else:
        changes = [table(a) - table(b) for a, b in product(records, repeat=2)]
    sizes = [np.abs(c).sum() if norm == "l1" else (c**2).sum() for c in changes]
    return int(max(sizes))


def claimed(matrix, norm, neighboring):
    """Return the claimed bound: the change itself in L1, its square in L2."""
    columns = np.abs(matrix) if norm == "l1" else matrix**2
    factor = squared_factor(neighboring, norm, nonnegative=bool((matrix >= 0).all()))
    sensitivity = int(columns.sum(axis=0).max())
    return sensitivity * (sqrt(factor) if norm == "l1" else factor)


@given(matrices, st.sampled_from([1, 2, 3]), st.sampled_from(["l1", "l2"]), st.booleans())
def test_no_pair_of_neighbours_changes_more(matrix, n_classes, norm, absolute):
    matrix = np.abs(matrix) if absolute else matrix
    for neighboring in NEIGHBORING:
        found = largest_change(matrix, n_classes, norm, neighboring)
        assert found <= claimed(matrix, norm, neighboring)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("matrix", [np.eye(3, dtype=int), np.ones((2, 3), dtype=int)])
def test_some_pair_reaches_the_bound(matrix, norm, neighboring):
    assert largest_change(matrix, 2, norm, neighboring) == claimed(matrix, norm, neighboring)


def test_opposite_columns_reach_twice_the_l2_sensitivity():
    """Why a strategy with negative entries is given 2 and not sqrt(2)."""
    matrix = np.array([[1, -1]])
    assert largest_change(matrix, 1, "l2", "replace_one") == 4
    assert claimed(matrix, "l2", "replace_one") == 4


def test_factors():
    assert neighboring_factor("add_remove") == 1
    assert neighboring_factor("replace_one") == 2
    assert neighboring_factor("replace_one", "l2") == 2
    assert squared_factor("replace_one", "l2", nonnegative=True) == 2
    assert squared_factor("replace_one", "l1", nonnegative=True) == 4


# Shares in closed form ---------------------------------------------------------------------------


LOSSES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=6)
POWER = {"l1": 2, "l2": 1}


def errors(losses, shares, norm: str) -> np.ndarray:
    return np.asarray(losses) / np.asarray(shares) ** POWER[norm]


@given(LOSSES, st.sampled_from(["l1", "l2"]), st.integers(0, 2**32 - 1))
def test_no_other_shares_are_better(losses, norm: str, seed: int) -> None:
    others = np.random.default_rng(seed).dirichlet(np.ones(len(losses)), 20) + 1e-9
    total = errors(losses, budget_shares(losses, norm, "total"), norm).sum()
    worst = errors(losses, budget_shares(losses, norm, "max"), norm).max()
    for other in others:
        found = errors(losses, other / other.sum(), norm)
        assert total <= found.sum() * (1 + 1e-9)
        assert worst <= found.max() * (1 + 1e-9)


@given(LOSSES, st.sampled_from(["l1", "l2"]))
def test_the_worst_is_least_where_all_are_equal(losses, norm: str) -> None:
    shares = budget_shares(losses, norm, "max")
    assert sum(shares) == pytest.approx(1.0)
    found = errors(losses, shares, norm)
    assert found.max() == pytest.approx(found.min())


def test_equal_losses_share_alike() -> None:
    for rule in ("equal", "total", "max"):
        assert budget_shares([5.0] * 4, "l1", rule) == pytest.approx((0.25,) * 4)
    assert budget_shares([1.0, 9.0], "l1", "equal") == (0.5, 0.5)


# Claims of (ε, δ) ---------------------------------------------------------------------------------


def test_the_continuous_formula_would_claim_too_much():
    def continuous(sigma, epsilon):
        upper, lower = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
        tails = [erfc(-x / sqrt(2)) / 2 for x in (upper, lower)]
        return tails[0] - exp(epsilon) * tails[1]

    sigma, epsilon = 0.6, 6.5
    assert delta_of(sigma, (1,), epsilon) > 2 * continuous(sigma, epsilon)


@given(st.fractions(Fraction(1, 1000), 10), st.sampled_from([1e-8, 1e-5, 1e-2]))
def test_no_share_is_printed_with_less_than_it_costs(rho, delta):
    budget = ZCDP(rho)
    printed = Fraction(budget.claim(delta).split("=")[1].split(",")[0])
    assert budget.epsilon(delta) <= printed <= budget.epsilon(delta) * 1.00001
