"""One workload has one result, in whatever form it is given."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from strategies import select
from strategies.operators import Dense, Identity, Kronecker, Marginals, PrefixSums, Product, Stack
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
    losses = [select(given, norm, random_state=0, time_limit=0.03).loss]
    for name, form in FORMS.items():
        found = select(form(dense), norm, random_state=0, time_limit=0.03)
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
