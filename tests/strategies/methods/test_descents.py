"""The kernels that descend: gradients against finite differences, losses against brute force."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, check_grad

from strategies.methods.descents import (
    TOTAL,
    ErrorNorm,
    descend,
    descend_columns,
    free_columns_value,
    minimise,
    minimise_sparse,
    p_identity_matrix,
    p_identity_value,
    step_seconds,
)
from strategies.methods.marginals.algebra import make_cover
from strategies.methods.marginals.optimiser import row_energies, worst_log_loss
from strategies.methods.row_space import RowSpace, descend_in_row_space, smoothed_value
from strategies.methods.weighted_rows import (
    Candidates,
    descended_weights,
    matrix_loss,
    weights_value,
)
from strategies.operators import RowKronecker
from strategies.problem.objective import factor_of_rows
from strategies.problem.problem import Problem

Array = NDArray[np.float64]
Value = Callable[[Array], tuple[float, Array]]
RANDOM = np.random.default_rng(7)
WORKLOAD = RANDOM.integers(0, 4, size=(6, 9)).astype(float)
FACTOR = factor_of_rows(WORKLOAD)


def brute_loss(workload: Array, matrix: Array) -> float:
    sensitivity = np.abs(matrix).sum(axis=0).max()
    recovery = workload @ np.linalg.pinv(matrix)
    assert recovery @ matrix == pytest.approx(workload, abs=1e-6)
    return float(sensitivity**2 * np.sum(recovery**2))


def values() -> dict[str, tuple[Value, Array]]:
    """Return every objective with a point in general position."""
    space = RowSpace.of(FACTOR, FACTOR)
    rows = np.concatenate([np.eye(9), RANDOM.random((4, 9))])
    logs = RANDOM.normal(size=13)
    return {
        "p-identity": (partial(p_identity_value, factor=FACTOR), RANDOM.normal(size=(4, 9))),
        "free columns": (partial(free_columns_value, factor=FACTOR), RANDOM.normal(size=(12, 9))),
        "row space": (
            partial(smoothed_value, space=space, sharpness=7.0, rounding=0.1),
            RANDOM.normal(size=(8, 6)),
        ),
        "weights": (
            partial(weights_value, candidates=Candidates(rows, FACTOR), sharpness=9.0),
            logs,
        ),
    }


@pytest.mark.parametrize("name", values())
def test_gradients(name: str) -> None:
    value, point = values()[name]
    _, gradient = value(point)
    numeric = approx_fprime(point.ravel(), lambda flat: value(flat.reshape(point.shape))[0], 1e-6)
    assert gradient.ravel() == pytest.approx(numeric, rel=1e-3, abs=2e-5)


def test_p_identity_value_is_the_loss() -> None:
    roots = RANDOM.normal(size=(3, 9))
    matrix = p_identity_matrix(roots * np.abs(roots))
    assert np.abs(matrix).sum(axis=0) == pytest.approx(np.ones(9))
    value, _ = p_identity_value(roots, FACTOR)
    assert np.exp(value) == pytest.approx(brute_loss(WORKLOAD, matrix))


@pytest.mark.parametrize("heft", [1e-6, 1.0, 1e4])
def test_p_identity_value_does_not_cancel(heft: float) -> None:
    roots = np.sqrt(heft * RANDOM.random((9, 9)))
    value, _ = p_identity_value(roots, FACTOR)
    matrix = p_identity_matrix(roots * roots)
    stable = np.sum(np.linalg.lstsq(matrix.T, WORKLOAD.T, rcond=None)[0] ** 2)
    assert np.exp(value) == pytest.approx(stable, rel=1e-6)


def test_free_columns_value_is_the_loss() -> None:
    roots = RANDOM.normal(size=(11, 9))
    matrix = roots * np.abs(roots)
    matrix = matrix / np.abs(matrix).sum(axis=0)
    value, _ = free_columns_value(roots, FACTOR)
    assert np.exp(value) == pytest.approx(brute_loss(WORKLOAD, matrix))


@pytest.mark.parametrize(
    ("value", "point"),
    [
        (p_identity_value, np.full((2, 9), 1e200)),
        (free_columns_value, np.zeros((9, 9))),
        (free_columns_value, np.ones((9, 9))),
    ],
)
def test_singular_points_are_refused_and_not_fatal(
    value: Callable[[Array, Array], tuple[float, Array]], point: Array
) -> None:
    with np.errstate(all="ignore"):
        found, gradient = value(point, FACTOR)
    assert found >= 10
    assert np.isfinite(gradient).all()


@given(seed=st.integers(0, 2**32 - 1), heft=st.floats(0.1, 20.0))
def test_p_identity_descends(seed: int, heft: float) -> None:
    random = np.random.default_rng(seed)
    rows = heft * random.random((3, 9))
    before = brute_loss(WORKLOAD, p_identity_matrix(rows))
    found = descend(FACTOR, rows, 30)
    assert found.loss <= before * (1 + 1e-2)  # the raised entries may cost a little at first
    assert found.loss == pytest.approx(brute_loss(WORKLOAD, found.matrix), rel=1e-6)
    sparse = descend(FACTOR, rows, 30, warmup=10)
    assert sparse.loss == pytest.approx(brute_loss(WORKLOAD, sparse.matrix), rel=1e-6)


def test_free_columns_descend() -> None:
    start = p_identity_matrix(2 * RANDOM.random((3, 9)))
    found = descend_columns(FACTOR, start, 20, 40, np.random.default_rng(0))
    assert np.abs(found).sum(axis=0) == pytest.approx(np.ones(9))
    assert brute_loss(WORKLOAD, found) < brute_loss(WORKLOAD, start)
    again = descend_columns(FACTOR, start, 20, 40, np.random.default_rng(0))
    assert np.array_equal(found, again)


def test_row_space_descends() -> None:
    own = np.random.default_rng(7)  # whatever ran before: rank 3 is part of the test
    workload = own.integers(0, 3, size=(5, 3)) @ own.integers(0, 3, size=(3, 20))
    factor = factor_of_rows(workload.astype(float))
    assert factor.shape[0] == 3
    space = RowSpace.of(factor, 3.0 * factor + 0.0)
    mix = np.linalg.qr(own.normal(size=(6, 3)))[0]
    assert space.loss(mix) == pytest.approx(brute_loss(workload, mix @ space.basis))
    found, loss = descend_in_row_space(space, mix, 50)
    assert loss == pytest.approx(brute_loss(workload, found @ space.basis))
    assert loss < space.loss(mix)
    assert space.loss(np.zeros((3, 3))) == float("inf")


def test_weights_of_independent_rows_are_optimal() -> None:
    # disjoint rows: every column meets its own cell and the total, a convex problem
    rows = np.diag([1.0, 2.0, 3.0])
    factor = np.diag([1.0, 4.0, 3.0])
    found = descended_weights(Candidates(rows, factor), np.ones(3), 100).matrix
    # each column alone: all columns tight
    best = float(np.sum(np.diagonal(factor) ** 2))
    assert brute_loss(factor, found) == pytest.approx(best, rel=1e-3)


def test_weights_leave_useless_rows_out() -> None:
    rows = np.concatenate([np.ones((1, 5)), np.eye(5)])
    total = factor_of_rows(np.ones((1, 5)))
    found = descended_weights(Candidates(rows, total), np.ones(6), 100).matrix
    assert brute_loss(np.ones((1, 5)), found) < 1.01
    cells = descended_weights(Candidates(rows, np.eye(5)), np.ones(6), 100).matrix
    assert brute_loss(np.eye(5), cells) < 5.05


def test_minimise_keeps_shapes_and_the_better_run() -> None:
    target = np.array([[3.0, 0.0], [0.0, 1e-9]])

    def value(point: Array) -> tuple[float, Array]:
        return float(np.sum((point - target) ** 2)), 2 * (point - target)

    found, lowest = minimise(value, np.ones((2, 2)), 50)
    assert found.shape == (2, 2)
    assert found == pytest.approx(target, abs=1e-5)
    sparse, least = minimise_sparse(value, np.ones((2, 2)), 20, 20)
    assert sparse == pytest.approx(target, abs=1e-5)
    assert max(lowest, least) < 1e-9
    assert step_seconds(4e10, 0) > 1.0


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(6, 4))
NORMS = [TOTAL, ErrorNorm(np.array([0, 1, 1, 2, 3, 0]), 4.0), ErrorNorm(np.arange(6), 9.0)]


def relative_slope_error(value, start) -> float:
    def of(flat, part):
        return np.ravel(value(flat.reshape(start.shape))[part])

    gap = check_grad(lambda x: of(x, 0)[0], lambda x: of(x, 1), start.ravel(), epsilon=1e-7)
    return gap / np.linalg.norm(of(start.ravel(), 1))


@pytest.mark.parametrize("errors", NORMS)
def test_slopes_are_those_of_the_value(errors: ErrorNorm) -> None:
    roots = RNG.normal(size=(7, 4))
    value = partial(free_columns_value, factor=ROWS, errors=errors)
    assert relative_slope_error(value, roots) < 1e-5
    value = partial(p_identity_value, factor=ROWS, errors=errors)
    assert relative_slope_error(value, roots[:2]) < 1e-5
    candidates = Candidates(np.concatenate([np.abs(roots), np.eye(4)]), ROWS, errors)
    value = partial(weights_value, candidates=candidates, sharpness=8.0)
    assert relative_slope_error(value, RNG.normal(size=11)) < 1e-5


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_slopes_of_marginals_are_those_of_the_value(norm: str) -> None:
    masks = [RNG.integers(0, 2, (9, 3)) > 0, RNG.integers(0, 2, (9, 2)) > 0]
    for mask in masks:
        mask[:, 0] = True
    problem = Problem.of(RowKronecker.from_masks(masks), norm, "max")
    rows = row_energies(problem)
    cover = make_cover(rows.energies, np.array([[0, 0], [0, 1], [1, 0], [1, 1]], bool))
    errors = ErrorNorm(np.arange(rows.table.shape[0]), 6.0)

    def value(weights):
        return worst_log_loss(weights, cover, rows.table, norm, errors)

    assert relative_slope_error(value, RNG.uniform(0.5, 1.0, 4)) < 1e-5


def test_a_large_power_is_the_largest_sum() -> None:
    errors = RNG.uniform(size=6)
    norm = ErrorNorm(np.array([0, 1, 1, 2, 3, 0]))
    value, slopes = norm.at(5000.0).log_value(errors)
    assert np.exp(value) == pytest.approx(norm.value(errors), rel=1e-3)
    assert slopes @ errors == pytest.approx(1.0)
    assert TOTAL.at(16.0) is TOTAL


def test_the_loss_of_a_matrix_is_the_direct_one() -> None:
    matrix = RNG.normal(size=(9, 4))
    errors = ((ROWS @ np.linalg.pinv(matrix)) ** 2).sum(axis=1)
    candidates = Candidates(matrix, ROWS, ErrorNorm(np.arange(6)))
    expected = np.abs(matrix).sum(axis=0).max() ** 2 * errors.max()
    assert matrix_loss(candidates, matrix) == pytest.approx(expected)
