"""Bounds in closed form: exact where they should be, and never rounded up."""

import numpy as np
import pytest

from strategies import evaluate, select
from strategies.bounds.dual_ascent import joint_climb, joint_strategy
from strategies.bounds.lower_bound import (
    algebra_bound,
    closed_bound,
    largest_entries,
    product_bound,
    row_maximum_bound,
    table_dual,
    total_bound,
    worst_bound,
)
from strategies.bounds.ordered_dual import root_diagonal
from strategies.operators import Dense, Identity, Kronecker, Marginals, PrefixSums
from strategies.problem.objective import Aim, distinct_rows
from strategies.problem.problem import Problem

WORKLOAD = np.array([[3.0, 1.0, 0.0], [0.0, -2.0, 2.0]])


def test_largest_entries_are_added_and_rounded_down() -> None:
    bound = row_maximum_bound(Problem.of(WORKLOAD))
    assert 13.0 * (1 - 1e-9) <= bound < 13.0


def test_cheap_bounds_take_the_better() -> None:
    product = Kronecker([Dense(WORKLOAD), Dense(np.eye(2))])
    for workload in (Dense(WORKLOAD), product):
        problem = Problem.of(workload)
        found = closed_bound(problem)
        assert found == max(product_bound(problem), row_maximum_bound(problem)) > 0
    assert product_bound(Problem.of(product)) > 0
    assert closed_bound(Problem.of(product, objective="max")) is None


def test_products_multiply_bounds_for_gaussian_noise_alone() -> None:
    """Volumes bound one factor for Laplace noise: times another's bound they prove nothing."""
    singles = Marginals((2,) * 90, [(i,) for i in range(90)], [1.0] * 90)
    product = Kronecker([singles, PrefixSums(4)])
    laplace, gaussian = (product_bound(Problem.of(product, norm)) for norm in ("l1", "l2"))
    assert algebra_bound(Problem.of(singles, "l1")) > algebra_bound(Problem.of(singles, "l2"))
    assert laplace == gaussian
    for norm, bound in (("l1", laplace), ("l2", gaussian)):
        reached = evaluate(product, Kronecker([singles, Identity(4)]), norm).loss
        assert 0.0 < bound <= reached


@pytest.mark.parametrize(("groups", "most"), [(None, 1), ([0, 1, 0, 0], 3)])
def test_an_aim_counts_its_sums(groups: list[int] | None, most: int) -> None:
    aim = Aim.of(Identity(4), "max", groups)
    assert aim.most_rows(4) == most
    assert aim.n_groups(4) == (4 if groups is None else 2)
    assert (Aim().most_rows(4), Aim().n_groups(4)) == (4, 1)


@pytest.mark.parametrize("weight", [0.01, 1.0, 30.0])
def test_beyond_enumeration_the_best_of_three_bounds_counts(weight: float) -> None:
    tables = Marginals((10,) * 12, [(0,), (1, 2)], [1.0, weight])
    problem = Problem.of(tables, "l1", "max")
    assert problem.merging is None
    entries, share = largest_entries(tables, problem.aim), total_bound(problem) / tables.shape[0]
    assert entries == max(1.0, weight) ** 2
    dual = table_dual(problem)
    assert dual is not None
    assert dual.bound >= share * (1 - 1e-9)
    assert worst_bound(problem) == max(entries, share, dual.bound)


def test_a_joint_strategy_has_norm_one() -> None:
    problem = Problem.of(WORKLOAD, "l2", "max")
    rows = distinct_rows(problem.workload, problem.aim)
    assert rows is not None
    matrix = joint_strategy(rows, joint_climb(rows).to(1e-3, 30))
    assert np.linalg.norm(matrix, axis=0).max() == pytest.approx(1.0)


def test_the_diagonal_of_an_inverse_root_is_that_of_the_spectrum() -> None:
    random = np.random.default_rng(1)
    side = random.normal(size=11)
    diagonal = 0.01 + np.abs(np.append(side, 0.0)) + np.abs(np.append(0.0, side))
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1))
    expected = (vectors**2 / np.sqrt(values)).sum(axis=1)
    np.testing.assert_allclose(root_diagonal(diagonal, side), expected, rtol=1e-9)


def test_negative_zero_is_zero() -> None:
    rows = distinct_rows(Dense([[0.0, 1.0], [-0.0, 1.0]]), Aim("max"))
    assert rows is not None
    assert rows.rows.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("d", "volume", "gaussian"), [(64, 2679.6, 2592.0), (123, 17113.0, 8990.1)]
)
def test_many_binary_attributes_have_a_volume_bound(d: int, volume: float, gaussian: float) -> None:
    """Laplace noise costs the cube of the rank where the hull of the columns is round."""
    tables = Marginals((2,) * d, [(i,) for i in range(d)], [1.0] * d)
    assert algebra_bound(Problem.of(tables, "l1")) == pytest.approx(volume, rel=1e-4)
    assert algebra_bound(Problem.of(tables, "l2")) == pytest.approx(gaussian, rel=1e-4)


@pytest.mark.parametrize("sizes", [(2,) * 90, (2, 3) * 40, (4,) * 60])
def test_no_volume_bound_is_above_a_strategy(sizes: tuple[int, ...]) -> None:
    d = len(sizes)
    weights = np.random.default_rng(d).uniform(0.5, 1.5, d)
    tables = Marginals(sizes, [(i,) for i in range(d)], weights)
    bound = algebra_bound(Problem.of(tables, "l1"))
    found = select(tables, "l1", method="residual_marginals", random_state=0, time_limit=1)
    assert algebra_bound(Problem.of(tables, "l2")) < bound < found.loss
