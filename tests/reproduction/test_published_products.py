"""The published optimiser for training: its loss, its gradient, and that it descends."""

import numpy as np
import pytest
from forests_003.published_products import (
    PairLoss,
    alternate,
    descend,
    p_identity_error,
    p_identity_inverse,
)
from scipy import optimize

from strategies import evaluate
from strategies.bounds.path_bounds import distinct_paths
from strategies.operators import Dense, Kronecker, Product, RowKronecker
from strategies.operators.masks.components import mask_rows


def factor_matrix(theta):
    return np.concatenate([np.eye(theta.shape[1]), theta]) / (1 + theta.sum(axis=0))


def test_factor_columns_have_norm_one_and_the_inverse_is_right():
    theta = np.random.default_rng(0).uniform(size=(2, 5))
    matrix = factor_matrix(theta)
    np.testing.assert_allclose(matrix.sum(axis=0), 1)
    inverse, scales = p_identity_inverse(theta)
    expected = np.linalg.inv(matrix.T @ matrix)
    np.testing.assert_allclose(scales[:, None] * inverse * scales, expected)


def test_error_and_gradient():
    rng = np.random.default_rng(1)
    theta, root = rng.uniform(size=(2, 5)), rng.normal(size=(4, 5))
    gram = root.T @ root
    matrix = factor_matrix(theta)
    value, gradient = p_identity_error(theta.ravel(), gram)
    assert np.exp(value) == pytest.approx(np.sum((root @ np.linalg.pinv(matrix)) ** 2))
    numeric = optimize.approx_fprime(theta.ravel(), lambda x: p_identity_error(x, gram)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)
    assert not np.allclose(-gradient, numeric, atol=1e-5)


def test_descent_never_ends_above_its_start():
    gram = np.tri(32).T @ np.tri(32)
    theta = np.random.default_rng(0).uniform(size=(2, 32))
    found = descend(theta, gram, 30)
    assert p_identity_error(found.ravel(), gram)[0] < p_identity_error(theta.ravel(), gram)[0]


@pytest.mark.parametrize("mixed", [False, True])
def test_pair_loss_is_the_dense_loss(mixed):
    rng = np.random.default_rng(2)
    sizes = (3, 4, 2)
    rows = RowKronecker.from_masks([rng.uniform(size=(9, n)) < 0.6 for n in sizes])
    workload = Product(Dense(rng.normal(size=(5, 9))), rows) if mixed else rows
    loss = PairLoss.of(distinct_paths(mask_rows(workload)))
    thetas = {i: rng.uniform(size=(1, n)) for i, n in enumerate(sizes)}
    value, found = alternate(loss, thetas, rounds=1, iterations=3)
    matrix = Kronecker([Dense(factor_matrix(found[i])) for i in range(3)])
    assert matrix.sensitivity("l1") == pytest.approx(1)
    dense = np.sum((workload.to_dense() @ np.linalg.pinv(matrix.to_dense())) ** 2)
    assert value == pytest.approx(dense)
    assert evaluate(workload, matrix).loss == pytest.approx(dense)
