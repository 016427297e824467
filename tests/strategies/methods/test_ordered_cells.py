"""Ordered cells and boxes on grids: detection, trees, windows, optima, against brute force."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import strategies
from strategies import Problem, Search, boxes, evaluate, examples, select
from strategies.bounds.dual_ascent import ascend, certified_bound
from strategies.bounds.ordered_dual import assess_ordered, bands, climb_ordered, ordered_bound
from strategies.methods.streams import ordered_root
from strategies.methods.trees import best_hierarchy, equal_loss, tree_sizes
from strategies.methods.windows import WindowLoss, Windows
from strategies.operators import (
    Dense,
    Gram,
    Identity,
    Kronecker,
    Norm,
    Operator,
    PIdentity,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
    as_operator,
)
from strategies.operators.ordered_sums import OrderedGram, ordered_gram
from strategies.problem.product_form import with_attributes

FAMILY = strategies.ordered_cells()

WORKLOADS = {"prefix sums": examples.prefix_sums, "ranges": examples.all_ranges}
NORMS: tuple[Norm, ...] = ("l1", "l2")


def some_gram(n: int, seed: int = 0) -> OrderedGram:
    generator = np.random.default_rng(seed)
    high = generator.uniform(0.5, 2.0, n)
    return OrderedGram(np.cumsum(generator.uniform(0.1, 1.0, n)) * high, high)


def brute_loss(gram: np.ndarray, matrix: Operator, norm: Norm) -> float:
    dense = matrix.to_dense()
    size = np.abs(dense).sum(axis=0) if norm == "l1" else np.sqrt((dense**2).sum(axis=0))
    return float(size.max() ** 2 * np.trace(gram @ np.linalg.inv(dense.T @ dense)))


def equal_tree(n: int, sizes: tuple[int, ...]) -> np.ndarray:
    """All nodes of a tree over the cells, level by level, cut off at the last cell."""
    cells = np.arange(n)
    return np.concatenate(
        [(cells // size == np.arange(-(-n // size))[:, None]).astype(float) for size in sizes]
    )


def all_trees(n: int) -> list[tuple[int, ...]]:
    whole = (tree_sizes(n, branching) for branching in range(2, 17))
    return [sizes[:levels] for sizes in whole for levels in range(2, len(sizes) + 1)]


@pytest.mark.parametrize("n", [2, 5, 33])
def test_factor_inverse_and_products_are_those_of_the_gram(n: int) -> None:
    for gram in (some_gram(n), some_gram(n, 1).reversed):
        dense = gram.to_dense()
        factor = gram.factor_rows(0, n)
        assert_allclose(factor.T @ factor, dense, rtol=1e-10)
        assert_allclose(gram.matmat(np.eye(n)), dense, rtol=1e-10)
        diagonal, side = gram.inverse_bands()
        inverse = np.diag(diagonal) + np.diag(side, 1) + np.diag(side, -1)
        assert_allclose(inverse @ dense, np.eye(n), atol=1e-8)
        assert_allclose(gram.reversed.to_dense(), dense[::-1, ::-1], rtol=1e-12)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_ordered_cells_are_found_however_they_are_given(kind: str) -> None:
    workload = WORKLOADS[kind](12)
    dense = workload.to_dense()
    shuffled = dense[np.random.default_rng(0).permutation(len(dense))]
    forms = (
        workload,
        dense,
        shuffled,
        dense[:, ::-1],
        sparse.csr_array(shuffled),
        Gram(workload.gram_dense()),
        Scaled(0.5, workload),
        0.1 * dense,
        np.repeat(dense, 3, axis=1),
    )
    for form in forms:
        problem = Problem.of(form)
        assert problem.ordered is not None
        assert_allclose(problem.ordered.to_dense(), problem.gram, rtol=1e-12)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_what_is_nearly_ordered_is_not_taken_for_it(kind: str) -> None:
    dense = WORKLOADS[kind](12).to_dense()
    changed = dense.copy()
    changed[5, 7] = 1.0 - changed[5, 7]
    assert ordered_gram(as_operator(changed)) is None
    assert ordered_gram(as_operator(dense[:, np.random.default_rng(0).permutation(12)])) is None
    assert ordered_gram(as_operator(np.eye(5))) is None
    assert ordered_gram(examples.binary_tree(8)) is None


@pytest.mark.parametrize(("n", "sizes"), [(37, (4, 12)), (24, (4, 8, 16)), (9, (3,))])
def test_window_loss_and_gradient(n: int, sizes: tuple[int, ...]) -> None:
    gram, windows = some_gram(n), Windows(n, sizes)
    loss = WindowLoss(windows, gram)
    generator = np.random.default_rng(0)
    roots = windows.start(generator) * generator.choice([-1.0, 1.0], windows.shape)
    rows = windows.to_sparse(roots * np.abs(roots)).toarray()
    matrix = np.vstack([np.eye(n), rows]) / (1.0 + np.abs(rows).sum(axis=0))
    value, gradient = loss(roots)
    assert np.exp(value) == pytest.approx(brute_loss(gram.to_dense(), Dense(matrix), "l1"))
    assert not gradient[~windows.mask].any()
    for _ in range(5):
        direction = generator.normal(size=windows.shape) * windows.mask
        step = 1e-5 * direction
        difference = (loss(roots + step)[0] - loss(roots - step)[0]) / 2e-5
        assert difference == pytest.approx(float(np.vdot(gradient, direction)), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("norm", NORMS)
@given(st.integers(2, 60), st.integers(0, 9))
def test_trees_in_closed_form_are_bounds_of_the_dense_ones(norm: Norm, n: int, seed: int) -> None:
    gram = some_gram(n, seed)
    tree = best_hierarchy(gram, norm)
    loss = brute_loss(gram.to_dense(), tree.matrix(n), norm)
    assert loss <= tree.loss * (1 + 1e-8)
    if n in tree.sizes:
        assert loss == pytest.approx(tree.loss, rel=1e-7)
    assert tree.loss <= min(equal_loss(gram, sizes, norm) for sizes in all_trees(n)) * (1 + 1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_equal_trees_agree_with_dense_ones(norm: Norm) -> None:
    gram = some_gram(27)
    dense = Dense(equal_tree(27, (1, 3, 9, 27)))
    expected = brute_loss(gram.to_dense(), dense, norm)
    assert equal_loss(gram, tree_sizes(27, 3), norm) == pytest.approx(expected)


def test_dual_is_that_of_the_dense_spectrum() -> None:
    gram = some_gram(40)
    weights = np.random.default_rng(1).uniform(0.1, 1.0, 40)
    weights /= weights.sum()
    scale = np.sqrt(weights)
    values, vectors = np.linalg.eigh(scale[:, None] * gram.to_dense() * scale)
    dual = assess_ordered(gram, weights)
    assert dual.root == pytest.approx(np.sqrt(values).sum(), rel=1e-9)
    ratios = np.diagonal((vectors * np.sqrt(values)) @ vectors.T) / weights
    assert_allclose(dual.ratios, ratios, rtol=1e-8)
    bound = ordered_bound(gram, weights)
    assert np.sqrt(values).sum() ** 2 * (1 - 1e-7) <= bound <= np.sqrt(values).sum() ** 2


@pytest.mark.parametrize("n", [2, 9, 64, 150])
def test_the_root_is_a_triangle_of_the_duals_form(n: int) -> None:
    gram = some_gram(n)
    weights = np.random.default_rng(1).uniform(0.1, 1.0, n)
    scale = np.sqrt(weights)
    values, vectors = np.linalg.eigh(scale[:, None] * gram.to_dense() * scale)
    form = (vectors * np.sqrt(values)) @ vectors.T
    lengths = np.sqrt(np.diagonal(form))
    root = ordered_root(*bands(gram, weights)).to_dense()
    assert not np.triu(root, 1).any()
    assert_allclose(root.T @ root, form / lengths / lengths[:, None], atol=1e-9)


@pytest.mark.parametrize("n", [7, 50, 600])
def test_bounds_reach_those_of_the_dense_climb(n: int) -> None:
    gram = some_gram(n)
    dual = climb_ordered(gram, 1e-4, 60)
    assert dual.gap < 1e-2
    if n < 100:
        factor = gram.factor_rows(0, n)
        dense = certified_bound(factor, ascend(factor, 1e-5, 200).weights)
        assert ordered_bound(gram, dual.weights) == pytest.approx(dense, rel=2e-3)


@example(30, "prefix sums", "l1")  # a tree cut off is better than its closed form
@given(st.integers(2, 80), st.sampled_from(sorted(WORKLOADS)), st.sampled_from(NORMS))
def test_never_above_the_floors(n: int, kind: str, norm: Norm) -> None:
    workload = WORKLOADS[kind](n)
    strategy = select(workload, norm, method="ordered_cells", random_state=0, time_limit=0.05)
    gram = workload.gram_dense()
    assert strategy.loss == pytest.approx(brute_loss(gram, strategy.matrix, norm), rel=1e-7)
    assert strategy.lower_bound <= strategy.loss
    own = workload.column_norms(norm).max() ** 2 * workload.shape[0]
    trees = [brute_loss(gram, Dense(equal_tree(n, sizes)), norm) for sizes in all_trees(n)]
    assert strategy.loss <= min(np.trace(gram), own, *trees) * (1 + 1e-6)


@given(st.integers(2, 30), st.integers(0, 5), st.sampled_from(NORMS))
def test_reversal_and_the_order_of_rows_change_nothing(n: int, seed: int, norm: Norm) -> None:
    dense = np.tri(n)
    order = np.random.default_rng(seed).permutation(n)
    losses = [
        select(form, norm, method="ordered_cells", random_state=0, time_limit=0.05).loss
        for form in (dense, dense[:, ::-1], dense[order], dense[order, ::-1])
    ]
    assert_allclose(losses, losses[0], rtol=1e-9)


def test_merged_cells_are_served_alike() -> None:
    fine = select(np.repeat(np.tri(40), 3, axis=1), method="ordered_cells", random_state=0)
    assert fine.loss == pytest.approx(
        select(np.tri(40), method="ordered_cells", random_state=0).loss, rel=1e-9
    )
    assert fine.matrix.shape[1] == 120


def test_ranges_at_512_beat_every_tree_by_a_fifth() -> None:
    workload = examples.all_ranges(512)
    strategy = select(workload, random_state=0, time_limit=0.5)
    whole = Problem.of(workload).merged_total
    gram = ordered_gram(workload)
    assert gram is not None
    tree = min(equal_loss(gram, sizes, "l1") for sizes in all_trees(512))
    assert strategy.loss < 0.8 * tree
    assert strategy.loss < 0.28 * whole
    assert isinstance(strategy.matrix, PIdentity)


def test_gaussian_noise_comes_certified() -> None:
    strategy = select(examples.prefix_sums(300), "l2", random_state=0)
    assert strategy.method == "ordered_cells"
    assert strategy.certified_ratio < 1.001
    assert_allclose(strategy.matrix.column_norms("l2"), 1.0, rtol=1e-12)


def test_rounded_strategies_keep_their_form_and_answer() -> None:
    workload = examples.prefix_sums(100)
    strategy = select(workload, method="ordered_cells", random_state=0, time_limit=0.2)
    rounded = strategy.matrix.rounded(2**20)
    assert isinstance(rounded, PIdentity)
    cells = np.random.default_rng(0).integers(0, 9, 100)
    exact = rounded.to_sparse() @ cells
    assert exact.dtype == np.int64
    assert_allclose(workload.matmat(rounded.least_squares(exact)), np.cumsum(cells), rtol=1e-9)
    loss = rounded.integer_sensitivity("l1") ** 2 * rounded.error_trace(workload)
    assert loss == pytest.approx(strategy.loss, rel=1e-3)


def test_other_workloads_are_refused_by_name() -> None:
    problem = Problem.of(np.eye(4)[:, [0, 1, 2, 3]])
    assert not FAMILY.serves(problem)
    with pytest.raises(ValueError, match="ordered cells"):
        FAMILY.search(problem, Search())


def test_the_missing_bound_is_said_aloud() -> None:
    strategy = select(np.tri(4), method="identity")
    assert "times the optimum" in str(strategy)
    without = type(strategy)(Identity(4), "l1", 1.0, 10.0, "identity", lambda: 0.0)
    assert "no lower bound is known" in str(without)


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
