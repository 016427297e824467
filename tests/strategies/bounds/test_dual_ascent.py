"""The joint weights of rows and cells, against conic programming and one another."""

import numpy as np
import pytest

from strategies import evaluate, examples
from strategies.bounds.dual_ascent import (
    ascend,
    assess_joint,
    certified_joint_bound,
    joint_climb,
    joint_strategy,
)
from strategies.bounds.lower_bound import row_bound, worst_bound
from strategies.operators import as_operator
from strategies.problem.objective import Aim, distinct_rows
from strategies.problem.problem import Problem


def rows_of(workload, groups=None):
    operator = as_operator(workload)
    return distinct_rows(operator, Aim.of(operator, "max", groups))


def conic_optimum(workload: np.ndarray, groups: np.ndarray) -> float:
    """Least ``max_k Σ P_ii · max_j X_jj`` over ``[[P, W], [Wᵀ, X]] ⪰ 0``."""
    cp = pytest.importorskip("cvxpy")
    q, n = workload.shape
    block, level = cp.Variable((q + n, q + n), PSD=True), cp.Variable()
    diagonal = cp.diag(block)
    sums = [cp.sum(diagonal[:q][np.flatnonzero(groups == k)]) <= level for k in np.unique(groups)]
    constraints = [block[:q, q:] == workload, diagonal[q:] <= level, *sums]
    cp.Problem(cp.Minimize(level), constraints).solve(solver=cp.CLARABEL)
    return float(level.value) ** 2


@pytest.mark.parametrize("seed", range(6))
def test_the_climb_ends_at_the_conic_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, n = rng.integers(2, 6, 2)
    workload = rng.integers(-2, 3, (q, n)).astype(float)
    workload[0, 0] = 1.0
    if seed % 3 == 2:
        workload[-1] = workload[0] + workload[1]  # a deficient rank
    groups = np.arange(q) if seed % 2 else rng.integers(0, 2, q)
    rows = rows_of(workload, groups)
    dual = joint_climb(rows).to(1e-6, 3000)
    bound = certified_joint_bound(rows, dual)
    exact = conic_optimum(workload, groups)
    assert bound <= exact * (1 + 1e-5)
    assert bound == pytest.approx(exact, rel=1e-4)
    strategy = evaluate(workload, joint_strategy(rows, dual), "l2", "max", groups=groups)
    assert strategy.loss == pytest.approx(exact, rel=1e-4)
    assert strategy.loss >= exact * (1 - 1e-5)


def test_one_group_is_the_total() -> None:
    workload = np.random.default_rng(1).normal(size=(7, 5))
    joint = joint_climb(rows_of(workload, np.zeros(7, int))).to(1e-6, 2000)
    total = ascend(np.linalg.qr(workload, "r"), 1e-6, 2000)
    assert joint.root**2 == pytest.approx(total.root**2, rel=1e-5)


def test_the_bound_of_a_problem_is_that_of_its_climb(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.of(np.tri(6), "l2", "max")
    exact = joint_climb(rows_of(np.tri(6))).to(1e-6, 3000).root ** 2
    assert worst_bound(problem) == pytest.approx(exact, rel=1e-3)
    assert worst_bound(problem) <= exact * (1 + 1e-9)
    monkeypatch.setattr("strategies.bounds.dual_ascent.LARGEST", 1)
    assert 1 / 6 <= worst_bound(problem) < exact  # too many rows to climb


def test_any_weights_prove_a_bound() -> None:
    rng = np.random.default_rng(2)
    rows = rows_of(np.tri(6))
    best = joint_climb(rows).to(1e-5, 1000).root ** 2
    for _ in range(20):
        dual = assess_joint(rows, rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6)))
        assert certified_joint_bound(rows, dual) <= best * (1 + 1e-5)
        assert dual.gap > -1e-9


def test_the_climb_certifies_the_known_optima() -> None:
    for workload, expected in ((examples.binary_tree(64), 3.000), (np.tri(64), 4.458)):
        rows = rows_of(workload)
        dual = joint_climb(rows).to(1e-4, 100)
        assert dual.gap < 1e-3
        assert certified_joint_bound(rows, dual) == pytest.approx(expected, abs=1e-3)


def test_a_row_costs_its_largest_entry() -> None:
    rows = rows_of(np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([5, 5]))
    assert row_bound(rows) == pytest.approx(13.0)
    found = joint_climb(rows).to(1e-5, 1000)
    assert row_bound(rows) <= found.errors.max() * found.norms.max() * (1 + 1e-9)
