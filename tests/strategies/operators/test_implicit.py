"""Answers without anything of the domain's length, against dense twins and on huge domains."""

import gc
import weakref

import numpy as np
import pytest
from scipy import sparse

import strategies
from strategies import operators as ops
from strategies.operators import cross_gram
from strategies.operators.base.recovery import MOST_BITS, coordinates

RANDOM = np.random.default_rng(12)
SIZES = (3, 2, 4)
MASKS = [RANDOM.random((9, size)) < 0.6 for size in SIZES]
PATHS = ops.RowKronecker.from_masks(MASKS)
MARGINALS = ops.Marginals(SIZES, [(), (0,), (1, 2)], [2.0, 0.5, 3.0])
STRUCTURES = {
    "paths": PATHS,
    "marginals": MARGINALS,
    "other marginals": ops.Marginals(SIZES, [(2, 0), (1,)], [1, 0]),
    "kronecker": ops.Kronecker([ops.Dense(RANDOM.normal(size=(2, n))) for n in SIZES]),
    "kronecker binary": ops.Kronecker([ops.Identity(3), ops.Grouping([0, 0]), ops.Identity(4)]),
    "kronecker of blocks": ops.Kronecker([ops.Identity(6, (3, 2)), ops.Grouping([0, 1, 1, 0])]),
    "scaled": ops.Scaled(-2.5, MARGINALS),
    "row scaled": ops.RowScaled(RANDOM.normal(size=9), PATHS),
    "product": ops.Sparse(sparse.csr_array(RANDOM.normal(size=(4, 9)))) @ PATHS,
    "identity": ops.Identity(24, SIZES),
    "dense": ops.Dense(RANDOM.normal(size=(5, 24)), SIZES),
    "stack": ops.Stack([ops.Scaled(3, MARGINALS), PATHS, ops.Identity(24, SIZES)]),
}


def test_rows_of_marginals_are_the_marginals():
    rows = MARGINALS.by_rows
    np.testing.assert_array_equal(rows.to_dense(), MARGINALS.to_dense())
    dense = rows.to_dense()
    with ops.memory_cap(2000):
        np.testing.assert_allclose(MARGINALS.row_gram(), dense @ dense.T)
        with pytest.raises(ops.MemoryCapError, match="masks of the marginals' rows"):
            _ = ops.Marginals((40,), [(0,)], [1]).by_rows


@pytest.mark.parametrize("name", STRUCTURES)
def test_coordinates_are_those_of_the_row_space(name):
    matrix = STRUCTURES[name]
    dense = matrix.to_dense()
    workload = RANDOM.normal(size=(6, len(dense))) @ dense
    rows, measured = coordinates(ops.Dense(workload, SIZES), matrix)
    np.testing.assert_allclose(measured @ measured.T, dense @ dense.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(rows @ measured.T, workload @ dense.T, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(rows @ rows.T, workload @ workload.T, rtol=1e-9, atol=1e-8)
    outside = np.vstack([workload[:2], RANDOM.normal(size=24)])
    if np.linalg.matrix_rank(dense) < 24:
        with pytest.raises(ops.RowSpaceError, match="rows 2"):
            coordinates(ops.Dense(outside, SIZES), matrix)


def test_rows_that_are_faint_beside_others_keep_their_own_answers():
    """Rank is told from rows of length one: a weight of 1e-9 hides no row."""
    matrix = ops.Stack([ops.Marginals(SIZES, [(0,)], [1]), ops.Scaled(1e-9, PATHS.take_rows([0]))])
    dense = matrix.to_dense()
    rows, measured = coordinates(PATHS.take_rows([0]), matrix)
    weights = np.linalg.lstsq(measured.T, rows.T, rcond=None)[0].T
    np.testing.assert_allclose(weights @ dense, PATHS.to_dense()[:1], rtol=1e-9, atol=1e-9)


def random_paths(sizes, number, depth, seed=0):
    """Return paths that each fix one code of as many attributes as their depth."""
    generator = np.random.default_rng(seed)
    masks = [np.ones((number, size), dtype=bool) for size in sizes]
    for row in range(number):
        for i in generator.choice(len(sizes), depth, replace=False):
            masks[i][row] = np.arange(sizes[i]) == generator.integers(sizes[i])
    return ops.RowKronecker.from_masks(masks)


HUGE = (2,) * 60


@pytest.mark.parametrize("depth", [2, 30])
def test_a_path_outside_is_refused_however_few_cells_it_has(depth):
    """A deep path has a vanishing share of the total's norm, and is no less outside for it."""
    one_way = ops.Marginals(HUGE, [(i,) for i in range(60)], [1] * 60)
    total = ops.RowKronecker.from_masks([np.ones((1, 2))] * 60)
    inside, outside = random_paths(HUGE, 5, depth), random_paths(HUGE, 3, depth, seed=1)
    matrix = ops.Stack([one_way, total, inside])
    values = ops.row_errors(ops.Stack([total, inside]), matrix)
    assert values.shape == (6,)
    with pytest.raises(ops.RowSpaceError, match="rows 1, 2, 3"):
        ops.row_errors(ops.Stack([total, outside]), matrix)


def over(sizes, masks, sets):
    """Return paths and one-way marginals over the first attributes of a domain."""
    rest = [np.ones((len(masks[0]), size), dtype=bool) for size in sizes[len(masks) :]]
    weights = np.arange(2, 2 + len(sets))
    paths = ops.RowKronecker.from_masks([*masks, *rest])
    return paths, ops.Marginals(sizes, sets, weights.tolist())


@pytest.mark.parametrize("faint", [1, 10_000])
def test_marginals_and_paths_over_a_huge_domain(faint):
    """Attributes that no row restricts change nothing: the twin is without them."""
    masks = random_paths((2,) * 6, 9, 3).all_masks()
    sets = [(0,), (1, 4), (5,)]
    (paths, marginals), (few, less) = over(HUGE, masks, sets), over((2,) * 6, masks, sets)
    matrix = ops.Stack([ops.Scaled(faint, marginals), paths])
    small = np.vstack([faint * less.to_dense(), few.to_dense()])
    asked = ops.Stack([paths, ops.Marginals(HUGE, [(4,), ()], [1, 1])])
    twin = np.vstack([few.to_dense(), ops.Marginals((2,) * 6, [(4,), ()], [1, 1]).to_dense()])
    answers = RANDOM.normal(size=(len(small), 2))
    inverse = np.linalg.pinv(small, rcond=1e-10)
    found = ops.estimate(asked, matrix, answers)
    np.testing.assert_allclose(found, twin @ inverse @ answers, rtol=1e-6, atol=1e-7)
    errors = ((twin @ inverse) ** 2).sum(axis=1)
    np.testing.assert_allclose(ops.row_errors(asked, matrix), errors, rtol=1e-6)


@pytest.mark.parametrize("depth", [3, 40])
def test_answers_without_noise_are_exact_over_a_huge_domain(depth):
    generator = np.random.default_rng(2)
    records = generator.integers(0, 2, (500, 60))
    paths = random_paths(HUGE, 12, depth)
    matrix = ops.Stack([ops.Marginals(HUGE, [(i,) for i in range(60)], [2] * 60), paths])
    answers = matrix.columns(records).sum(axis=1)
    asked = ops.Stack([paths, ops.Marginals(HUGE, [(7,), ()], [1, 1])])
    exact = np.concatenate([answers[120:], answers[14:16] / 2, [500]])
    np.testing.assert_allclose(ops.estimate(asked, matrix, answers[:, None])[:, 0], exact,
                               rtol=1e-9, atol=1e-9)  # fmt: skip
    errors = ops.row_errors(asked, matrix)
    assert (errors[:12] <= 1 + 1e-9).all()
    assert errors[14] == pytest.approx(2 / 60 / 4)  # the total: 60 sums of two answers of weight 2


def test_marginals_are_asked_of_marginals_over_a_huge_domain():
    matrix = ops.Marginals(HUGE, [(0, 1), (2,)], [1, 3])
    asked = ops.Marginals(HUGE, [(1,), ()], [1, 2])
    small = ops.Marginals((2, 2, 2), [(0, 1), (2,)], [1, 3])
    twin = ops.Marginals((2, 2, 2), [(1,), ()], [1, 2])
    answers = RANDOM.normal(size=(6, 1))
    expected = twin.to_dense() @ np.linalg.pinv(small.to_dense()) @ answers
    np.testing.assert_allclose(ops.estimate(asked, matrix, answers), expected, rtol=1e-9)
    chosen = strategies.select(asked, method="marginals", random_state=0, time_limit=0.05)
    assert chosen.loss < 50


@pytest.mark.parametrize(
    ("sizes", "sets"), [((30_000,), [(0,)]), ((2,) * 11, [tuple(range(11)), (3,)])]
)
def test_large_tables_are_asked_without_their_rows(sizes, sets):
    """Where masks or components of all rows would be many, marginals go by the cells as ever."""
    matrix = ops.Marginals(sizes, sets, [2] * len(sets))
    answers = np.arange(matrix.shape[0], dtype=float)[:, None]
    asked = ops.Marginals(sizes, sets[:1], [1])
    found = ops.estimate(asked, matrix, answers)
    cells = matrix.least_squares(answers)
    np.testing.assert_allclose(found, asked.matmat(cells), rtol=1e-9)
    one = ops.RowKronecker.from_masks([np.ones((1, size)) for size in sizes])
    np.testing.assert_allclose(cross_gram(matrix, one)[:, 0], matrix.matmat(np.ones(len(cells))))


def test_inner_products_are_kept_while_the_matrix_lives_and_no_longer(monkeypatch):
    paths = random_paths(HUGE, 5, 3)
    matrix = ops.Stack([paths, ops.Marginals(HUGE, [(1,)], [1])])
    expected = ops.row_errors(paths, matrix)
    with monkeypatch.context() as patch:
        patch.setattr(ops.Stack, "row_gram", None)
        assert np.array_equal(ops.row_errors(paths, matrix), expected)
    other = ops.Stack([paths, paths, ops.Marginals(HUGE, [(1,)], [1])])
    assert ops.row_errors(paths, other) == pytest.approx(expected / 2)
    lives = weakref.ref(matrix), weakref.ref(other)
    del matrix, other
    gc.collect()
    assert [one() for one in lives] == [None, None]


def test_domains_that_doubles_cannot_count_are_refused_by_name():
    sizes = (2,) * (MOST_BITS + 1)
    paths = random_paths(sizes, 3, 2)
    with pytest.raises(ops.MemoryCapError, match=f"about 2\\*\\*{MOST_BITS + 1} cells"):
        ops.row_errors(paths, ops.Stack([paths, paths]))
