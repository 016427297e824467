"""Ordered cells: ranges and prefix sums by trees, wavelets and diagonals, and boxes of them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import strategies
from strategies import Problem, Search, boxes, evaluate, examples, select
from strategies.operators import (
    Dense,
    Gram,
    Identity,
    Kronecker,
    Norm,
    Operator,
    PIdentity,
    Ranges,
    RowKronecker,
    RowScaled,
    Scaled,
    Sparse,
    Stack,
    row_errors,
)
from tests.strategies.workloads import definition, lower_bound

FAMILY = strategies.ordered_cells()

WORKLOADS = {"prefix sums": examples.prefix_sums, "ranges": examples.all_ranges}
NORMS: tuple[Norm, ...] = ("l1", "l2")


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
        assert problem.ordered_gram is not None
        assert_allclose(problem.ordered_gram.to_dense(), problem.gram, rtol=1e-12)


@pytest.mark.parametrize("kind", WORKLOADS)
def test_what_is_nearly_ordered_is_not_taken_for_it(kind: str) -> None:
    dense = WORKLOADS[kind](12).to_dense()
    changed = dense.copy()
    changed[5, 7] = 1.0 - changed[5, 7]
    shuffled = dense[:, np.random.default_rng(0).permutation(12)]
    for form in (changed, shuffled, np.eye(5), examples.binary_tree(8)):
        assert Problem.of(form).ordered_gram is None


def equal_trees(n: int) -> dict[tuple[int, ...], np.ndarray]:
    """All nodes of b-ary trees, b = 2 to 16, with or without upper levels, cut at the last cell.

    By the sizes of their blocks.
    """
    trees = set()
    for branching in range(2, 17):
        sizes = [1]
        while sizes[-1] < n:
            sizes.append(sizes[-1] * branching)
            trees.add(tuple(sizes))
    cells = np.arange(n)
    return {
        sizes: np.concatenate([(cells // k == np.arange(-(-n // k))[:, None]) * 1.0 for k in sizes])
        for sizes in sorted(trees)
    }


@example(30, "prefix sums", "l1")  # a tree cut off is better than its closed form
@example(16, "prefix sums", "l1")
@settings(max_examples=6)
@given(st.integers(2, 40), st.sampled_from(sorted(WORKLOADS)), st.sampled_from(NORMS))
def test_never_above_the_floors(n: int, kind: str, norm: Norm) -> None:
    """Cells, own rows, plain trees and the best weighted one; the loss is the definition's."""
    workload = WORKLOADS[kind](n)
    rows, brief = workload.to_dense(), {"random_state": 0, "time_limit": 0.05}
    found = select(workload, norm, method="ordered_cells", **brief)
    assert found.loss == pytest.approx(definition(rows, found.matrix.to_dense(), norm), rel=1e-6)
    assert found.lower_bound <= found.loss
    tree = select(workload, norm, method="tree", **brief).loss
    equal = {sizes: evaluate(rows, one, norm).loss for sizes, one in equal_trees(n).items()}
    floors = [evaluate(rows, one, norm).loss for one in (np.eye(n), rows)]
    assert found.loss <= min(*floors, *equal.values(), tree) * (1 + 1e-6)
    exact = [loss for sizes, loss in equal.items() if n % sizes[-1] == 0]  # no cells are added
    assert tree <= min(exact, default=np.inf) * (1 + 1e-9)


def test_ranges_at_512_beat_every_tree_by_a_fifth() -> None:
    workload = examples.all_ranges(512)
    found = select(workload, random_state=0, time_limit=0.5)
    assert found.loss < 0.8 * select(workload, method="tree", random_state=0).loss
    assert found.loss < 0.28 * evaluate(workload, np.eye(512)).loss
    assert isinstance(found.matrix, PIdentity)


def test_the_gaussian_optimum_of_ordered_cells_is_a_triangle() -> None:
    weighted = RowScaled(np.random.default_rng(0).uniform(0.5, 2.0, 40), examples.prefix_sums(40))
    found = select(weighted, "l2", method="ordered_cells", random_state=0)
    matrix = found.matrix.to_dense()
    assert not np.triu(matrix, 1).any() or not np.tril(matrix, -1).any()
    assert found.loss == pytest.approx(definition(weighted.to_dense(), matrix, "l2"))
    assert found.certified_ratio < 1.001


def some_ranges(n: int, q: int, seed: int = 0, longest: int | None = None) -> Ranges:
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, n, q)
    stops = np.minimum(n, starts + generator.integers(1, (longest or n) + 1, q))
    return Ranges(n, starts, stops, generator.uniform(0.5, 2.0, q))


@pytest.mark.parametrize("heavy", [1.0, 1e6])
def test_row_errors_of_ranges_by_sums_up_to_cuts(heavy: float) -> None:
    """Where differences cancel too: a long sum is measured a million times as well as cells."""
    ranges = some_ranges(64, 80)
    whole = Ranges(64, np.array([0, 1]), np.array([64, 64]), np.ones(2))
    rows = sparse.csr_array(heavy * np.kron(np.eye(16), np.ones((1, 4))))
    matrix = PIdentity(np.linspace(0.5, 1.0, 64), rows)
    for workload in (ranges, whole):
        recovery = workload.to_dense() @ np.linalg.pinv(matrix.to_dense())
        assert_allclose(row_errors(workload, matrix), (recovery**2).sum(axis=1), rtol=1e-6)


def test_the_error_of_a_triangle_on_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges, generator = some_ranges(30, 40), np.random.default_rng(2)
    matrix = np.triu(generator.normal(size=(30, 30))) + 5.0 * np.eye(30)
    monkeypatch.setattr("strategies.search.assessment.BY_TRIANGLE", 0)
    found = evaluate(ranges, matrix, "l2").loss
    assert found == pytest.approx(definition(ranges.to_dense(), matrix, "l2"), rel=1e-9)


@pytest.mark.parametrize("longest", [30])
def test_ranges_never_above_the_best_tree(longest: int | None) -> None:
    """Rows and columns shuffled."""
    ranges = some_ranges(520, 800, 1, longest)
    tree = select(ranges, method="tree", random_state=0).loss
    order = np.random.default_rng(3).permutation(520)
    rows = ranges.to_sparse()[::-1][:, order]
    found = select(rows, "l1", "ordered_cells", random_state=0, time_limit=0.5)
    assert found.loss < 0.9 * tree
    again = evaluate(rows.toarray(), found.matrix.to_dense())
    assert again.loss == pytest.approx(found.loss, rel=1e-6)


def test_cells_and_their_total() -> None:
    """A single row beside the cells, best with a weight of its own."""
    ranges = Ranges(500, np.r_[np.arange(500), 0], np.r_[np.arange(1, 501), 500], np.ones(501))
    beside = [np.vstack([(1 - w) * np.eye(500), w * np.ones((1, 500))]) for w in (0.01, 0.06, 0.1)]
    best = min(evaluate(ranges, one).loss for one in beside)
    assert select(ranges, method="tree").loss < best * (1 + 1e-9)


@pytest.mark.parametrize("longest", [None, 100, 8])
def test_ranges_for_gaussian_noise_and_their_bound(
    longest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimum lies between the bound at fitted weights and the fitted optimum."""
    ranges = some_ranges(240, 400, 4, longest)
    optimum = select(ranges, "l2", "gaussian_optimal", random_state=0).loss
    reached = select(ranges, "l2", "ordered_cells", random_state=0).loss
    for module in ("lower_bound", "dual_ascent"):
        monkeypatch.setattr(f"strategies.bounds.{module}.LARGEST", 100)
    bound = lower_bound(ranges)
    assert bound <= optimum * (1 + 1e-9)
    assert optimum <= reached * (1 + 1e-9) < 1.2 * bound


@settings(max_examples=5)
@given(st.integers(2, 30), st.integers(0, 5), st.sampled_from(NORMS))
def test_reversal_and_the_order_of_rows_change_nothing(n: int, seed: int, norm: Norm) -> None:
    dense = np.tri(n)
    order = np.random.default_rng(seed).permutation(n)
    losses = [
        select(form, norm, method="ordered_cells", random_state=0, time_limit=0.05).loss
        for form in (dense, dense[:, ::-1], dense[order], dense[order, ::-1])
    ]
    assert_allclose(losses, losses[0], rtol=1e-9)


def test_gaussian_noise_comes_certified() -> None:
    strategy = select(examples.prefix_sums(300), "l2", random_state=0)
    assert strategy.method == "ordered_cells"
    assert strategy.certified_ratio < 1.001
    assert_allclose(strategy.matrix.column_norms("l2"), 1.0, rtol=1e-12)


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


def attributes_behind(rows: np.ndarray) -> Operator:
    return Problem.of(rows).with_attributes().workload


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
    rows = grid((24, 22), 60)
    found = {name: select(form(rows), norm, "boxes", random_state=0, time_limit=0.05)
             for name, form in FORMS.items()}  # fmt: skip
    losses = [one.loss / (9 if name == "of one number" else 1) for name, one in found.items()]
    assert_allclose(losses, losses[0], rtol=1e-5)
    again = evaluate(rows.to_dense(), found["ndarray"].matrix.to_dense(), norm)
    assert again.loss == pytest.approx(losses[0], rel=1e-5)
    assert losses[0] <= (1.0 if norm == "l1" else 0.2) * rows.row_squares().sum()
    assert found["ndarray"].lower_bound <= losses[0]


def test_never_above_the_best_product_of_plain_trees():
    rows = grid((64, 27), 150, 1)
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
    found = select(rows.to_sparse(), "l1", "boxes", random_state=0, time_limit=0.3)
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
    found = attributes_behind(dense)
    assert_allclose(found.gram_dense(), dense.T @ dense)
    if isinstance(found, RowKronecker):
        assert_allclose(found.to_dense(), dense)
        assert all(len(mask) == 12 for mask in found.all_masks())


def test_one_row_that_is_no_box_shows_none():
    """The control."""
    dense = grid((10, 12), 40).to_dense()
    assert isinstance(attributes_behind(dense), RowKronecker)
    dense[17] = np.eye(120)[0] + np.eye(120)[13]
    assert not isinstance(attributes_behind(dense), RowKronecker)


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


# Trees and wavelets -------------------------------------------------------------------------------


HAAR = [
    [1, 1, 1, 1, 1, 1, 1, 1],
    [1, 1, 1, 1, -1, -1, -1, -1],
    [1, 1, -1, -1, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 1, -1, -1],
    *np.kron(np.eye(4), [1, -1]).tolist(),
]


def sorted_rows(matrix: np.ndarray) -> list[list[float]]:
    return sorted(matrix.round(9).tolist())


@pytest.mark.parametrize("norm", NORMS)
def test_equal_trees_are_the_published_ones(norm: str) -> None:
    """All nodes of the tree, each once: written out as matrices."""
    family = strategies.tree(branching=2, weighted=False)
    found = select(examples.prefix_sums(8), norm, method=family)
    nodes = [np.kron(np.eye(8 // k), np.ones((1, k))) for k in (1, 2, 4, 8)]
    scaled = found.matrix.to_dense() / found.matrix.to_dense().max()
    assert sorted_rows(scaled) == sorted_rows(np.vstack(nodes))
    published = {"l1": 2840.0, "l2": None}[norm]
    if published is not None:
        wide = select(examples.prefix_sums(64), norm, method=family)
        assert wide.loss == pytest.approx(published, abs=1)


@pytest.mark.parametrize("norm", NORMS)
def test_equal_wavelets_are_the_published_ones(norm: str) -> None:
    found = select(examples.all_ranges(8), norm, method=strategies.wavelet(weighted=False))
    assert sorted_rows(found.matrix.to_dense()) == sorted_rows(np.array(HAAR, dtype=float))
    assert found.sensitivity == (4.0 if norm == "l1" else 2.0)  # 1 + log2 8, or its root


OF_TREES = st.tuples(
    st.integers(1, 6), st.integers(2, 13), st.integers(0, 2**32 - 1), st.sampled_from(NORMS)
)


@given(case=OF_TREES, branching=st.integers(2, 5))
def test_weights_never_lose_to_equal_ones(case: tuple[int, int, int, str], branching: int) -> None:
    """On any workload, over any number of cells; and no loss is below the bound."""
    q, n, seed, norm = case
    workload = np.random.default_rng(seed).normal(size=(q, n))
    for make in (
        lambda weighted: strategies.tree(branching=branching, weighted=weighted),
        lambda weighted: strategies.wavelet(weighted=weighted),
    ):
        best = select(workload, norm, method=make(True))
        plain = select(workload, norm, method=make(False))
        if n & (n - 1) == 0 and branching in (2, n):  # no cells are added: the form is exact
            assert best.loss <= plain.loss * (1 + 1e-9)
        assert best.lower_bound <= best.loss * (1 + 1e-9)
        again = evaluate(workload, best.matrix.to_dense(), norm)
        assert again.loss == pytest.approx(best.loss, rel=1e-6)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "family",
    [strategies.levels(sizes=(1, 2, 8, 16)), strategies.wavelet()],
    ids=lambda family: family.name,
)
def test_the_weights_are_the_best_of_their_kind(family: strategies.Family, norm: str) -> None:
    """Small steps from the weights found, in any direction, gain nothing."""
    workload = examples.prefix_sums(32).to_dense() * np.linspace(0.5, 1.5, 32)
    found = select(workload, norm, method=family)
    matrix = found.matrix.to_dense()
    kinds = 2 * np.count_nonzero(matrix, axis=1) + (matrix.min(axis=1) < 0)
    level = np.unique(kinds, return_inverse=True)[1]
    assert level.max() >= 1
    random = np.random.default_rng(1)
    for _ in range(20):
        steps = np.exp(0.05 * random.normal(size=level.max() + 1))
        near = evaluate(workload, steps[level][:, None] * matrix, norm)
        assert near.loss >= found.loss * (1 - 1e-9)


def test_wavelets_and_binary_trees_are_alike_for_gaussian_noise() -> None:
    """With the best weights both span ``AᵀA`` of the same projections."""
    for workload in (examples.prefix_sums(32), examples.all_ranges(16)):
        tree = select(workload, "l2", method=strategies.tree(branching=2)).loss
        assert select(workload, "l2", method="wavelet").loss == pytest.approx(tree, rel=1e-4)
    laplace = select(examples.prefix_sums(32), method="wavelet").loss
    assert laplace > 1.5 * select(examples.prefix_sums(32), method="tree").loss


def test_given_levels() -> None:
    sizes, weights = (1, 3, 12), (2.0, 1.0, 0.5)
    found = select(examples.prefix_sums(12), method=strategies.levels(sizes=sizes, weights=weights))
    rows = [
        w * np.kron(np.eye(12 // k), np.ones((1, k))) for k, w in zip(sizes, weights, strict=True)
    ]
    assert sorted_rows(found.matrix.to_dense() * 3.5) == sorted_rows(np.vstack(rows))
    best = select(examples.prefix_sums(12), method=strategies.levels(sizes=sizes))
    assert best.loss <= found.loss
    same = select(examples.prefix_sums(27), method=strategies.levels(sizes=(1, 3, 9, 27)))
    tree = select(examples.prefix_sums(27), method=strategies.tree(branching=3))
    assert same.loss == pytest.approx(tree.loss)


def test_one_cell_and_the_worst_row() -> None:
    for name in ("tree", "levels", "wavelet"):
        assert select(np.array([[2.0]]), method=name).loss == pytest.approx(4.0)
        found = select(examples.prefix_sums(8), method=name, objective="max")
        assert found.loss == pytest.approx(
            evaluate(examples.prefix_sums(8), found.matrix, objective="max").loss
        )
