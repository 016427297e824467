"""One workload has one result, in whatever form and at whatever scale it is given."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import strategies
from strategies import Family, Strategy, select
from strategies.operators import (
    Dense,
    Gram,
    Identity,
    Kronecker,
    Marginals,
    Operator,
    PIdentity,
    PrefixSums,
    Product,
    RowScaled,
    RowSpaceError,
    Scaled,
    Sparse,
    Stack,
)
from strategies.problem.product_form import product_sizes, with_attributes

SIZES = (3, 4, 2)
PREFIX, TOTAL = Dense(np.tri(5)), Dense(np.ones((1, 5)))
TABLES = Marginals(SIZES, [(0, 1), (1, 2)], [1, 2])
WORKLOADS = {
    "product": Kronecker([PrefixSums(5), Identity(4)]),
    "union": Stack([Kronecker([PREFIX, TOTAL]), Kronecker([TOTAL, PREFIX])]),
    "tables": TABLES,
    "votes": Product(Dense(np.random.default_rng(0).integers(0, 2, (6, 20))), TABLES),
}
FORMS = {
    "ndarray": lambda dense: dense,
    "sparse": sparse.csr_array,
    "rows in another order": lambda dense: dense[::-1],
    "stacked": lambda dense: Stack([Dense(dense[:2]), Dense(dense[2:])]),
    "scaled": lambda dense: 2.0**-20 * dense,
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_forms_have_one_result(workload, norm):
    """Sums of many paths hide what the paths are: there the explicit forms agree."""
    structured, dense = WORKLOADS[workload], WORKLOADS[workload].to_dense()
    given = dense if workload == "votes" else structured
    losses = [select(given, norm, random_state=0, time_limit=0.01).loss]
    for name, form in FORMS.items():
        found = select(form(dense), norm, random_state=0, time_limit=0.01)
        losses.append(found.loss * (2.0**40 if name == "scaled" else 1))
    assert_allclose(losses, losses[0], rtol=1e-3)


@st.composite
def products(draw):
    """Rows that are products over random sizes, whose factors leave no neighbours alike."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=2, max_size=3))
    values = np.random.default_rng(draw(st.integers(0, 2**16)))
    factors = [values.normal(size=(9, size)) for size in sizes]
    for row, one in enumerate(factors):
        one[row] = 1.0  # this row leaves this attribute
    rows = factors[0]
    for one in factors[1:]:
        rows = np.einsum("ri,rj->rij", rows, one).reshape(9, -1)
    return tuple(sizes), rows


@given(products())
def test_attributes_behind_products_are_found(case):
    sizes, rows = case
    assert product_sizes(rows) == sizes
    found = with_attributes(Dense(rows))
    assert found.sizes == sizes
    assert_allclose(found.gram_dense(), rows.T @ rows, atol=1e-9 * np.abs(rows).max() ** 2)


@given(products(), st.integers(0, 8))
def test_one_row_that_is_no_product_shows_none(case, row):
    """The control."""
    sizes, rows = case
    rows[row] += (
        np.eye(len(rows[row]))[0] * np.abs(rows[row]).max() + np.arange(len(rows[row])) ** 2
    )
    assert len(product_sizes(rows)) < max(len(sizes), 2) or product_sizes(rows) != sizes


@pytest.mark.parametrize(("n", "seed"), [(36, 0), (64, 1), (60, 2), (13, 3)])
def test_matrices_without_attributes_stay_what_they_are(n, seed):
    workload = Dense(np.random.default_rng(seed).normal(size=(3 * n, n)))
    assert with_attributes(workload) is workload


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_row_that_has_no_weight_may_have_no_answer(norm):
    """Errors of all others were refused with it."""
    workload = np.vstack([np.eye(4)[0], np.tri(4)[1:] - np.eye(4)[0]])
    strategy = select(workload, norm, weights=[0, 1, 1, 1], random_state=0, time_limit=0.2)
    errors = strategy.row_errors(workload)
    assert_allclose(errors[1:].sum(), strategy.loss, rtol=1e-6)
    inside = strategy.matrix.to_dense()
    left = workload[0] - workload[0] @ np.linalg.pinv(inside) @ inside
    assert np.isinf(errors[0]) == (np.linalg.norm(left) > 1e-6)


W = np.tri(4)
A = np.eye(4) + 0.25 * np.eye(4, k=1)
EXTREME = [1e-300, 1e-200, 1e-160, 1e150, 1e200, 1e300]
SCALED_FORMS: dict[str, Callable[[np.ndarray, float], object]] = {
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
@pytest.mark.parametrize("form", SCALED_FORMS)
def test_a_multiple_of_a_strategy_has_its_loss(form: str, scale: float, norm: str) -> None:
    truth = strategies.evaluate(W, A, norm)
    found = strategies.evaluate(W, SCALED_FORMS[form](A, scale), norm)
    assert found.loss == pytest.approx(truth.loss, rel=1e-9)
    assert found.sensitivity == pytest.approx(scale * truth.sensitivity, rel=1e-9)


@pytest.fixture(scope="module")
def truth() -> Strategy:
    return strategies.select(W, random_state=0, time_limit=0.05)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("form", SCALED_FORMS)
def test_a_multiple_of_a_workload_has_the_same_best_strategy(
    form: str, scale: float, truth: Strategy
) -> None:
    found = strategies.select(SCALED_FORMS[form](W, scale), random_state=0, time_limit=0.05)
    assert found.loss / scale**2 == pytest.approx(truth.loss, rel=1e-2)
    assert found.certified_ratio == pytest.approx(truth.certified_ratio, rel=2e-2)
    given = strategies.evaluate(SCALED_FORMS[form](W, scale), found.matrix)
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
@pytest.mark.parametrize("large", [1e5, 1e12, 1e40])
def test_budgets_of_rows_do_not_depend_on_their_scales(
    norm: str, objective: str, large: float
) -> None:
    rows = np.concatenate([np.eye(3), [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]])
    scale = np.array([large, 1 / large, 1.0, 1 / large, large])
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


LARGE = [1e4, 1e8, 1e20, 1e60]
FAINT_FORMS = {
    "Dense": lambda a, s: s[:, None] * a,
    "Sparse": lambda a, s: sparse.csr_array(s[:, None] * a),
    "RowScaled": lambda a, s: RowScaled(s, Dense(a)),
    "Stack": lambda a, s: Stack([Dense(s[:2, None] * a[:2]), Dense(s[2:, None] * a[2:])]),
}


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("form", FAINT_FORMS)
def test_rows_of_all_scales_are_measured_by_each(form: str, norm: str, large: float) -> None:
    order, scale = np.array([2, 0, 1]), np.array([1 / large, 1.0, large])
    square = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])[order]
    wide = np.hstack([np.eye(3), np.ones((3, 2))])
    for rows, workload in ((square, np.eye(3)), (wide, wide)):
        answers = workload @ np.linalg.pinv(rows) / scale
        found = strategies.evaluate(workload, FAINT_FORMS[form](rows, scale), norm)
        squares = found.sensitivity**2 * np.sum(answers**2, axis=1)
        assert found.loss == pytest.approx(squares.sum(), rel=1e-9)
    with pytest.raises(RowSpaceError):
        strategies.evaluate(np.eye(5)[3:], FAINT_FORMS[form](wide, scale), norm)


@pytest.mark.parametrize("large", LARGE)
def test_cells_of_all_scales_are_measured_by_each(large: float) -> None:
    rows = np.tri(4).T * np.array([1 / large, 1.0, 3.0, large])
    found = strategies.evaluate(rows, rows.copy(), "l2")
    assert found.loss == pytest.approx(4 * found.sensitivity**2, rel=1e-9)


def test_what_last_digits_decide_is_refused() -> None:
    rows = np.tri(4) * np.array([[1e-8], [1e-3], [1e3], [1e8]])
    with pytest.raises(RowSpaceError, match="too faintly"):
        strategies.evaluate(rows, rows.copy())


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
