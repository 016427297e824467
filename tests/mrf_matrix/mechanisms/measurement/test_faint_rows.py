"""Nothing is paid for that cannot be answered: rows that rounding loses, in every form."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from mrf_matrix import PrivacyLedger, PureDP, measure, privacy_ledger
from mrf_matrix.mechanisms import ZCDP, calibrate, count_cells, reconstruct, row_variances
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    RowScaled,
    RowSpaceError,
    Scaled,
    Sparse,
    Stack,
)

COUNTS = count_cells(np.array([[0], [1], [1]]), np.zeros(3, int), (2,), 1)
FAINT = np.diag([1.0, 1e-10])
FORMS = {
    "array": FAINT,
    "sparse": sparse.csr_array(FAINT),
    "Dense": Dense(FAINT),
    "Sparse": Sparse(sparse.csr_array(FAINT)),
    "RowScaled": RowScaled(np.diag(FAINT), Identity(2)),
    "Kronecker": Kronecker([Dense(FAINT)]),
    "Scaled": Scaled(3.0, Dense(FAINT)),
    "Stack": Stack([Dense(FAINT[:1]), Dense(FAINT[1:])]),
}
BUDGETS = [PureDP(float("inf")), PureDP(1), ZCDP(Fraction(1, 2))]


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_is_rounded_to_zero_is_not_paid_for(form, budget):
    ledger = PrivacyLedger(epsilon=9)
    with pytest.raises(RowSpaceError, match="too faint"), privacy_ledger(ledger):
        measure(FORMS[form], COUNTS, budget)
    assert not ledger.charges
    with pytest.raises(RowSpaceError, match="rows 0"):
        calibrate(FORMS[form], budget, workload=[[0.0, 1.0]])
    kept = calibrate(FORMS[form], budget, workload=[[1.0, 0.0]])
    with pytest.raises(RowSpaceError, match="rows 0"):
        row_variances(measure(kept, COUNTS, budget), [[0.0, 1.0]])


def test_a_direction_that_is_rounded_away_is_not_answered():
    release = measure(np.array([[1, 1e-10], [1, -1e-10]]), COUNTS, PureDP(float("inf")))
    np.testing.assert_allclose(reconstruct(release, [[1.0, 0.0]]), [[1.0]], rtol=1e-6)
    for ask in (reconstruct, row_variances):
        with pytest.raises(RowSpaceError, match="rows 0"):
            ask(release, [[0.0, 1.0]])


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_what_is_measured_is_free_of_scale(scale, budget):
    strategy = np.array([[1.0, 0.5], [0.0, 0.3]])
    one, other = calibrate(strategy, budget), calibrate(scale * strategy, budget)
    both = [row_variances(measure(of, COUNTS, budget), np.eye(2)) for of in (one, other)]
    np.testing.assert_allclose(*both, rtol=1e-6)
    assert other.sensitivity == pytest.approx(scale * one.sensitivity, rel=1e-6)
    exact = measure(scale * strategy, COUNTS, PureDP(float("inf")))
    np.testing.assert_allclose(reconstruct(exact, np.eye(2)), [[1.0], [2.0]], rtol=1e-6)
