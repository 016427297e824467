"""Dense rows on overlapping tables from selection to answers: integers, and the noise promised."""

import numpy as np
import pytest

from mrf_matrix.mechanisms import ZCDP, count_cells, measure, reconstruct
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, calibrate
from mrf_matrix.mechanisms.measurement.reconstruct import row_variances
from strategies import Strategy, select
from strategies.operators import TableStack

SIZES = (4, 3, 4)
X, Y = np.divmod(np.arange(16), 4)
WORKLOAD = TableStack(
    SIZES,
    [(0, 2), (0, 1), (1, 2)],
    [[t >= X + Y for t in range(7)], np.tri(12), np.random.default_rng(0).integers(0, 3, (2, 12))],
)
CODES = np.random.default_rng(0).integers(0, SIZES, size=(400, 3))
COUNTS = count_cells(CODES, np.zeros(400, dtype=int), SIZES, 1)
TRUTH = np.asarray(WORKLOAD.columns(CODES).sum(axis=1)).ravel()


@pytest.fixture(scope="module")
def strategy() -> Strategy:
    return select(WORKLOAD, "l2", method="joint_tables", random_state=0)


@pytest.fixture(scope="module")
def mechanism(strategy: Strategy) -> Mechanism:
    return calibrate(strategy, ZCDP(0.5), workload=WORKLOAD)


def test_integers_sensitivity_and_errors(strategy: Strategy, mechanism: Mechanism) -> None:
    """Rows are integers, their sensitivity is that of the worst cell, their error the loss."""
    matrix = mechanism.rounded.matrix
    assert isinstance(matrix, TableStack)
    dense = matrix.to_dense()
    assert np.array_equal(dense, np.rint(dense))
    columns = [sum(int(v) ** 2 for v in column) for column in dense.T]
    assert mechanism.rounded.column_sum == max(columns)
    assert mechanism.rounded.is_unbiased
    release = measure(mechanism, COUNTS, noise="research", random_state=0)
    assert row_variances(release, WORKLOAD).sum() == pytest.approx(strategy.loss, rel=1e-4)


def test_without_noise_the_answers_are_the_counts(strategy: Strategy) -> None:
    release = measure(strategy, COUNTS, ZCDP(float("inf")), workload=WORKLOAD)
    assert np.allclose(reconstruct(release, WORKLOAD).ravel(), TRUTH, atol=1e-3)


def test_noise_is_as_expected(strategy: Strategy, mechanism: Mechanism) -> None:
    """Mean squared errors of 200 releases are the loss; at half the budget they are not."""
    means = []
    for budget in (0.5, 0.25):
        own = mechanism if budget == 0.5 else calibrate(strategy, ZCDP(budget), workload=WORKLOAD)
        errors = []
        for seed in range(200):
            release = measure(own, COUNTS, noise="research", random_state=seed)
            errors.append(np.sum((reconstruct(release, WORKLOAD).ravel() - TRUTH) ** 2))
        means.append((np.mean(errors), np.std(errors) / np.sqrt(len(errors))))
    (mean, deviation), (control, _) = means
    assert abs(mean - strategy.loss) < 5 * deviation
    assert deviation < 0.1 * strategy.loss
    assert abs(control - strategy.loss) > 5 * deviation
