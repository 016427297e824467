"""Certified bounds: never above any strategy, met by the Gaussian optimum, exact where closed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from strategies import evaluate, examples, select
from strategies.bounds.dual_ascent import (
    ascend,
    assess_weights,
    certified_bound,
    climbable_rows,
    gaussian_strategy,
    heavy_bound,
    joint_climb,
    joint_dual,
    joint_strategy,
    steps_within,
    uniform_bound,
    update_seconds,
    updated_weights,
)
from strategies.bounds.lower_bound import (
    algebra_bound,
    closed_bound,
    largest_entries,
    lower_bound,
    product_bound,
    row_maximum_bound,
    rows_bound,
    table_dual,
    total_bound,
    worst_bound,
)
from strategies.bounds.ordered_dual import interpolated_weights, ordered_bound, root_diagonal
from strategies.operators import (
    Dense,
    Gram,
    Identity,
    Kronecker,
    Marginals,
    PrefixSums,
    RowKronecker,
    RowScaled,
)
from strategies.operators.ordered_sums import OrderedGram
from strategies.problem.objective import Aim, distinct_rows, factor_of_gram, factor_of_rows
from strategies.problem.problem import Problem

Array = NDArray[np.float64]


@st.composite
def small_workloads(draw: st.DrawFn) -> Array:
    """Draw small integer workloads, with zero rows and columns, repeats and low rank."""
    rows = draw(st.integers(1, 7))
    cells = draw(st.integers(1, 6))
    entries = st.integers(-2, 3)
    flat = draw(st.lists(entries, min_size=rows * cells, max_size=rows * cells))
    workload = np.array(flat, dtype=float).reshape(rows, cells)
    if draw(st.booleans()):
        workload = np.concatenate([workload, workload[:1]])
    if draw(st.booleans()):
        workload[:, draw(st.integers(0, cells - 1))] = 0.0
    if not workload.any():
        workload[0, 0] = 1.0
    return workload


def any_loss(workload: Array, matrix: Array, norm: str) -> float:
    """Return a loss by the pseudo-inverse, independently of the library."""
    sensitivity = np.linalg.norm(matrix, ord=1 if norm == "l1" else 2, axis=0).max()
    return float(sensitivity**2 * np.sum((workload @ np.linalg.pinv(matrix)) ** 2))


@given(small_workloads())
def test_weights_by_length_prove_a_bound(workload: Array) -> None:
    """No more than the climbed ones, and no less than a cell alone."""
    best = lower_bound(Problem.of(workload, "l2")) * (1 + 1e-3)
    bound = heavy_bound(Dense(workload))
    assert (workload**2).sum(axis=0).max() / workload.shape[1] * (1 - 1e-6) <= bound <= best


def test_few_long_rows_have_a_bound_in_one_spectrum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of thousands of cells are not begun where that takes minutes; those known are used.

    Within a fifth of the optimum, where the rows' largest entries add up to a third of it.
    """
    workload = (np.random.default_rng(0).random((40, 600)) < 0.03).astype(float)
    monkeypatch.setattr("strategies.bounds.dual_ascent.LONGEST", 0.0)
    brief = lower_bound(Problem.of(workload, "l2"))
    found = select(workload, "l2", method="gaussian_optimal", random_state=0)
    assert found.lower_bound >= 0.999 * found.loss
    assert 0.8 * found.loss <= brief < 0.999 * found.loss


@pytest.mark.parametrize("cells", [2, 300])
def test_rounding_down_costs_next_to_nothing(cells: int) -> None:
    weights = np.full(cells, 1 / cells)
    assert certified_bound(np.eye(cells), weights) == pytest.approx(cells, rel=2e-9)
    assert certified_bound(np.eye(cells), weights) < cells


def test_units_of_a_workload_do_not_change_what_weights_prove() -> None:
    factor = np.vstack([np.tri(4), np.ones((1, 4))])  # of deficient rank
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    plain, small = assess_weights(factor, weights), assess_weights(1e-9 * factor, weights)
    assert small.root == pytest.approx(1e-9 * plain.root)
    np.testing.assert_allclose(small.ratios, 1e-9 * plain.ratios, rtol=1e-3)


def test_ordered_cells_of_very_different_weight_keep_the_bound_of_the_rows() -> None:
    """There the bound for ordered cells is far below the optimum that its climb found."""
    weights = np.logspace(6, -2, 4)
    problem = Problem.of(examples.prefix_sums(4), "l2", weights=weights)
    assert problem.ordered is not None
    found = select(examples.prefix_sums(4), "l2", weights=weights, random_state=0)
    assert found.loss * 0.99 <= lower_bound(problem) <= found.loss * (1 + 1e-9)


def test_weights_on_a_line_stay_on_it_between_cells() -> None:
    found = interpolated_weights(np.arange(1.0, 6.0), 9)
    np.testing.assert_allclose(found, np.linspace(1, 5, 9) / 27)


@pytest.mark.parametrize("groups", [None, [0, 1, 1]])
def test_the_largest_entries_bound_the_worst_error(groups: list[int] | None) -> None:
    scaled = RowScaled(np.array([3.0, 2.0, 2.5]), RowKronecker.from_masks([np.eye(3, dtype=bool)]))
    aim = Aim.of(scaled, "max", groups)
    assert largest_entries(scaled, aim) == pytest.approx(9.0 if groups is None else 4 + 6.25)


@given(workload=small_workloads(), seed=st.integers(0, 2**32 - 1))
def test_no_strategy_is_below_the_bound(workload: Array, seed: int) -> None:
    random = np.random.default_rng(seed)
    cells = workload.shape[1]
    bound = lower_bound(Problem.of(workload))
    assert bound >= 0
    stacked = np.concatenate([np.eye(cells), random.normal(size=(3, cells))])
    for norm in ("l1", "l2"):
        for matrix in (np.eye(cells), stacked, random.normal(size=(cells + 2, cells))):
            assert bound <= any_loss(workload, matrix, norm) * (1 + 1e-9)


@given(workload=small_workloads(), seed=st.integers(0, 2**32 - 1))
def test_every_distribution_proves_a_bound(workload: Array, seed: int) -> None:
    random = np.random.default_rng(seed)
    factor = factor_of_rows(workload)
    weights = random.dirichlet(np.full(workload.shape[1], 0.3)) + 1e-12
    value = np.linalg.norm(workload * np.sqrt(weights / weights.sum()), ord="nuc") ** 2
    assert certified_bound(factor, weights / weights.sum()) <= value * (1 + 1e-12) + 1e-15
    assert certified_bound(factor, weights / weights.sum()) == pytest.approx(
        value, rel=1e-5, abs=1e-6
    )


@given(workload=small_workloads())
def test_gaussian_optimum_meets_the_bound(workload: Array) -> None:
    strategy = select(workload, "l2", method="gaussian_optimal", random_state=0)
    assert strategy.lower_bound <= strategy.loss
    assert strategy.loss <= strategy.lower_bound * (1 + 1e-3)
    assert strategy.sensitivity == pytest.approx(1.0)


def test_known_values() -> None:
    # prefix sums, ranges and tree nodes of 64 cells: the published certified bounds
    assert lower_bound(Problem.of(examples.prefix_sums(64))) == pytest.approx(282, rel=2e-3)
    assert lower_bound(Problem.of(examples.all_ranges(64))) == pytest.approx(11024, rel=2e-3)
    assert lower_bound(Problem.of(examples.binary_tree(64))) == pytest.approx(251, rel=2e-3)
    assert lower_bound(Problem.of(np.eye(5))) == pytest.approx(5.0, rel=1e-6)
    assert lower_bound(Problem.of(np.ones((3, 4)))) == pytest.approx(3.0, rel=1e-6)


def test_uniform_weights_are_the_svd_bound() -> None:
    workload = np.tri(9)
    uniform = assess_weights(factor_of_rows(workload), np.full(9, 1 / 9))
    assert uniform.root**2 == pytest.approx(np.linalg.norm(workload, ord="nuc") ** 2 / 9)


def test_many_cells_keep_uniform_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = np.vstack([np.tri(9), np.arange(9) % 2])
    climbed = lower_bound(Problem.of(workload))
    monkeypatch.setattr("strategies.bounds.lower_bound.LARGEST", 8)
    uniform = lower_bound(Problem.of(workload))
    assert uniform == uniform_bound(workload.T @ workload)
    assert uniform == pytest.approx(np.linalg.norm(workload, ord="nuc") ** 2 / 9, rel=1e-6)
    assert uniform < climbed


def test_plain_updates_climb_and_the_gap_closes() -> None:
    factor = factor_of_rows(np.tri(12) * np.linspace(1, 4, 12))
    dual = assess_weights(factor, np.full(12, 1 / 12))
    for _ in range(40):
        moved = assess_weights(factor, updated_weights(dual, 1.0))
        assert moved.root >= dual.root * (1 - 1e-12)
        dual = moved
    best = ascend(factor, 1e-7, 2000)
    assert best.gap <= 1e-7
    assert dual.root <= best.root * (1 + best.gap)
    columns = np.linalg.norm(gaussian_strategy(factor, best), axis=0)
    assert columns.max() == pytest.approx(1.0)


def test_few_steps_still_prove_something() -> None:
    workload = np.tri(30)[:29]
    short, long = rows_bound(Problem.of(workload), 1e-9), rows_bound(Problem.of(workload))
    assert 0 < short < long
    assert steps_within(update_seconds(workload), 1e-9) == 2


def test_a_climb_is_taken_up_where_it_ended() -> None:
    problem = Problem.of(np.vstack([np.tri(12), np.arange(12) % 2]))
    short, long = rows_bound(problem, 1e-9), rows_bound(problem)
    assert short < long
    assert long == rows_bound(problem, 1e-9) == rows_bound(Problem.of(problem.workload))


def test_gram_and_rows_agree() -> None:
    random = np.random.default_rng(0)
    workload = random.integers(0, 4, size=(40, 3)) @ random.integers(0, 3, size=(3, 12))
    gram = workload.T @ workload
    by_rows = factor_of_rows(workload.astype(float))
    by_gram = factor_of_gram(gram.astype(float))
    assert by_rows.shape == by_gram.shape == (3, 12)
    assert by_rows.T @ by_rows == pytest.approx(gram)
    assert by_gram.T @ by_gram == pytest.approx(gram)
    problem = Problem.of(Gram(gram.astype(float)))
    assert lower_bound(problem) == pytest.approx(lower_bound(Problem.of(workload)), rel=1e-6)
    assert problem.factor is problem.factor


def test_optimum_agrees_with_a_semidefinite_program() -> None:
    cvxpy = pytest.importorskip("cvxpy")
    random = np.random.default_rng(3)
    for workload in (np.tri(6), random.integers(0, 3, size=(8, 5)).astype(float)):
        gram = workload.T @ workload
        g = len(gram)
        spread, root = cvxpy.Variable((g, g), symmetric=True), np.linalg.cholesky(gram)
        slack = cvxpy.Variable((g, g), symmetric=True)
        block = cvxpy.bmat([[slack, root.T], [root, spread]])
        constraints = [block >> 0, cvxpy.diag(spread) <= 1]
        program = cvxpy.Problem(cvxpy.Minimize(cvxpy.trace(slack)), constraints)
        program.solve(solver="CLARABEL")
        bound = lower_bound(Problem.of(workload))
        assert bound == pytest.approx(program.value, rel=1e-3)
        assert bound <= program.value * (1 + 1e-6)
        found = select(workload, "l2", method="gaussian_optimal", random_state=0)
        assert found.loss == pytest.approx(program.value, rel=1e-5)


def test_negative_control_a_wrong_bound_is_caught() -> None:
    workload = np.tri(8)
    wrong = 1.01 * evaluate(workload, np.eye(8)).loss
    assert wrong > any_loss(workload, np.eye(8), "l1")
    assert lower_bound(Problem.of(workload)) < any_loss(workload, np.eye(8), "l1")


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


@pytest.mark.parametrize("most", [0, 8192])
def test_cells_hard_to_tell_apart_prove_no_more(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two cells, ``(tr M^½)² = tr M + 2 √det M``: both without a difference that rounds."""
    monkeypatch.setattr("strategies.bounds.ordered_dual.MOST_SPECTRUM", most)
    random = np.random.default_rng(0)
    for step in 2.0 ** random.integers(-29, 1, 200):
        high, weights = random.uniform(0.5, 1.0, 2), random.dirichlet((9.0, 9.0))
        gram = OrderedGram(high * (1.0, 1.0 + step), high)
        exact = gram.diagonal @ weights + 2.0 * high.prod() * np.sqrt(weights.prod() * step)
        assert exact * 0.9999 <= ordered_bound(gram, weights) <= exact


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


TABLES = {
    "one way": examples.marginals((4, 5, 2, 3), 1),
    "two way": examples.marginals((4, 5, 2, 3), 2),
    "weighted": Marginals((3, 2, 4), [(0, 1), (2,), ()], [1.0, 3.0, 0.0]),
    "large": examples.marginals((100, 50, 7, 4, 2), 2),
    "many": examples.marginals((2,) * 60, 2),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_strategy_meets_the_bound(name: str) -> None:
    strategy = select(TABLES[name], "l2", objective="max", random_state=0)
    assert strategy.certified_ratio <= 1 + 2e-4
    assert strategy.lower_bound <= strategy.loss


@pytest.mark.parametrize("name", ["one way", "two way"])
def test_the_dense_routes_agree(name: str) -> None:
    """The loss of the explicit matrix, and the climb over all rows."""
    workload = TABLES[name]
    strategy = select(workload, "l2", objective="max", random_state=0)
    dense = evaluate(workload.to_dense(), strategy.matrix.to_dense(), "l2", "max")
    assert dense.loss == pytest.approx(strategy.loss, rel=1e-8)
    problem = Problem.of(workload.to_dense(), "l2", "max")
    rows, dual = climbable_rows(problem), table_dual(Problem.of(workload, "l2", "max"))
    assert rows is not None
    assert dual is not None
    assert joint_dual(problem, rows, 4.0).root ** 2 == pytest.approx(dual.bound, rel=1e-3)


def test_groups_of_the_user_have_no_tables() -> None:
    workload = examples.marginals((2, 3), 1)
    assert table_dual(Problem.of(workload, "l2", "max", None, [0, 1, 0, 1, 0])) is None
