"""The cells as they are, and the workload's distinct rows with optimised weights."""

import numpy as np
import pytest
from scipy import optimize

from strategies import Problem, evaluate, examples, select
from strategies.methods.workload_itself import (
    balanced_weights,
    distinct_rows,
    optimised_weights,
    smoothed_loss,
)
from strategies.operators import Grouping, Identity, Product, RowKronecker, Sparse, memory_cap

NORMS = ("l1", "l2")


@pytest.mark.parametrize("norm", NORMS)
def test_gradient(norm: str) -> None:
    random = np.random.default_rng(0)
    rows = np.abs(random.normal(size=(6, 4))) * (random.random((6, 4)) < 0.6)
    rows[:, 3] = 0.0
    counts, power = random.integers(1, 9, size=6).astype(float), 1 if norm == "l1" else 2
    logs = random.normal(size=6)

    def value(x: np.ndarray) -> float:
        return smoothed_loss(x, rows**power, counts, power, 8.0)[0]

    gradient = smoothed_loss(logs, rows**power, counts, power, 8.0)[1]
    assert gradient == pytest.approx(optimize.approx_fprime(logs, value, 1e-7), abs=1e-5)


@pytest.mark.parametrize(("norm", "law"), [("l1", 1 / 3), ("l2", 1 / 4)])
def test_rows_that_meet_everywhere_follow_the_law(norm: str, law: float) -> None:
    """For the total asked 8 times and independent rows everywhere, weights are powers of counts."""
    signs = np.array([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]])
    workload = np.repeat(signs, [8, 1, 27], axis=0)
    strategy = select(workload, norm, method="workload_itself")
    counts = np.array([8.0, 1.0, 27.0])
    weights = counts**law
    sensitivity = weights.sum() if norm == "l1" else np.sqrt(np.sum(weights**2))
    assert strategy.loss == pytest.approx(sensitivity**2 * np.sum(counts / weights**2), rel=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_optimised_weights_beat_the_start(norm: str) -> None:
    random = np.random.default_rng(1)
    for _ in range(5):
        workload = np.repeat(random.normal(size=(4, 6)), random.integers(1, 9, size=4), axis=0)
        problem = Problem.of(workload, norm)
        distinct = distinct_rows(problem)
        rows = distinct.rows.to_dense()
        balanced = balanced_weights(distinct.counts, norm)[:, None] * rows
        chosen = optimised_weights(distinct, norm, 1.0)[:, None] * rows
        assert evaluate(workload, chosen, norm).loss <= evaluate(workload, balanced, norm).loss


def test_duplicates_and_zeros_are_dropped() -> None:
    rows = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, -0.0], [0.0, 0.0, 5.0]])
    for form in (rows, Sparse(rows)):
        distinct = distinct_rows(Problem.of(form))
        assert distinct.rows.shape == (2, 3)
        assert sorted(distinct.counts) == [1.0, 2.0]


def test_a_gram_has_its_root_for_rows() -> None:
    strategy = select(examples.all_ranges(8), method="workload_itself")
    assert strategy.loss >= strategy.lower_bound


def test_domains_too_large_to_enumerate() -> None:
    random = np.random.default_rng(2)
    fixed = random.integers(0, 2, size=(12, 8))
    masks = [np.eye(2)[code] for code in fixed.T] + [np.ones((12, 2))] * 4
    paths = RowKronecker.from_masks([*masks[:8], *masks[8:]])
    doubled = paths.take_rows(np.concatenate([np.arange(12), [0, 0]]))
    small = select(doubled, method="workload_itself")
    with memory_cap(2**15):
        assert Problem.of(doubled).merging is None
        large = select(doubled, method="workload_itself", time_limit=1.0)
        assert large.loss >= small.loss * (1 - 1e-9)
        votes = Product(Sparse(np.ones((1, 14))), doubled)
        assert select(votes, method="workload_itself").loss > 0


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_merged_cells_cost_less(norm: str) -> None:
    workload = np.array([[1.0, 1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 1.0]])
    strategy = select(workload, norm, method="identity")
    assert isinstance(strategy.matrix, Grouping)
    assert strategy.matrix.shape == (2, 4)
    assert strategy.sensitivity == 1.0
    assert strategy.loss == 1.0 + 4.0 + 1.0
    assert strategy.method == "identity"
    assert evaluate(workload, np.eye(4), norm).loss == 3.0 + 4.0 + 1.0
    assert evaluate(workload, strategy.matrix.to_dense(), norm).loss == pytest.approx(strategy.loss)
    assert strategy.row_errors(workload) == pytest.approx([5.0, 1.0])


def test_distinct_columns_stay_cells() -> None:
    strategy = select(np.tri(5), method="identity")
    assert isinstance(strategy.matrix, Identity)
    assert strategy.loss == 15.0


def test_huge_domains() -> None:
    paths = RowKronecker.from_masks([np.array([[1, 0], [0, 1]])] * 90)
    strategy = select(paths, method="identity")
    assert strategy.matrix.shape == (2**90, 2**90)
    assert strategy.matrix.sizes == (2,) * 90
    assert strategy.loss == 2.0
