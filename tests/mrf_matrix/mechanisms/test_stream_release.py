"""Streams from selection to answers: exact integers, the noise that was promised."""

import numpy as np
import pytest

import strategies
from mrf_matrix.mechanisms import ZCDP, count_cells, measure, reconstruct
from mrf_matrix.mechanisms.measurement.mechanism import calibrate
from mrf_matrix.mechanisms.measurement.reconstruct import row_variances
from strategies import select
from strategies.operators import Dense, Identity, Kronecker, PrefixSums, Toeplitz

SIZES = (30, 3)
CODES = np.random.default_rng(0).integers(0, SIZES, size=(200, 2))
COUNTS = count_cells(CODES, np.zeros(200, dtype=int), SIZES, 1)
TABLE = np.zeros(SIZES)
np.add.at(TABLE, tuple(CODES.T), 1)
WORKLOAD = Kronecker([PrefixSums(30), Identity(3)])


@pytest.mark.parametrize(
    ("family", "form"),
    [(strategies.toeplitz(bands=5), Toeplitz), (strategies.prefix_factorisation(bands=6), Dense)],
)
def test_integers_sensitivity_and_errors(family: strategies.Family, form: type) -> None:
    """The rounded matrix is of integers, its sensitivity exact, its error the loss."""
    strategy = select(WORKLOAD, "l2", family, random_state=0)
    mechanism = calibrate(strategy, ZCDP(0.5), workload=WORKLOAD)
    matrix = mechanism.rounded.matrix
    assert isinstance(matrix, Kronecker)
    assert isinstance(matrix.factors[0], form)
    dense = matrix.to_dense()
    assert np.array_equal(dense, np.rint(dense))
    columns = [sum(int(v) ** 2 for v in column) for column in dense.T]
    assert mechanism.rounded.column_sum == max(columns)
    assert mechanism.rounded.is_unbiased
    release = measure(mechanism, COUNTS, noise="research", random_state=0)
    assert row_variances(release, WORKLOAD).sum() == pytest.approx(strategy.loss, rel=1e-4)
    exact = measure(strategy, COUNTS, ZCDP(float("inf")), workload=WORKLOAD)
    answers = reconstruct(exact, WORKLOAD)
    assert np.allclose(answers.ravel(), WORKLOAD.to_dense() @ TABLE.ravel(), atol=1e-3)
