"""The smallest budget for targets on rows."""

import numpy as np
import pytest

from strategies import SmallestBudget, evaluate, smallest_budget

QUICK = {"random_state": 0, "time_limit": 0.3}


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_targets_hold_at_the_budget_and_not_below(norm: str) -> None:
    targets = np.linspace(1.0, 3.0, 16)
    found = smallest_budget(np.tri(16), targets, norm, **QUICK)
    errors = found.strategy.row_errors(np.tri(16))
    variances = 2 * errors / found.amount**2 if norm == "l1" else errors / (2 * found.amount)
    assert np.sqrt(variances).max() == pytest.approx(1.0, rel=2.5)
    assert (np.sqrt(variances) / targets).max() == pytest.approx(1.0, rel=1e-9)
    assert 0 < found.bound <= found.amount


def test_the_gaussian_budget_is_the_conic_one() -> None:
    """Targets 1 to 3 on 16 prefix sums: 1.22842 by the conic program with the targets in it."""
    found = smallest_budget(np.tri(16), np.linspace(1.0, 3.0, 16), "l2", **QUICK)
    cp = pytest.importorskip("cvxpy")
    block, level = cp.Variable((32, 32), PSD=True), cp.Variable()
    diagonal, squares = cp.diag(block), np.linspace(1.0, 3.0, 16) ** 2
    constraints = [
        block[:16, 16:] == np.tri(16),
        diagonal[:16] <= level * squares,
        diagonal[16:] <= level,
    ]
    cp.Problem(cp.Minimize(level), constraints).solve(solver=cp.CLARABEL)
    assert found.amount == pytest.approx(float(level.value) ** 2 / 2, rel=1e-3)
    assert found.bound <= float(level.value) ** 2 / 2 * (1 + 1e-5)


def test_targets_scale_the_budget() -> None:
    one = smallest_budget(np.eye(4), 1.0, **QUICK)
    ten = smallest_budget(np.eye(4), 10.0, **QUICK)
    assert isinstance(one, SmallestBudget)
    assert one.parameter == "epsilon"
    assert one.amount == pytest.approx(np.sqrt(2.0))
    assert one.amount / ten.amount == pytest.approx(10.0)


def test_a_row_without_a_target_costs_nothing() -> None:
    found = smallest_budget(np.eye(3), [1.0, np.inf, np.inf], **QUICK)
    assert found.amount == pytest.approx(np.sqrt(2.0))
    single = evaluate(np.eye(3)[:1], np.eye(3), objective="max")
    assert found.amount == pytest.approx(np.sqrt(2 * single.loss))


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([1.0, 2.0], "2 entries"),
        ([1.0, 0.0, 1.0], "expected positive"),
        ([1.0, -1.0, 1.0], "expected positive"),
        (np.full(3, np.inf), "at least one of them finite"),
        ([1.0, np.nan, 1.0], "targets contains NaN"),
    ],
)
def test_nonsense_is_refused_by_name(targets, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        smallest_budget(np.eye(3), targets)
