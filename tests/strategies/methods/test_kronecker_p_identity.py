"""Kronecker products of p-Identity factors: the loss, its gradient, and what they win."""

import numpy as np
import pytest
from scipy import optimize

import strategies
from strategies import evaluate
from strategies.bounds.path_bounds import distinct_paths
from strategies.methods.family import Search
from strategies.methods.kronecker_p_identity import (
    PairLoss,
    alternate,
    descend,
    p_identity_error,
    p_identity_inverse,
)
from strategies.operators import Dense, Identity, Kronecker, Product, RowKronecker
from strategies.operators.masks.components import mask_rows
from strategies.problem.problem import Problem

FAMILY = strategies.kronecker_p_identity()


def products_of_prefixes(*sizes):
    """Build every product of a prefix of each attribute."""
    index = np.indices(sizes).reshape(len(sizes), -1)
    masks = [np.tri(n, dtype=bool)[rows] for n, rows in zip(sizes, index, strict=True)]
    return RowKronecker.from_masks(masks)


def search_of(seed, work=0.3):
    return Search((), np.random.default_rng(seed), work)


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


def test_prefixes_of_two_attributes():
    problem = Problem.of(products_of_prefixes(24, 24))
    found = FAMILY.search(problem, search_of(0))
    ratio = evaluate(problem.workload, found).loss / evaluate(problem.workload, Identity(576)).loss
    assert ratio < 0.6


def test_never_worse_than_the_identity_and_deterministic():
    rng = np.random.default_rng(3)
    workload = RowKronecker.from_masks([rng.uniform(size=(30, n)) < 0.7 for n in (3, 4, 3)])
    problem = Problem.of(workload)
    first, again = (FAMILY.search(problem, search_of(5)) for _ in range(2))
    loss = evaluate(workload, first).loss
    assert loss <= evaluate(workload, Identity(36)).loss * (1 + 1e-9)
    assert loss == evaluate(workload, again).loss


def test_huge_domain():
    masks = [np.ones((4, 16), dtype=bool) for _ in range(40)]
    for i in range(4):
        masks[i][i] = np.arange(16) < 8
    problem = Problem.of(RowKronecker.from_masks(masks))
    found = FAMILY.search(problem, search_of(0, 0.2))
    strategy = evaluate(problem.workload, found)
    assert strategy.loss <= 4 * 16.0**40  # the Identity pays the cells of every row


def test_what_it_serves():
    assert FAMILY.serves(Problem.of(products_of_prefixes(3, 3)))
    assert not FAMILY.serves(Problem.of(products_of_prefixes(3, 3), "l2"))
    assert not FAMILY.serves(Problem.of(products_of_prefixes(9)))
    assert not FAMILY.serves(Problem.of(np.tri(4)))
