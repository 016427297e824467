"""T, Q, W and C = T D against their dense products, cell by cell and record by record."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix.compilation import (
    leaf_counts,
    leaf_incidence,
    path_matrix,
    path_matrix_from_codes,
    prediction_workload,
    query_codes,
    query_matrix,
)
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, RandomTrees, concatenate, forest_from_paths
from strategies.operators import MemoryCapError, memory_cap


def walk(forest: Forest, root: int, record: list[int]) -> int:
    """Return the leaf node that a record reaches, one lookup at a time."""
    node = root
    while forest.attribute[node] >= 0:
        code = record[forest.attribute[node]]
        node = int(forest.first_child[node] + forest.branches[forest.pattern[node] + code])
    return node


def cells_of(sizes: tuple[int, ...]) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1)


def dense_paths(forest: Forest) -> np.ndarray:
    """Return T as an ndarray, entry by entry."""
    cells = cells_of(forest.domain.sizes)
    matrix = np.zeros((forest.n_leaves, len(cells)))
    for column, record in enumerate(cells.tolist()):
        for root in forest.roots.tolist():
            matrix[forest.leaf_index[walk(forest, root, record)], column] = 1
    return matrix


@st.composite
def mixed_forests(draw: st.DrawFn) -> Forest:
    """Multi-way and binary trees of several depths over one small domain."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    domain = Domain.from_sizes([*sizes, *draw(st.lists(st.just(1), max_size=1))])
    seed = draw(st.integers(0, 2**31))
    depth = draw(st.integers(0, len(sizes)))
    parts = [
        RandomTrees(draw(st.integers(1, 3)), depth).grow(domain, random_state=seed),
        RandomTrees(draw(st.integers(1, 3)), draw(st.integers(0, 4)), "binary").grow(domain, seed),
    ]
    return concatenate(parts)


@pytest.fixture(scope="session")
def any_forest() -> st.SearchStrategy[Forest]:
    return mixed_forests()


@pytest.fixture(scope="session")
def brute_force():
    """Return the function that makes T as an ndarray, entry by entry."""
    return dense_paths


@pytest.fixture(scope="session")
def all_cells():
    """Return the function that lists every cell of a domain as codes."""
    return cells_of


@given(data=st.data())
def test_every_product_agrees_with_the_dense_matrix(data, any_forest, brute_force):
    forest = data.draw(any_forest)
    dense = brute_force(forest)
    T = path_matrix(forest)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(dense.shape[1]), rng.standard_normal((len(dense), 2))
    assert np.array_equal(T.to_dense(), dense)
    assert np.array_equal(T.to_sparse().toarray(), dense)
    assert np.allclose(T @ x, dense @ x)
    assert np.allclose(T.rmatmat(y), dense.T @ y)
    assert np.array_equal(T.row_gram(), dense @ dense.T)
    assert np.array_equal(T.gram_dense(), dense.T @ dense)
    assert np.array_equal(T.row_sums(), dense.sum(axis=1))
    assert np.array_equal(T.column_norms("l1"), dense.sum(axis=0))


@given(data=st.data())
def test_columns_are_what_routing_reaches(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    cells = all_cells(forest.domain.sizes)
    columns = path_matrix(forest).columns(cells).toarray()
    assert np.array_equal(np.sort(forest.apply(cells), axis=1).T, by_tree(columns))


def by_tree(columns: np.ndarray) -> np.ndarray:
    """Return the rows of the ones of each column, in order: one a tree."""
    return np.stack([np.flatnonzero(column) for column in columns.T], axis=1)


@given(data=st.data())
def test_the_sensitivity_is_the_number_of_trees(data, any_forest):
    forest = data.draw(any_forest)
    T = path_matrix(forest)
    assert T.sensitivity("l1") == forest.n_trees
    assert T.sensitivity("l2") == pytest.approx(np.sqrt(forest.n_trees))
    assert T.is_partition
    assert np.array_equal(T.groups, forest.leaf_tree)


@given(st.integers(0, 3), st.integers(0, 2**31))
def test_paths_as_codes_give_the_same_matrix(depth, seed):
    domain = Domain.from_sizes([3, 2, 4])
    forest = RandomTrees(4, depth).grow(domain, random_state=seed)
    T = path_matrix(forest)
    for sizes in (domain, domain.sizes, list(domain.sizes)):
        from_codes = path_matrix_from_codes(forest.paths(), sizes, forest.leaf_tree)
        assert np.array_equal(from_codes.bits, T.bits)
        assert np.array_equal(from_codes.groups, T.groups)
    assert path_matrix_from_codes(forest.paths(), domain).groups is None


def test_a_domain_of_any_size_is_no_burden():
    domain = Domain.from_sizes([10] * 30)  # 10^30 cells
    forest = RandomTrees(16, 3).grow(domain, random_state=0)
    T = path_matrix(forest)
    assert T.shape == (16 * 1000, 10**30)
    assert T.bits.nbytes <= 16_000 * (300 / 8 + 1)
    assert T.sensitivity("l1") == 16
    assert set(T.row_sums()) == {10**27}
    codes = np.random.default_rng(0).integers(0, 10, size=(20, 30))
    assert np.array_equal(by_tree(T.columns(codes).toarray()), forest.apply(codes).T)
    # two leaves that fix 3 attributes each and share s of them meet in 10**(24 + s) cells or none
    gram = T.take_rows(slice(0, 2000)).row_gram()
    shared = np.log10(gram[gram > 0]) - 24
    assert np.allclose(shared, np.rint(shared))
    with pytest.raises(MemoryCapError):
        T.to_dense()


def test_fine_codes_and_thresholds():
    domain = Domain.from_sizes([2000, 3000])
    forest = RandomTrees(4, 6, "binary").grow(domain, random_state=0)
    T = path_matrix(forest)
    assert T.row_sums().sum() == 4 * domain.size


def test_masks_above_the_cap_are_refused_before_they_are_made():
    forest = RandomTrees(16, 3).grow(Domain.from_sizes([10] * 5), random_state=0)
    with memory_cap(16_000 * 50 - 1), pytest.raises(MemoryCapError, match="masks of the paths"):
        path_matrix(forest)
    paths = forest.paths()
    with memory_cap(16_000 * 50 - 1), pytest.raises(MemoryCapError, match="masks of the paths"):
        path_matrix_from_codes(paths, [10] * 5)


@pytest.mark.parametrize(
    ("paths", "sizes", "tree_id", "message"),
    [
        ([[0, 1]], [2, 2, 2], None, "paths has the wrong shape"),
        ([[0.5, 1.0]], [2, 2], None, "float64"),
        ([[0, 2]], [2, 2], None, "attribute 1 leave the domain: expected -1 to 1"),
        ([[-2, 0]], [2, 2], None, "attribute 0 leave the domain"),
        ([[0, 0]], [2, 0], None, r"sizes=\(2, 0\): expected positive"),
        (np.zeros((1, 0), dtype=int), [], None, r"sizes=\(\): expected positive"),
        ([[0, -1], [-1, 0]], [2, 2], [0, 0], "share a cell"),
        ([[0, -1], [1, -1]], [2, 2], [0], "groups"),
    ],
)
def test_wrong_paths(paths, sizes, tree_id, message):
    with pytest.raises(ValueError, match=message):
        path_matrix_from_codes(np.array(paths), sizes, tree_id)


def test_a_forest_is_expected():
    with pytest.raises(TypeError, match="ndarray: expected a Forest"):
        path_matrix(np.eye(2))


# Counts of leaves --------------------------------------------------------------------------------


def some_records(sizes, n_records, n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n_records, len(sizes))).astype(np.int32)
    return codes, rng.integers(0, n_classes, size=n_records).astype(np.int32)


@given(data=st.data(), n_records=st.sampled_from([0, 1, 5, 400]), n_classes=st.integers(1, 3))
def test_counts_are_the_path_matrix_times_the_table(data, n_records, n_classes, any_forest):
    forest = data.draw(any_forest)
    seed = data.draw(st.integers(0, 2**31))
    codes, labels = some_records(forest.domain.sizes, n_records, n_classes, seed)
    D = np.zeros((forest.domain.size, n_classes))
    np.add.at(D, (np.ravel_multi_index(tuple(codes.T), forest.domain.sizes), labels), 1)
    C = leaf_counts(forest, codes, labels, n_classes)
    assert C.dtype == np.int64
    assert np.array_equal(C, path_matrix(forest).to_dense() @ D)


def test_both_routes_agree():
    """400 records over 36 cells are counted by cell; 30 of them one by one."""
    forest = RandomTrees(20, 2).grow(Domain.from_sizes([4, 3, 3]), random_state=0)
    codes, labels = some_records((4, 3, 3), 400, 3, 0)
    parts = [
        leaf_counts(forest, codes[s : s + 20], labels[s : s + 20], 3) for s in range(0, 400, 20)
    ]
    assert np.array_equal(leaf_counts(forest, codes, labels, 3), sum(parts))


def test_every_tree_counts_every_record_once():
    forest = RandomTrees(8, 3).grow(Domain.from_sizes([10] * 30), random_state=0)
    codes, labels = some_records([10] * 30, 3000, 4, 0)
    C = leaf_counts(forest, codes, labels, 4)
    totals = np.add.reduceat(C, np.searchsorted(forest.leaf_tree, np.arange(8)))
    assert np.array_equal(totals, np.tile(np.bincount(labels), (8, 1)))


def test_no_array_of_records_by_trees_is_made():
    forest = RandomTrees(64, 2).grow(Domain.from_sizes([4] * 20), random_state=0)
    codes, labels = some_records([4] * 20, 50_000, 2, 0)
    _ = forest.router, forest.leaf_index
    tracemalloc.start()
    C = leaf_counts(forest, codes, labels, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < C.nbytes + 2**21  # 50 000 x 64 states would be 25 MB


@pytest.mark.parametrize(
    ("codes", "labels", "n_classes", "message"),
    [
        ([[0, 0]], [2], 2, "labels leave the classes: expected 0 to 1"),
        ([[0, 0]], [-1], 2, "labels leave the classes"),
        ([[0, 0]], [0.0], 2, "float64"),
        ([[0, 0]], [0, 1], 2, "labels has the wrong shape"),
        ([[0, 0]], [0], 0, "n_classes=0: expected a positive integer"),
        ([[0, 0]], [0], 2.0, "n_classes=2.0"),
        ([[0, 2]], [0], 2, "'x1' leave the domain"),
        ([[0]], [0], 2, "codes has the wrong shape"),
    ],
)
def test_wrong_records(codes, labels, n_classes, message):
    forest = RandomTrees(2, 1).grow(Domain.from_sizes([2, 2]), random_state=0)
    with pytest.raises(ValueError, match=message):
        leaf_counts(forest, np.array(codes), np.array(labels), n_classes)


def test_counts_above_the_cap():
    forest = RandomTrees(100, 1).grow(Domain.from_sizes([2, 2]), random_state=0)
    with memory_cap(1000), pytest.raises(MemoryCapError, match="leaf counts"):
        leaf_counts(forest, np.zeros((1, 2), dtype=int), np.zeros(1, dtype=int), 2)


# Workloads ---------------------------------------------------------------------------------------


def records(draw: st.DrawFn, sizes: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    return rng.integers(0, sizes, size=(draw(st.integers(0, 12)), len(sizes)))


@given(data=st.data())
def test_dense_products(data, any_forest, brute_force):
    forest = data.draw(any_forest)
    sizes = forest.domain.sizes
    codes = records(data.draw, sizes)
    Q, T, dense = query_matrix(codes, forest.domain), path_matrix(forest), brute_force(forest)
    selection = np.zeros((len(codes), dense.shape[1]))
    selection[np.arange(len(codes)), np.ravel_multi_index(tuple(codes.T), sizes)] = 1
    assert np.array_equal(Q.to_dense(), selection)
    assert np.array_equal(query_codes(Q), codes)
    for paths in (T, forest):
        incidence = leaf_incidence(paths, Q)
        assert incidence.dtype == np.int64
        assert np.array_equal(incidence.toarray(), selection @ dense.T)
        W = prediction_workload(paths, Q)
        assert np.array_equal(W.to_dense(), selection @ dense.T @ dense)
        assert np.array_equal(W.to_sparse().toarray(), selection @ dense.T @ dense)
        x = np.random.default_rng(0).standard_normal(dense.shape[1])
        assert np.allclose(W @ x, selection @ dense.T @ dense @ x)


def test_each_distinct_path_that_is_reached_is_kept_once():
    domain = Domain.from_sizes([3, 2])
    forest = RandomTrees(50, 1).grow(domain, random_state=0)  # five distinct paths
    Q = query_matrix(np.array([[0, 0], [0, 1], [0, 0]]), domain)
    W = prediction_workload(path_matrix(forest), Q)
    assert W.right.shape[0] == 3  # x0 = 0, x1 = 0, x1 = 1
    assert W.left.to_sparse().sum(axis=1).tolist() == [50, 50, 50]


def test_a_large_domain_is_never_enumerated():
    domain = Domain.from_sizes([10] * 30)
    forest = RandomTrees(16, 3).grow(domain, random_state=0)
    codes = np.random.default_rng(0).integers(0, 10, size=(25, 30))
    Q = query_matrix(codes, domain)
    assert Q.shape == (25, 10**30)
    T = path_matrix(forest)
    assert (leaf_incidence(T, Q) != leaf_incidence(forest, Q)).nnz == 0
    W = prediction_workload(T, Q)
    assert W.shape == (25, 10**30)
    mine = W.columns(codes).toarray()  # trees in which two test records share a leaf
    leaves = forest.apply(codes)
    assert np.array_equal(mine, (leaves[:, np.newaxis] == leaves).sum(axis=2))


def test_no_queries():
    T = path_matrix_from_codes(np.array([[0], [1]]), [2])
    W = prediction_workload(T, query_matrix(np.zeros((0, 1), dtype=int), [2]))
    assert W.to_dense().shape == (0, 2)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.array([0, 1]), "wrong shape"),
        (np.array([[0]]), "wrong shape"),
        (np.array([[0.0, 1.0]]), "float64"),
        (np.array([[0, -1]]), "leave the domain: expected 0 to 1"),
        (np.array([[2, 0]]), "leave the domain"),
    ],
)
def test_wrong_codes(codes, message):
    with pytest.raises(ValueError, match=message):
        query_matrix(codes, [2, 2])


def test_queries_of_another_domain():
    T = path_matrix_from_codes(np.array([[0, -1], [1, -1]]), [2, 2])
    Q = query_matrix(np.array([[0, 2]]), [2, 3])
    for build in (leaf_incidence, prediction_workload):
        with pytest.raises(ValueError, match=r"sizes \(2, 3\) and paths over \(2, 2\)"):
            build(T, Q)


def test_codes_are_no_queries():
    T = path_matrix_from_codes(np.array([[0, -1], [1, -1]]), [2, 2])
    codes = np.array([[0, 1]])
    for build in (leaf_incidence, prediction_workload):
        with pytest.raises(TypeError, match=r"queries is of type ndarray: expected query_matrix"):
            build(T, codes)
        with pytest.raises(TypeError, match=r"paths is of type ndarray: expected path_matrix"):
            build(T.toarray(), query_matrix(codes, [2, 2]))


def test_rows_that_are_no_records():
    T = path_matrix_from_codes(np.array([[0, -1], [1, -1]]), [2, 2])
    with pytest.raises(ValueError, match="row 0 of queries does not hold exactly one cell"):
        query_codes(T)
    with pytest.raises(TypeError, match="ndarray: expected query_matrix"):
        query_codes(np.eye(2))


def test_queries_above_the_cap():
    with memory_cap(100), pytest.raises(MemoryCapError, match="unit vectors of the queries"):
        query_matrix(np.zeros((26, 2), dtype=int), [2, 2])


# The papers' own forests --------------------------------------------------------------------------

ENSEMBLES = [
    *[(name, 0) for name in ("car", "balance", "iris")],
    *[("heart", i) for i in range(2)],
    *[("mushroom", i) for i in range(5)],
]


@pytest.fixture(scope="module", params=ENSEMBLES, ids=lambda e: f"{e[0]}-{e[1]}")
def ensemble(request, shared_dir):
    name, number = request.param
    folder = shared_dir / "workloads"
    figures = json.loads((folder / "reference.json").read_text())[name]["ensemble_workloads"]
    arrays = np.load(folder / f"{name}_seed0.npz")
    end = figures[number]["suffix"]
    domain = Domain.from_sizes(arrays["domain" + end].tolist())
    forest = forest_from_paths(arrays["paths" + end], arrays["tree_id" + end], domain)
    return forest, {key: arrays[key + end] for key in ("paths", "tree_id", "Q")}, figures[number]


def test_the_rebuilt_forest_has_the_published_paths(ensemble):
    forest, arrays, figures = ensemble
    assert forest.domain.size == figures["cells"]
    assert forest.n_leaves == figures["training"]["rows"]
    published = np.lexsort((*arrays["paths"].T, arrays["tree_id"]))
    mine = forest.paths()
    order = np.lexsort((*mine.T, forest.leaf_tree))
    assert np.array_equal(mine[order], arrays["paths"][published])


def test_identity_loss_of_training(ensemble):
    """With A = I the loss is ||T||_F^2: the ones of T."""
    forest, arrays, figures = ensemble
    T = path_matrix_from_codes(arrays["paths"], forest.domain, arrays["tree_id"])
    assert T.row_sums().sum() == figures["training"]["identity"]
    assert path_matrix(forest).row_sums().sum() == figures["training"]["identity"]


def test_noise_on_every_row_of_the_workload(ensemble):
    """Laplace noise on every answer, nothing averaged: sensitivity squared times the rows."""
    forest, arrays, figures = ensemble
    T = path_matrix(forest)
    assert T.sensitivity("l1") ** 2 * T.shape[0] == figures["training"]["laplace"]
    W = prediction_workload(T, query_matrix(arrays["Q"], forest.domain))
    assert W.sensitivity("l1") ** 2 * W.shape[0] == figures["prediction"]["laplace"]


def test_identity_loss_of_prediction(ensemble):
    forest, arrays, figures = ensemble
    W = prediction_workload(path_matrix(forest), query_matrix(arrays["Q"], forest.domain))
    assert W.shape == (figures["prediction"]["rows"], figures["cells"])
    assert (W.to_dense() ** 2).sum() == figures["prediction"]["identity"]
