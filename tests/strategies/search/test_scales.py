"""Losses, strategies and allocations are free of scale, in every form of the matrices."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse

import strategies
from strategies.methods.family import Family
from strategies.operators import (
    Dense,
    Gram,
    Identity,
    Kronecker,
    Operator,
    Product,
    RowScaled,
    RowSpaceError,
    Scaled,
    Sparse,
    Stack,
)
from strategies.operators.p_identity import PIdentity

W = np.tri(4)
A = np.eye(4) + 0.25 * np.eye(4, k=1)
EXTREME = [1e-300, 1e-200, 1e-160, 1e150, 1e200, 1e300]
FORMS: dict[str, Callable[[np.ndarray, float], object]] = {
    "array": lambda a, s: s * a,
    "sparse": lambda a, s: sparse.csr_array(s * a),
    "Dense": lambda a, s: Dense(s * a),
    "Scaled": lambda a, s: Scaled(s, Dense(a)),
    "RowScaled": lambda a, s: RowScaled(np.full(len(a), s), Sparse(sparse.csr_array(a))),
    "Stack": lambda a, s: Stack([Dense(s * a[:2]), Dense(s * a[2:])]),
    "Product": lambda a, s: Product(Dense(s * a), Identity(4)),
    "Kronecker": lambda a, s: Kronecker([Dense([[s]]), Dense(a)]),
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("scale", EXTREME)
@pytest.mark.parametrize("form", FORMS)
def test_a_multiple_of_a_strategy_has_its_loss(form: str, scale: float, norm: str) -> None:
    truth = strategies.evaluate(W, A, norm)
    found = strategies.evaluate(W, FORMS[form](A, scale), norm)
    assert found.loss == pytest.approx(truth.loss, rel=1e-9)
    assert found.sensitivity == pytest.approx(scale * truth.sensitivity, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("form", FORMS)
def test_a_multiple_of_a_workload_has_the_same_best_strategy(form: str, scale: float) -> None:
    truth = strategies.select(W, random_state=0, time_limit=0.05)
    found = strategies.select(FORMS[form](W, scale), random_state=0, time_limit=0.05)
    assert found.loss / scale**2 == pytest.approx(truth.loss, rel=1e-2)
    assert found.certified_ratio == pytest.approx(truth.certified_ratio, rel=2e-2)
    given = strategies.evaluate(FORMS[form](W, scale), found.matrix)
    assert given.loss == pytest.approx(found.loss, rel=1e-9)


def test_a_gram_and_cells_with_sums_have_units_too() -> None:
    truth = strategies.evaluate(W, A).loss
    assert strategies.evaluate(Gram(1e-280 * W.T @ W), A).loss == pytest.approx(1e-280 * truth)
    rows = sparse.csr_array(np.ones((1, 4)))
    cells = strategies.evaluate(W, PIdentity(np.ones(4), rows)).loss
    tiny = PIdentity(1e-200 * np.ones(4), 1e-200 * rows)
    assert strategies.evaluate(W, tiny).loss == pytest.approx(cells)


def family(matrix: Operator) -> Family:
    norms = frozenset({"l1", "l2"})
    return Family("mine", "domain", norms, lambda problem: True, lambda problem, search: matrix)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_a_family_of_ones_own_wins_by_its_loss_alone(scale: float) -> None:
    mine = family(Dense(scale * np.eye(6)))
    found = strategies.select(np.tri(6), method=(mine, "identity"), random_state=0)
    assert found.loss == pytest.approx(21.0)


def test_what_no_float_holds_is_refused_and_wins_nothing() -> None:
    apart = np.diag([1.0, 1.0, 1.0, 1e-200])
    with pytest.raises(RowSpaceError):
        strategies.evaluate(W, apart)
    mine = family(Dense(apart))
    found = strategies.select(W, method=(mine, "identity"), random_state=0)
    assert (found.method, found.loss) == ("identity", 10.0)
    for scale in (1e-170, 1e200):
        with pytest.raises(ValueError, match=r"workload.*squares are no floats. Scale it"):
            strategies.select(scale * W)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("objective", ["total", "max"])
def test_budgets_of_rows_do_not_depend_on_their_scales(norm: str, objective: str) -> None:
    rows = np.concatenate([np.eye(3), [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]])
    scale = np.array([1e5, 1e-5, 1.0, 1e-5, 1e5])
    truth = strategies.allocate(np.tri(3), rows[:3], norm, objective)
    found = strategies.allocate(np.tri(3), scale[:3, None] * rows[:3], norm, objective)
    power = 1 if norm == "l1" else 2
    np.testing.assert_allclose(scale[:3] ** power * found.spent, truth.spent, rtol=1e-5)
    values = []
    for of_all in (scale[:, None] * rows, scale[::-1, None] * rows):
        found = strategies.allocate(np.tri(3), of_all, norm, objective)
        assert found.bound <= found.value <= found.bound * (1 + 1e-5)
        assert found.budget == pytest.approx(1.0, rel=1e-6)
        values.append(found.value)
    assert values[0] == pytest.approx(values[1], rel=1e-5)


OPERATORS = {
    "Kronecker": Kronecker([Dense(np.ones((3, 2))), Dense(np.ones((3, 2)))]),
    "Identity": Identity(4),
    "Stack": Stack([Identity(4), Dense(np.ones((2, 4)))]),
    "Marginals": strategies.operators.Marginals((2, 2), [(0,), (1,)], [1.0, 2.0]),
    "residuals": strategies.operators.ObliqueResiduals.of_codes((2, 2), [(), (0,)], [1.0, 2.0]),
    "PIdentity": PIdentity(np.ones(4), sparse.csr_array(np.ones((1, 4)))),
    "Scaled": Scaled(2, Identity(4)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_products_with_no_columns_have_none(name: str) -> None:
    operator: Operator = OPERATORS[name]
    m, n = operator.shape
    assert operator.matmat(np.zeros((n, 0))).shape == (m, 0)
    assert operator.rmatmat(np.zeros((m, 0))).shape == (n, 0)
    assert operator.least_squares(np.zeros((m, 0))).shape == (n, 0)
