"""Ranges of ordered cells as plain rows: trees, windows, Gaussian fits, against dense matrices."""

import numpy as np
import pytest

import strategies
from strategies import Problem, Search, evaluate, select
from strategies.bounds.ordered_dual import fitted_dual, fitted_gram, ranges_bound
from strategies.methods.trees import (
    best_hierarchy,
    block_traces,
    equal_loss,
    equal_trees,
    trees,
)
from strategies.methods.windows import Descent, RangeLoss, Windows
from strategies.operators import Dense, Ranges
from strategies.operators.base.recovery import factorised
from strategies.operators.ranges import ranges_error

FAMILY = strategies.ordered_cells()


def some_ranges(n, q, seed=0, longest=None):
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, n, q)
    stops = np.minimum(n, starts + generator.integers(1, (longest or n) + 1, q))
    return Ranges(n, starts, stops, generator.uniform(0.5, 2.0, q))


def dense_error(ranges, matrix):
    rows, measured = ranges.to_dense(), matrix.to_dense()
    return float(np.trace(rows @ np.linalg.solve(measured.T @ measured, rows.T)))


def test_means_over_blocks():
    ranges = some_ranges(37, 50)
    gram = ranges.to_dense().T @ ranges.to_dense()
    for size in (1, 3, 8, 64):
        blocks = np.arange(37) // size == np.arange(37)[:, None] // size
        assert block_traces(ranges, (size,))[0] == pytest.approx((gram * blocks).sum() / size)


@pytest.mark.parametrize("sizes", [(4,), (4, 12), (3, 6, 18)])
def test_windows_have_the_loss_and_slope_of_a_dense_matrix(sizes):
    ranges, generator = some_ranges(41, 60), np.random.default_rng(1)
    windows = Windows(41, sizes)
    loss = RangeLoss(windows, ranges)
    roots = windows.start(generator) * generator.choice([-1.0, 1.0], windows.shape)
    value, slope = loss(roots)
    matrix = Descent(ranges, sizes, 1, roots).matrix()
    assert np.exp(value) == pytest.approx(dense_error(ranges, matrix), rel=1e-9)
    for place in np.argwhere(windows.mask)[::29]:
        step = np.zeros(windows.shape)
        step[tuple(place)] = 1e-6
        found = (loss(roots + step)[0] - loss(roots - step)[0]) / 2e-6
        assert slope[tuple(place)] == pytest.approx(found, rel=1e-4, abs=1e-7)


def test_row_errors_by_sums_up_to_cuts():
    ranges = some_ranges(50, 80)
    matrix = equal_trees(50)[3]
    rows, measured = ranges.to_dense(), matrix.to_dense()
    expected = np.einsum("ij,ji->i", rows, np.linalg.solve(measured.T @ measured, rows.T))
    np.testing.assert_allclose(matrix.row_errors(ranges), expected, rtol=1e-9)


def test_row_errors_where_differences_cancel():
    """The sum of a long range is measured a million times as well as its cells."""
    ranges = Ranges(64, np.array([0, 1]), np.array([64, 64]), np.ones(2))
    matrix = equal_trees(64)[0]
    heavy = type(matrix)(matrix.diagonal, 1e6 * matrix.rows)
    rows, measured = ranges.to_dense(), heavy.to_dense()
    expected = np.square(rows @ np.linalg.pinv(measured)).sum(axis=1)
    np.testing.assert_allclose(heavy.row_errors(ranges), expected, rtol=1e-6)


def test_the_error_of_a_triangle():
    ranges, generator = some_ranges(30, 40), np.random.default_rng(2)
    matrix = Dense(np.triu(generator.normal(size=(30, 30))) + 5.0 * np.eye(30))
    found = ranges_error(factorised(matrix), ranges)
    assert found == pytest.approx(dense_error(ranges, matrix), rel=1e-9)


@pytest.mark.parametrize("longest", [None, 30])
def test_never_above_the_best_plain_tree(longest):
    ranges = some_ranges(640, 1000, 1, longest)
    plain = min(equal_loss(ranges, sizes, "l1") for sizes in trees(640))
    order = np.random.default_rng(3).permutation(640)
    found = select(
        ranges.to_sparse()[:, order], "l1", "ordered_cells", random_state=0, time_limit=0.5
    )
    assert found.loss < 0.9 * plain
    again = evaluate(ranges.to_dense()[:, order], found.matrix.to_dense())
    assert again.loss == pytest.approx(found.loss, rel=1e-6)


def test_cells_and_their_total():
    """A single row beside the cells, best with a weight of its own."""
    ranges = Ranges(500, np.r_[np.arange(500), 0], np.r_[np.arange(1, 501), 500], np.ones(501))
    weights = np.linspace(0.01, 0.5, 400)
    matrices = (np.vstack([(1 - w) * np.eye(500), w * np.ones((1, 500))]) for w in weights[::40])
    best = min(dense_error(ranges, Dense(matrix)) for matrix in matrices)
    assert best_hierarchy(ranges, "l1").loss < best * (1 + 1e-9)


def test_a_weighted_tree_is_never_above_an_equal_one():
    ranges = some_ranges(300, 200, 2)
    for norm in ("l1", "l2"):
        plain = min(equal_loss(ranges, sizes, norm) for sizes in trees(300))
        assert best_hierarchy(ranges, norm).loss <= plain * (1 + 1e-9)


@pytest.mark.parametrize("longest", [None, 100, 8])
def test_gaussian_noise_and_its_bound(longest):
    """The optimum lies between the bound at fitted weights and the fitted optimum."""
    ranges = some_ranges(240, 400, 4, longest)
    problem = Problem.of(ranges.to_sparse(), "l2")
    assert problem.ranges is not None
    found = FAMILY.search(problem, Search())
    reached = evaluate(problem.ranges, found, "l2").loss
    optimum = select(problem.workload, "l2", "gaussian_optimal", random_state=0).loss
    bound = ranges_bound(problem, problem.ranges)
    assert bound <= optimum * (1 + 1e-9)
    assert optimum <= reached * (1 + 1e-9) < 1.2 * bound


def test_a_fit_of_ordered_cells_is_close():
    """All ranges have a Gram of that form, and are recognised by it before any fit."""
    n = 40
    starts, stops = np.triu_indices(n)
    ranges = Ranges(n, starts, stops + 1, np.ones(len(starts)))
    problem = Problem.of(ranges.to_dense(), "l2")
    assert problem.ordered is not None
    assert problem.ranges is None
    assert fitted_dual(problem) is None
    fitted = fitted_gram(ranges).to_dense()
    np.testing.assert_allclose(fitted, ranges.gram_dense(), rtol=0.05)
