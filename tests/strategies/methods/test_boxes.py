"""Boxes on a grid: one product of strategies, the same however the rows are given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from strategies import boxes, evaluate, select
from strategies.methods.family import Search
from strategies.operators import (
    Dense,
    Kronecker,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
)
from strategies.problem.problem import Problem
from strategies.problem.product_form import with_attributes

SIZES = (24, 30)


def ranges(n, q, generator):
    ends = generator.integers(0, n, (q, 2))
    cells = np.arange(n)
    return (cells >= ends.min(axis=1)[:, None]) & (cells <= ends.max(axis=1)[:, None])


def grid(sizes, q, seed=0):
    generator = np.random.default_rng(seed)
    return RowKronecker.from_masks([ranges(n, q, generator) for n in sizes])


def single_rows(rows):
    masks = [mask.astype(float) for mask in rows.all_masks()]
    return Stack(
        [Kronecker([Dense(mask[r : r + 1]) for mask in masks]) for r in range(len(rows.bits))]
    )


FORMS = {
    "rows of masks": lambda rows: rows,
    "ndarray": lambda rows: rows.to_dense()[::-1],
    "sparse": lambda rows: Sparse(rows.to_sparse()),
    "of one number": lambda rows: Scaled(3, Sparse(rows.to_sparse())),
    "single products": single_rows,
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_boxes_have_one_result(norm):
    rows = grid(SIZES, 100)
    found = {name: select(form(rows), norm, "boxes", random_state=0, time_limit=0.3)
             for name, form in FORMS.items()}  # fmt: skip
    losses = [one.loss / (9 if name == "of one number" else 1) for name, one in found.items()]
    assert_allclose(losses, losses[0], rtol=1e-5)
    again = evaluate(rows.to_dense(), found["ndarray"].matrix.to_dense(), norm)
    assert again.loss == pytest.approx(losses[0], rel=1e-5)
    assert losses[0] < (0.9 if norm == "l1" else 0.2) * rows.row_squares().sum()
    assert found["ndarray"].lower_bound <= losses[0]


def test_never_above_the_best_product_of_plain_trees():
    rows = grid((128, 81), 300, 1)
    trees = []
    for branching in (2, 3, 4, 8, 16):
        factors = []
        for n in rows.sizes:
            sizes = [1]
            while sizes[-1] * branching < n:
                sizes.append(sizes[-1] * branching)
            blocks = [np.arange(n) // k == np.arange(-(-n // k))[:, None] for k in sizes]
            factors.append(Dense(np.concatenate(blocks).astype(float)))
        trees.append(evaluate(rows, Kronecker(factors), "l1").loss)
    found = select(rows.to_sparse(), "l1", "boxes", random_state=0, time_limit=1.0)
    assert found.loss < 0.8 * min(trees)


def test_weights_of_rows_and_attributes_that_are_left():
    """Weighted rows are those rows more often; an attribute of one code is no axis."""
    rows = grid((20, 1, 26), 60, 2)
    often = np.random.default_rng(3).integers(1, 4, 60)
    weighted = RowScaled(np.sqrt(often), rows)
    repeated = rows.take_rows(np.repeat(np.arange(60), often))
    search = Search(select=lambda workload, work: select(workload, "l2", random_state=0).matrix)
    one, other = (boxes().search(Problem.of(W, "l2"), search) for W in (weighted, repeated))
    assert_allclose(evaluate(weighted, one, "l2").loss, evaluate(repeated, other, "l2").loss)


@settings(max_examples=10)
@given(st.integers(0, 2**16), st.sampled_from([(6, 10), (4, 3, 5), (12, 7)]))
def test_rows_behind_plain_matrices_are_found(seed, sizes):
    rows = grid(sizes, 12, seed)
    dense = rows.to_dense()
    found = with_attributes(Dense(dense))
    assert_allclose(found.gram_dense(), dense.T @ dense)
    if isinstance(found, RowKronecker):
        assert_allclose(found.to_dense(), dense)
        assert all(len(mask) == 12 for mask in found.all_masks())


def test_one_row_that_is_no_box_shows_none():
    """The control."""
    dense = grid((10, 12), 40).to_dense()
    assert isinstance(with_attributes(Dense(dense)), RowKronecker)
    dense[17] = np.eye(120)[0] + np.eye(120)[13]
    assert not isinstance(with_attributes(Dense(dense)), RowKronecker)


def test_boxes_serve_rows_that_fix_most_attributes():
    """Paths of few attributes of many have families of their own; sums of paths are no boxes."""
    assert boxes().worthwhile(Problem.of(grid(SIZES, 200)))
    masks = [np.ones((40, 8), dtype=bool) for _ in range(4)]
    masks[0][:20], masks[1][20:] = ranges(8, 20, np.random.default_rng(0)), False
    masks[1][20:, 0] = True
    paths = RowKronecker.from_masks(masks)
    assert not boxes().worthwhile(Problem.of(paths))
    assert select(paths, method="boxes", random_state=0, time_limit=0.1).method == "boxes"
    with pytest.raises(ValueError, match="no rows that are products of masks"):
        boxes().search(Problem.of(np.random.default_rng(0).normal(size=(3, 600))), Search())


def test_sparse_columns_in_rows_of_a_grid():
    """Explicit zeros and rows without cells change nothing."""
    rows = grid(SIZES, 150, 4)
    form = sparse.csr_array(rows.to_sparse(), dtype=float)
    form.data[:] = 1.0
    padded = sparse.csr_array(sparse.vstack([form, sparse.csr_array((2, form.shape[1]))]))
    assert_allclose(
        select(padded, "l2", "boxes", random_state=0).loss,
        select(rows, "l2", "boxes", random_state=0).loss,
    )
