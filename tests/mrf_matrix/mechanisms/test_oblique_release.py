"""Oblique residuals from selection to answers: exact integers, the noise that was promised."""

from itertools import combinations

import numpy as np
import pytest

from mrf_matrix.mechanisms import ZCDP, count_cells, measure, reconstruct
from mrf_matrix.mechanisms.measurement.mechanism import calibrate
from mrf_matrix.mechanisms.measurement.reconstruct import row_variances
from mrf_matrix.mechanisms.rounding.rounding import round_strategy
from strategies import select
from strategies.operators import (
    AllRanges,
    Dense,
    Grouping,
    Identity,
    Kronecker,
    ObliqueResiduals,
    Operator,
    PrefixSums,
    Stack,
    error_trace,
)

SIZES = (6, 4, 3)


def ways(factors: list[Operator], k: int) -> Stack:
    sums = [Grouping(np.zeros(factor.shape[1], dtype=np.int64)) for factor in factors]
    chosen = combinations(range(len(factors)), k)
    return Stack(
        [Kronecker([f if i in s else sums[i] for i, f in enumerate(factors)]) for s in chosen]
    )


FEW = [[0, 1, 2, 3, 4, 5], [1, 0, 2, 0, 1, 1]]
WORKLOADS = {
    "prefix sums": ways([PrefixSums(6), PrefixSums(4), Identity(3)], 2),
    "fewer rows than codes": Stack(
        [
            Kronecker(
                [Dense([[0, 1, 2, 3, 4, 5], [1, 0, 2, 0, 1, 1]]), PrefixSums(4), Identity(3)]
            ),
            Kronecker([Dense([[5, 3, 1, 2, 0, 4]]), Identity(4), Dense(np.ones((1, 3)))]),
        ]
    ),
}
CODES = np.random.default_rng(0).integers(0, SIZES, size=(400, 3))
COUNTS = count_cells(CODES, np.zeros(400, dtype=int), SIZES, 1)
TABLE = np.zeros(SIZES)
np.add.at(TABLE, tuple(CODES.T), 1)


@pytest.mark.parametrize("name", WORKLOADS)
def test_integers_sensitivity_and_errors(name: str) -> None:
    """The rounded matrix is of integers, its sensitivity exact, its error the loss."""
    workload = WORKLOADS[name]
    strategy = select(workload, "l2", method="oblique_residuals", random_state=0)
    mechanism = calibrate(strategy, ZCDP(0.5), workload=workload)
    matrix = mechanism.rounded.matrix
    assert isinstance(matrix, ObliqueResiduals)
    dense = matrix.to_dense()
    assert np.array_equal(dense, np.rint(dense))
    columns = [sum(int(v) ** 2 for v in column) for column in dense.T]
    assert mechanism.rounded.column_sum == max(columns)
    release = measure(mechanism, COUNTS, noise="research", random_state=0)
    assert mechanism.rounded.is_unbiased
    tolerance = 1e-4 if name == "prefix sums" else 3e-3  # faint rows keep the frames' span
    assert row_variances(release, workload).sum() == pytest.approx(strategy.loss, rel=tolerance)


@pytest.mark.parametrize("name", WORKLOADS)
def test_without_noise_the_answers_are_the_counts(name: str) -> None:
    workload = WORKLOADS[name]
    strategy = select(workload, "l2", method="oblique_residuals", random_state=0)
    release = measure(strategy, COUNTS, ZCDP(float("inf")), workload=workload)
    answers = reconstruct(release, workload)
    assert np.allclose(answers.ravel(), workload.to_dense() @ TABLE.ravel(), atol=1e-3)


def test_noise_is_as_expected() -> None:
    """Mean squared errors of 100 releases against the promise, within five deviations."""
    workload = WORKLOADS["prefix sums"]
    strategy = select(workload, "l2", method="oblique_residuals", random_state=0)
    mechanism = calibrate(strategy, ZCDP(0.5), workload=workload)
    truth = workload.to_dense() @ TABLE.ravel()
    errors = []
    for seed in range(100):
        release = measure(mechanism, COUNTS, noise="research", random_state=seed)
        errors.append(np.sum((reconstruct(release, workload).ravel() - truth) ** 2))
    deviation = np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - strategy.loss) < 5 * deviation
    assert deviation < 0.1 * strategy.loss


@pytest.mark.parametrize("k", [1, 2, 3])
def test_bits_are_shared_by_the_factors_of_the_largest_tables(k: int) -> None:
    """Entries stay below 2**41 however many factors a table has, and the loss is kept."""
    workload = ways([PrefixSums(50), AllRanges(40), Identity(7), Identity(4), Identity(2)], k)
    strategy = select(workload, "l2", method="oblique_residuals", random_state=0)
    rounded = round_strategy(strategy.matrix, "l2")
    assert isinstance(rounded.matrix, ObliqueResiduals)
    assert rounded.matrix.largest_entry() < 2**41
    loss = rounded.column_sum * error_trace(workload, rounded.matrix)
    assert loss == pytest.approx(strategy.loss, rel=1e-3)


def test_sets_without_those_below_are_rounded_entry_by_entry() -> None:
    matrix = ObliqueResiduals([np.array([[0.3, 0.7, 0.1]]), np.array([[0.9, 0.2]])], [(0, 1)], [1])
    rounded = round_strategy(matrix, "l2")
    dense = rounded.matrix.to_dense()
    assert np.array_equal(dense, np.rint(dense))
    assert rounded.column_sum == int((dense.astype(int) ** 2).sum(axis=0).max())
