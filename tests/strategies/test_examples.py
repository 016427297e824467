"""The literature's workloads: definitions, known optima, and what importing the package costs.

The least loss of any strategy in the L2 norm has a closed form where a group moves every cell to
every other and leaves the workload as it is: ``(Σ σ_i)² / n`` over the singular values of W
(Li and Miklau 2013). A bound raised by 5 % is above it.
"""

import subprocess
import sys
from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from strategies import evaluate, examples, select


def test_prefix_sums() -> None:
    assert_array_equal(examples.prefix_sums(5).to_dense(), np.tri(5))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_all_ranges(n: int) -> None:
    rows = [(np.arange(n) >= i) & (np.arange(n) < j) for i, j in combinations(range(n + 1), 2)]
    explicit = np.array(rows, dtype=float)
    assert_array_equal(examples.all_ranges(n).gram_dense(), explicit.T @ explicit)
    assert evaluate(examples.all_ranges(n), np.eye(n)).loss == pytest.approx(explicit.sum())


def test_binary_tree() -> None:
    tree = examples.binary_tree(64).to_dense()
    assert tree.shape == (127, 64)
    assert set(tree.sum(axis=0)) == {7.0}
    assert len(np.unique(tree, axis=0)) == 127
    with pytest.raises(ValueError, match="power of two"):
        examples.binary_tree(6)


def test_marginals() -> None:
    sizes = (2, 3, 2)
    codes = np.array(list(product(*map(range, sizes))))
    got = examples.marginals(sizes, 2).to_dense()
    rows = [
        (codes[:, kept] == value).all(axis=1)
        for kept in ([0, 1], [0, 2], [1, 2])
        for value in product(*(range(sizes[i]) for i in kept))
    ]
    assert_array_equal(got, np.array(rows, dtype=float))
    assert examples.marginals((2,) * 80, 1).shape == (160, 2**80)
    with pytest.raises(ValueError, match="order=4"):
        examples.marginals(sizes, 4)


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3"])
def test_bad_sizes(n: object) -> None:
    for make in (examples.prefix_sums, examples.all_ranges, examples.binary_tree):
        with pytest.raises(ValueError, match="positive integer"):
            make(n)


SCRIPT = """
import sys
import numpy, scipy.linalg, scipy.sparse, threadpoolctl
before = set(sys.modules)
import strategies
print(*sorted(set(sys.modules) - before))
"""
MOST_FILES = 144


def test_importing_loads_own_files_only() -> None:
    """Optimisers and special functions are SciPy's, and are loaded when they are first called."""
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    ).stdout.split()
    outside = {name.split(".")[0] for name in found} - set(sys.stdlib_module_names)
    assert outside == {"strategies"}
    assert len(found) <= MOST_FILES


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
