"""The least largest error of marginal tables for Gaussian noise: closed, at any size."""

import pytest

from strategies import evaluate, examples, select
from strategies.bounds.dual_ascent import climbable_rows, joint_dual
from strategies.bounds.lower_bound import table_dual
from strategies.operators import Marginals
from strategies.problem.problem import Problem

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
