"""Residual marginals from selection to answers: exact integers, the noise that was promised."""

from itertools import product

import numpy as np
import pytest

from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure, reconstruct
from mrf_matrix.mechanisms.measurement.mechanism import calibrate
from mrf_matrix.mechanisms.measurement.reconstruct import row_variances
from strategies import select
from strategies.operators import Marginals, ObliqueResiduals

SIZES = (3, 2, 5)
WORKLOAD = Marginals(SIZES, [(0, 1), (1, 2), (2,)], [1.0, 1.0, 1.0])
CODES = np.random.default_rng(0).integers(0, SIZES, size=(400, 3))
COUNTS = count_cells(CODES, np.zeros(400, dtype=int), SIZES, 1)
TABLE = np.zeros(SIZES)
np.add.at(TABLE, tuple(CODES.T), 1)


@pytest.mark.parametrize("budget", [PureDP(float("inf")), ZCDP(float("inf"))])
def test_without_noise_the_answers_are_the_counts(budget: PureDP | ZCDP) -> None:
    strategy = select(WORKLOAD, budget.norm, method="residual_marginals")
    release = measure(strategy, COUNTS, budget, workload=WORKLOAD)
    answers = reconstruct(release, WORKLOAD)
    assert np.allclose(answers.ravel(), WORKLOAD.to_dense() @ TABLE.ravel(), atol=1e-6)


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5)])
def test_integers_sensitivity_and_errors(budget: PureDP | ZCDP) -> None:
    """The rounded matrix is of integers, its sensitivity exact, its error the loss."""
    strategy = select(WORKLOAD, budget.norm, method="residual_marginals")
    mechanism = calibrate(strategy, budget, workload=WORKLOAD)
    matrix = mechanism.rounded.matrix
    assert isinstance(matrix, ObliqueResiduals)
    dense = matrix.to_dense()
    assert np.array_equal(dense, np.rint(dense))
    power = 1 if budget.norm == "l1" else 2
    columns = [sum(abs(int(v)) ** power for v in column) for column in dense.T]
    assert mechanism.rounded.column_sum == max(columns)
    release = measure(mechanism, COUNTS, noise="research", random_state=0)
    variances = row_variances(release, WORKLOAD)
    unit = 2.0 if budget.norm == "l1" else 1.0
    assert variances.sum() == pytest.approx(unit * strategy.loss, rel=1e-5)


def test_noise_is_as_expected() -> None:
    """Mean squared errors of 400 releases against the promise, within five deviations."""
    strategy = select(WORKLOAD, "l2", method="residual_marginals")
    mechanism = calibrate(strategy, ZCDP(0.5), workload=WORKLOAD)
    truth = WORKLOAD.to_dense() @ TABLE.ravel()
    errors = []
    for seed in range(400):
        release = measure(mechanism, COUNTS, noise="research", random_state=seed)
        errors.append(np.sum((reconstruct(release, WORKLOAD).ravel() - truth) ** 2))
    deviation = np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - strategy.loss) < 5 * deviation
    assert deviation < 0.1 * strategy.loss


def test_exact_noise_over_a_domain_that_nobody_lists() -> None:
    sizes = (4,) * 40
    pairs = [pair for pair in product(range(4), range(4, 8))]
    workload = Marginals(sizes, pairs, [1.0] * len(pairs))
    codes = np.random.default_rng(1).integers(0, 4, size=(50, 40))
    counts = count_cells(codes, np.zeros(50, dtype=int), sizes, 1)
    release = measure(select(workload, "l2"), counts, ZCDP(1000), workload=workload)
    answers = reconstruct(release, workload).ravel()
    cells = np.array([codes[:, i] * 4 + codes[:, j] for i, j in pairs])
    truth = np.concatenate([np.bincount(row, minlength=16) for row in cells])
    assert np.abs(answers - truth).max() < 3
