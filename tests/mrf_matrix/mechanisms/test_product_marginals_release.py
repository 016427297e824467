"""Product marginals from selection to answers: exact integers, the noise that was promised."""

import numpy as np
import pytest
from scipy import stats

from mrf_matrix.mechanisms import PureDP, count_cells, measure, reconstruct
from mrf_matrix.mechanisms.measurement.mechanism import calibrate
from mrf_matrix.mechanisms.measurement.reconstruct import row_variances
from strategies import Strategy, select
from strategies.operators import (
    Dense,
    Grouping,
    Identity,
    JointMarginals,
    Kronecker,
    PrefixSums,
    ProductMarginals,
    Stack,
)

SIZES = (6, 8)
HALVES = np.kron(np.eye(3), np.ones((1, 2)))
LATE = np.kron([[0.0, 1.0]], np.ones((1, 4)))
TOTAL = Grouping(np.zeros(8, dtype=np.int64))
WORKLOADS = {
    "one form": Stack(
        [
            Kronecker([PrefixSums(6), Identity(8)]),
            Kronecker([PrefixSums(6), TOTAL]),
        ]
    ),
    "two groups": Stack(
        [
            Kronecker([Dense(HALVES), PrefixSums(8)]),
            Kronecker([Identity(6), Dense(LATE)]),
            Kronecker([Identity(6), TOTAL]),
        ]
    ),
}
KINDS = {"one form": ProductMarginals, "two groups": JointMarginals}
CODES = np.random.default_rng(0).integers(0, SIZES, size=(400, 2))
COUNTS = count_cells(CODES, np.zeros(400, dtype=int), SIZES, 1)
TABLE = np.zeros(SIZES)
np.add.at(TABLE, tuple(CODES.T), 1)


@pytest.fixture(scope="module", params=WORKLOADS)
def case(request: pytest.FixtureRequest) -> tuple[Stack, Strategy]:
    workload = WORKLOADS[request.param]
    strategy = select(workload, "l1", method="product_marginals", random_state=0, time_limit=1)
    assert isinstance(strategy.matrix, KINDS[request.param])
    return workload, strategy


def test_integers_sensitivity_and_errors(case: tuple[Stack, Strategy]) -> None:
    """The rounded matrix is of integers, its sensitivity exact, its error the loss."""
    workload, strategy = case
    mechanism = calibrate(strategy, PureDP(1.0), workload=workload)
    assert type(mechanism.rounded.matrix) is type(strategy.matrix)
    dense = mechanism.rounded.matrix.to_dense()
    assert np.array_equal(dense, np.rint(dense))
    assert mechanism.rounded.column_sum == max(sum(abs(int(v)) for v in c) for c in dense.T)
    assert mechanism.rounded.is_unbiased
    release = measure(mechanism, COUNTS, noise="research", random_state=0)
    assert row_variances(release, workload).sum() == pytest.approx(2 * strategy.loss, rel=1e-3)


def test_without_noise_the_answers_are_the_counts(case: tuple[Stack, Strategy]) -> None:
    workload, strategy = case
    release = measure(strategy, COUNTS, PureDP(float("inf")), workload=workload)
    answers = reconstruct(release, workload)
    assert np.allclose(answers.ravel(), workload.to_dense() @ TABLE.ravel(), atol=1e-3)


def test_noise_is_as_expected(case: tuple[Stack, Strategy]) -> None:
    """Mean squared errors of 100 releases against the promise, within five deviations."""
    workload, strategy = case
    mechanism = calibrate(strategy, PureDP(1.0), workload=workload)
    truth = workload.to_dense() @ TABLE.ravel()
    errors = []
    for seed in range(100):
        release = measure(mechanism, COUNTS, noise="research", random_state=seed)
        errors.append(np.sum((reconstruct(release, workload).ravel() - truth) ** 2))
    deviation = np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - 2 * strategy.loss) < 5 * deviation
    assert deviation < 0.1 * 2 * strategy.loss


def test_released_noise_has_the_exact_law(case: tuple[Stack, Strategy]) -> None:
    """Noise is Laplace of the exact sensitivity over epsilon; another scale is told apart."""
    workload, strategy = case
    noise = []
    for _ in range(20):
        release = measure(strategy, COUNTS, PureDP(0.5), workload=workload)
        whole = release.values * float(release.scale)
        assert np.array_equal(whole, np.rint(whole))
        noise.append((whole - COUNTS.answers(release.matrix)).ravel())
    drawn = np.concatenate(noise) / (2.0 * release.mechanism.rounded.column_sum)
    assert stats.kstest(drawn, stats.laplace().cdf).pvalue > 1e-4
    assert stats.kstest(drawn / 2.0, stats.laplace().cdf).pvalue < 1e-6
