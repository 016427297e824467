"""Descents on p-norms of errors: slopes against differences, and the limits of p."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import check_grad

from strategies.methods.descents import TOTAL, ErrorNorm, free_columns_value, p_identity_value
from strategies.methods.marginals.algebra import make_cover
from strategies.methods.marginals.optimiser import row_energies, worst_log_loss
from strategies.methods.weighted_rows import Candidates, matrix_loss, weights_value
from strategies.operators import RowKronecker
from strategies.problem.problem import Problem

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
