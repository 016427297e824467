"""Strategies over ordered cells are measured exactly, and answer prefix sums and ranges."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure, reconstruct
from strategies import examples, select
from strategies.operators import PIdentity

N = 200
CODES = np.random.default_rng(0).integers(0, N, (3000, 1))
COUNTS = count_cells(CODES, np.zeros(3000, dtype=np.int64), (N,), 1)
MAKERS = (examples.prefix_sums, examples.all_ranges)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kind", [PureDP, ZCDP])
def test_without_noise_the_answers_are_the_sums(make, kind):
    workload = make(N)
    norm = "l1" if kind is PureDP else "l2"
    strategy = select(workload, norm, random_state=0, time_limit=0.3)
    release = measure(strategy, COUNTS, kind(float("inf")), workload=workload)
    truth = workload.matmat(np.bincount(CODES[:, 0], minlength=N).astype(float))
    assert_allclose(reconstruct(release, workload)[:, 0], truth, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("make", MAKERS)
def test_errors_under_noise_are_those_of_the_loss(make):
    workload = make(N)
    strategy = select(workload, random_state=0, time_limit=0.3)
    assert isinstance(strategy.matrix, PIdentity)
    truth = workload.matmat(np.bincount(CODES[:, 0], minlength=N).astype(float))
    squares = [
        np.sum((reconstruct(release, workload)[:, 0] - truth) ** 2)
        for release in (
            measure(strategy, COUNTS, PureDP(1), noise="research", random_state=seed)
            for seed in range(40)
        )
    ]
    assert np.mean(squares) == pytest.approx(2 * strategy.loss, rel=0.3)
