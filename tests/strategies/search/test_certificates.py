"""No loss below its bound and no workload outside the row space, on thousands of workloads."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from strategies import evaluate, select

NORMS = ("l1", "l2")
SMALL = st.sampled_from([0.0, 0.0, 1.0, 1.0, -1.0, 2.0, 0.5, 3.0, 1e-3, 100.0])


@st.composite
def workloads(draw: st.DrawFn) -> np.ndarray:
    """Small workloads with every defect: repeats, zeros, low rank, one row or column."""
    q, n = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    matrix = draw(arrays(float, (q, n), elements=SMALL))
    kind = draw(
        st.sampled_from(["plain", "low rank", "repeated rows", "repeated columns", "holes"])
    )
    if kind == "low rank":
        rank = draw(st.integers(1, 2))
        right = draw(arrays(float, (rank, n), elements=SMALL))
        matrix = draw(arrays(float, (q, rank), elements=SMALL)) @ right
    if kind == "repeated rows":
        matrix = matrix[draw(st.lists(st.integers(0, q - 1), min_size=1, max_size=9))]
    if kind == "repeated columns":
        matrix = matrix[:, draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=9))]
    if kind == "holes":
        matrix[draw(st.integers(0, q - 1))] = 0.0
        matrix[:, draw(st.integers(0, n - 1))] = 0.0
    return matrix


def residual(workload: np.ndarray, matrix: np.ndarray) -> float:
    """Return ``||W - W A⁺ A|| / ||W||``."""
    outside = workload - workload @ np.linalg.pinv(matrix, rcond=1e-10) @ matrix
    return float(np.linalg.norm(outside) / np.linalg.norm(workload))


@given(workloads(), st.sampled_from(NORMS), st.integers(0, 3))
def test_cheap_strategies(workload: np.ndarray, norm: str, seed: int) -> None:
    if not workload.any():
        return
    n = workload.shape[1]
    square = np.random.default_rng(seed).normal(size=(n + 1, n))
    for matrix in (np.eye(n), workload, square, np.vstack([workload, np.eye(n)])):
        strategy = evaluate(workload, matrix, norm)
        assert strategy.loss >= strategy.lower_bound * (1 - 1e-9)
    strategy = select(workload, norm, method="workload_itself", time_limit=0.01)
    assert strategy.loss >= strategy.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_a_faint_row_is_told_from_rounding(norm):
    """Its second singular value is 5e-8 of the first: nothing, in the rounding of a Gram."""
    workload = np.zeros((4, 4))
    workload[0, :2], workload[1, 1] = (0.5, 100), 1e-3
    assert evaluate(workload, workload, norm).loss > 0


@given(workloads(), st.sampled_from(NORMS), st.integers(0, 3))
def test_the_portfolio(workload: np.ndarray, norm: str, seed: int) -> None:
    if not workload.any():
        return
    strategy = select(workload, norm, random_state=seed, time_limit=0.05)
    assert strategy.loss >= strategy.lower_bound * (1 - 1e-9)
    assert residual(workload, strategy.matrix.to_dense()) < 1e-6
    errors = strategy.row_errors(workload)
    assert errors.sum() == pytest.approx(strategy.loss, rel=1e-6)
    assert strategy.loss <= evaluate(workload, np.eye(workload.shape[1]), norm).loss * (1 + 1e-9)
