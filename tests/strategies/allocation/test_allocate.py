"""Allocations against closed forms, a general solver and random budgets; bounds against all."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from strategies import RowSpaceError, allocate, examples, smallest_budget
from strategies.operators import Gram

TREE = examples.binary_tree(16).to_dense()
LEVELS = np.repeat(np.arange(5), 2 ** np.arange(5))
POWERS = {"l1": 2, "l2": 1}


def errors(recovery: np.ndarray, spent: np.ndarray, norm: str) -> np.ndarray:
    return np.asarray(recovery**2 @ spent ** -float(POWERS[norm]))


def cost(rows: np.ndarray, spent: np.ndarray, norm: str) -> float:
    return float((np.abs(rows.T) ** (1 if norm == "l1" else 2) @ spent).max())


def test_nodes_answered_by_themselves_follow_the_root_laws() -> None:
    """``(Σ N_l^(1/3))³`` and ``(Σ √N_l)²`` over levels of N_l nodes."""
    sizes = np.bincount(LEVELS)
    laplace = allocate(TREE, TREE, recovery=np.eye(31))
    gaussian = allocate(TREE, TREE, "l2", recovery=np.eye(31))
    assert laplace.value == pytest.approx(np.sum(sizes ** (1 / 3)) ** 3, rel=1e-6)
    assert gaussian.value == pytest.approx(np.sum(sizes**0.5) ** 2, rel=1e-6)
    shares = sizes ** (1 / 3) / np.sum(sizes ** (1 / 3))
    np.testing.assert_allclose(laplace.spent, shares[LEVELS], rtol=1e-3)
    for found in (laplace, gaussian):
        assert found.bound <= found.value <= found.bound * (1 + 1e-6)
        assert found.strategy.loss <= found.value * (1 + 1e-9)
    words = str(laplace)
    assert words.startswith(f"total {laplace.value:.6g}, none below {laplace.bound:.6g}: 31 rows")
    assert words.endswith(str(laplace.strategy))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("objective", ["total", "max", "budget"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_general_solver_finds_the_same(norm: str, objective: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([np.eye(3), rng.integers(-1, 2, (2, 3)) + np.eye(2, 3)])
    workload = rng.integers(-2, 3, (4, 3))
    workload[0] = 1
    targets = rng.uniform(1, 3, 4)
    found = allocate(
        workload,
        rows,
        norm,
        objective,
        targets if objective == "budget" else None,
        constraints=lambda spent, total: [spent[3] >= 0.2 * total, spent[0] == spent[1]],
    )
    recovery = workload @ np.linalg.pinv(rows)
    constant = {"l1": 2.0, "l2": 0.5}[norm]

    limit = targets**2 / constant if objective == "budget" else 1.0

    def slack(z: np.ndarray) -> np.ndarray:
        """Of budgets z[:5], total z[5] and the logarithm z[6] of the error that is minimised."""
        spent, each = z[:5], errors(recovery, z[:5], norm)
        each = np.array([each.sum()]) if objective == "total" else each
        kept = np.log(limit) - np.log(each) + (0 if objective == "budget" else z[6])
        sums = np.abs(rows.T) ** (1 if norm == "l1" else 2) @ spent
        return np.array([*(z[5] - sums), *kept, spent[3] - 0.2 * z[5]])

    equal = [{"type": "eq", "fun": lambda z: z[0] - z[1]}]
    if objective != "budget":
        equal.append({"type": "eq", "fun": lambda z: z[5] - 1})
    best = optimize.minimize(
        lambda z: z[5] if objective == "budget" else z[6],
        np.array([*np.full(5, 0.2), 1.0, 5.0]),
        method="SLSQP",
        bounds=[(1e-3, None)] * 7,
        constraints=[{"type": "ineq", "fun": slack}, *equal],
        options={"maxiter": 500, "ftol": 1e-10},
    )
    assert best.success
    least = best.fun if objective == "budget" else np.exp(best.fun)
    assert found.value == pytest.approx(least, rel=1e-5)
    assert found.value == pytest.approx(found.bound, rel=1e-5)
    assert found.spent[0] == pytest.approx(found.spent[1], rel=1e-6)
    assert cost(rows, found.spent, norm) == pytest.approx(found.budget, rel=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(["l1", "l2"]), st.sampled_from(["total", "max"]))
def test_no_budgets_go_below_the_bound(seed: int, norm: str, objective: str) -> None:
    rng = np.random.default_rng(seed)
    n, m, q = rng.integers(1, 5), rng.integers(0, 4), rng.integers(1, 5)
    rows = np.concatenate([np.eye(n), rng.normal(size=(m, n))])
    workload = rng.integers(-1, 2, (q, n))
    workload[0] = 1
    weights, floor = rng.uniform(0.1, 2, q), rng.uniform(0, 0.3)
    found = allocate(
        workload,
        rows,
        norm,
        objective,
        weights=weights,
        constraints=lambda spent, total: [spent[0] >= floor],
    )
    recovery = workload @ np.linalg.pinv(rows)
    for _ in range(50):
        spent = rng.uniform(0.01, 1, n + m)
        spent /= cost(rows, spent, norm)
        spent[0] = max(spent[0], floor)
        if cost(rows, spent, norm) > 1:
            continue
        each = weights * errors(recovery, spent, norm)
        reached = each.sum() if objective == "total" else each.max()
        assert found.bound <= reached * (1 + 1e-9)
    assert found.bound <= found.value <= found.bound * (1 + 1e-5)
    assert found.strategy.loss <= found.value * (1 + 1e-9)


TINY = {  # differences that are 0, or with "at most" not above it
    "a budget": lambda t, spent, total: [spent[0] - t],
    "a share of all": lambda t, spent, total: [spent[0] - t * total, spent[1] - spent[2]],
    "a share of another": lambda t, spent, total: [spent[0] - t * spent[1]],
    "at most": lambda t, spent, total: [spent[0] - t, spent[3] - t * total],
}


@pytest.mark.parametrize("objective", ["total", "max", "budget"])
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize(("norm", "tiny"), [("l1", 1e-3), ("l1", 1e-5), ("l2", 1e-2), ("l2", 1e-5)])
def test_tiny_budgets_keep_their_constraints_or_are_refused(
    norm: str, objective: str, name: str, tiny: float
) -> None:
    """The solver's tolerance, one for all budgets, let them be off by half."""
    differences, capped = TINY[name], name == "at most"
    targets = np.linspace(2, 4, 31) if objective == "budget" else None

    def constraints(spent: object, total: object) -> list[object]:
        return [one <= 0 if capped else one == 0 for one in differences(tiny, spent, total)]

    try:
        found = allocate(TREE, TREE, norm, objective, targets, constraints=constraints)
    except (RuntimeError, ValueError):
        assert tiny < 1e-2 or objective == "budget"
        return
    total = found.budget if objective == "budget" else 1.0
    missed = differences(tiny, found.spent, total)
    rounding = 1e-9 * tiny * max(total, found.spent.max())
    assert max(missed) <= rounding
    assert capped or min(missed) >= -rounding
    assert found.bound <= found.value <= found.bound * (1 + 1e-3)


def test_targets_at_budget_one_and_at_the_least_budget_agree() -> None:
    targets = np.linspace(2, 4, 31)
    least = allocate(TREE, TREE, "l1", "budget", targets)
    assert least.value == pytest.approx(least.budget, rel=1e-12)  # each of a sum of its own
    at_one = allocate(TREE, TREE, "l1", "total", targets * least.budget * 1.01)
    recovery = TREE @ np.linalg.pinv(TREE)
    rms = np.sqrt(2 * errors(recovery, at_one.spent, "l1"))
    assert (rms <= targets * least.budget * 1.01 * (1 + 1e-6)).all()
    with pytest.raises(ValueError, match="nothing meets"):
        allocate(TREE, TREE, "l1", "total", targets * least.budget * 0.99)


def test_the_budget_of_a_recovery_is_above_that_of_every_strategy() -> None:
    workload = np.tril(np.ones((8, 8)))
    least = allocate(workload, examples.binary_tree(8), "l2", "budget", 1.0)
    assert smallest_budget(workload, 1.0, "l2", time_limit=0.5).bound <= least.bound * (1 + 1e-9)


def test_groups_are_summed_and_equal_columns_merged() -> None:
    repeated = np.repeat(TREE, 3, axis=1)
    found = allocate(TREE, TREE, "l2", "max", groups=LEVELS)
    wide = allocate(repeated, repeated, "l2", "max", groups=LEVELS)
    recovery = TREE @ np.linalg.pinv(TREE)
    sums = np.bincount(LEVELS, weights=errors(recovery, found.spent, "l2"))
    assert found.value == pytest.approx(sums.max(), rel=1e-9)
    assert wide.value == pytest.approx(found.value, rel=1e-6)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_row_that_no_answer_takes_may_be_forbidden(norm: str) -> None:
    rows = np.vstack([np.eye(3), np.ones((1, 3))])
    found = allocate(
        np.eye(3), rows, norm, recovery=np.eye(3, 4), constraints=lambda spent, total: spent[3] == 0
    )
    np.testing.assert_allclose(found.spent, [1, 1, 1, 0], rtol=1e-6)
    assert found.value == pytest.approx(3.0)
    assert found.certified_ratio < 1 + 1e-6


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"objective": "least"}, ValueError, "objective='least'"),
        ({"objective": "budget"}, ValueError, "expected targets="),
        ({"rows": np.eye(3)}, ValueError, "rows has 3 columns"),
        ({"rows": np.eye(16)[1:]}, RowSpaceError, "does not determine"),
        ({"rows": np.ones((1, 16)), "workload": np.eye(16)}, RowSpaceError, "does not determine"),
        ({"rows": np.eye(17, 16)}, ValueError, "a row of zeros"),
        ({"workload": Gram(np.eye(16))}, ValueError, "is a Gram"),
        ({"recovery": np.eye(2)}, ValueError, "recovery has shape"),
        ({"recovery": np.zeros((31, 31))}, RowSpaceError, "does not determine"),
        ({"constraints": lambda spent, total: [True]}, TypeError, "affine cvxpy"),
        ({"constraints": lambda spent, total: [spent**2 <= 1]}, TypeError, "affine cvxpy"),
        ({"constraints": lambda spent, total: spent >= 1}, ValueError, "nothing meets"),
        ({"constraints": lambda s, total: s[0] <= cp.Variable()}, TypeError, "no other variables"),
    ],
)
def test_nonsense_is_refused_by_name(
    changes: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        allocate(**{"workload": TREE, "rows": TREE} | changes)
