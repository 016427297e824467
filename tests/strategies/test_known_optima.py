"""Bounds beside optima that are known on paper, or found by another route in plain NumPy.

The least loss of any strategy in the L2 norm has a closed form where a group moves every cell to
every other and leaves the workload as it is: ``(Σ σ_i)² / n`` over the singular values of W
(Li and Miklau 2013). A bound raised by 5 % is above it.
"""

from itertools import combinations

import numpy as np
import pytest

from strategies import evaluate, select

NORMS = ("l1", "l2")
PROMISED = 3e-4
"""The search for a bound stops within .02 % of the best of its kind."""


def one_way(sizes):
    """All one-way marginals: ``Π`` of the sizes' cells, one row for each value."""
    cells = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes))
    return np.vstack([np.eye(size)[:, code] for size, code in zip(sizes, cells, strict=True)])


def circulant(row):
    return np.array([np.roll(row, shift) for shift in range(len(row))], dtype=float)


def pairs(n):
    """Every sum of two cells, and every cell."""
    rows = [np.eye(n)[list(two)].sum(axis=0) for two in combinations(range(n), 2)]
    return np.vstack([np.eye(n), *rows])


SYMMETRIC = {
    "identity": (np.eye(6), 6.0),
    "total": (np.ones((1, 5)), 1.0),
    # σ = root 24 of the constant, and root(24/size) of each contrast of an attribute, size - 1
    "one_way": (
        one_way((2, 3, 4)),
        (np.sqrt(12 + 8 + 6) + np.sqrt(12) + 2 * np.sqrt(8) + 3 * np.sqrt(6)) ** 2 / 24,
    ),
    # Fourier: |1 + w + w²| over the twelfth roots of unity
    "windows": (
        circulant([1, 1, 1] + [0] * 9),
        np.abs(1 + 2 * np.cos(2 * np.pi * np.arange(12) / 12)).sum() ** 2 / 12,
    ),
    # WᵀW = (n - 1) I + J, so σ² is n - 1 (n - 1 times) and 2n - 1
    "pairs": (pairs(7), (np.sqrt(13) + 6 * np.sqrt(6)) ** 2 / 7),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_bound_is_the_optimum_on_paper(name, norm):
    workload, optimum = SYMMETRIC[name]
    bound = evaluate(workload, np.eye(workload.shape[1]), norm).lower_bound
    assert optimum * (1 - PROMISED) <= bound <= optimum * (1 + 1e-9)
    assert not optimum * (1 - PROMISED) <= 1.05 * bound <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_selected_strategies_carry_the_same_bound(name):
    workload, optimum = SYMMETRIC[name]
    for norm in NORMS:
        found = select(workload, norm, time_limit=0.1, random_state=0)
        assert optimum * (1 - PROMISED) <= found.lower_bound <= optimum * (1 + 1e-9)
        assert found.certified_ratio == pytest.approx(found.loss / optimum, rel=2 * PROMISED)
        for other in found.alternatives:
            assert other.lower_bound == pytest.approx(found.lower_bound)
            assert other.loss >= found.loss
            again = evaluate(workload, other.matrix, norm)
            assert (other.loss, other.sensitivity) == pytest.approx((again.loss, again.sensitivity))


@pytest.mark.parametrize("seed", range(6))
def test_no_l2_strategy_of_another_optimiser_is_below_the_bound(seed):
    """The optimum by conic programming: least ``tr(WᵀW X⁻¹)`` with the diagonal of X at most 1."""
    cvxpy = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    workload = rng.integers(0, 2, size=(5, 4)) + np.eye(5, 4)
    X = cvxpy.Variable((4, 4), symmetric=True)
    error = cvxpy.matrix_frac(workload.T, X)
    problem = cvxpy.Problem(cvxpy.Minimize(error), [cvxpy.diag(X) <= 1, X >> 0])
    optimum = problem.solve(solver="CLARABEL")
    bound = evaluate(workload, np.eye(4), "l2").lower_bound
    assert optimum * (1 - 1e-3) <= bound <= optimum * (1 + 1e-4)
