"""Answers without anything of the domain's length, rows of masks among them, on huge domains."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import strategies
from mrf_matrix.mechanisms.measurement.measure import check_determined
from strategies import operators as ops
from strategies.operators import (
    Marginals,
    RowKronecker,
    RowSpaceError,
    Scaled,
    Stack,
    cross_gram,
    memory_cap,
)
from strategies.operators.base.recovery import MOST_BITS, coordinates
from strategies.operators.masks.anova import DistinctMasks, contract
from strategies.operators.masks.components import MaskRows, components
from strategies.operators.masks.packed_masks import unique_rows
from strategies.operators.tables import marginals as marginals_module

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
    rows = MARGINALS.as_rows
    np.testing.assert_array_equal(rows.to_dense(), MARGINALS.to_dense())
    dense = rows.to_dense()
    with ops.memory_cap(2000):
        np.testing.assert_allclose(MARGINALS.row_gram(), dense @ dense.T)
        with pytest.raises(ops.MemoryCapError, match="masks of the marginals' rows"):
            _ = ops.Marginals((40,), [(0,)], [1]).as_rows


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


# Contractions -------------------------------------------------------------------------------------


WIDE = (200, 10, 7, 5)


def unit_rows(sizes, count, seed=0):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, count) for size in sizes]
    masks = [c[:, None] == np.arange(s) for c, s in zip(codes, sizes, strict=True)]
    return RowKronecker.from_masks(masks), codes


@given(data=st.data())
def test_contraction_is_the_product_of_masks(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    count, k = int(rng.integers(1, 30)), int(rng.integers(0, 3))
    masks = [rng.uniform(size=(count, s)) < rng.uniform(0.2, 0.9) for s in sizes]
    table = rng.normal(size=(int(np.prod(sizes)), k))
    weights = np.ones((count, 1))
    for mask, size in zip(masks, sizes, strict=True):
        weights = (weights[:, :, None] * mask[:, None, :] / size).reshape(count, -1)
    distinct = [DistinctMasks.of(mask) for mask in masks]
    picked = [(one, one.number) for one in distinct]
    with memory_cap(data.draw(st.sampled_from([64, 4096, 2**31]))):
        np.testing.assert_allclose(contract(picked, table), weights @ table, atol=1e-12)


def test_answers_need_no_row_times_cell():
    matrix = Marginals(WIDE, [(0, 1, 2, 3)], [1])
    rows, codes = unit_rows(WIDE, 1500)
    answers = np.random.default_rng(1).normal(size=(matrix.shape[0], 1))
    tracemalloc.start()
    found = matrix.estimate(rows, answers)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, answers[np.ravel_multi_index(codes, WIDE)], atol=1e-9)
    assert peak < 32 * 8 * matrix.shape[0]


@pytest.fixture
def _no_estimates(monkeypatch):
    def refused(*_):
        raise AssertionError("the row space was decided by an estimate")

    monkeypatch.setattr(marginals_module, "residual_answers", refused)


@pytest.mark.usefixtures("_no_estimates")
@pytest.mark.parametrize("scale", [None, 3.0])
def test_attribute_sets_decide_what_marginals_determine(scale):
    def measured(*sets):
        made = Marginals((2000, 2000, 50, 3), sets, [1.0] * len(sets))
        return made if scale is None else Scaled(scale, made)

    def rows_on(*used):
        sizes = (2000, 2000, 50, 3)
        rows = [unit_rows(sizes, 4)[0].masks(i) if i in used else np.ones((4, s), bool)
                for i, s in enumerate(sizes)]  # fmt: skip
        return RowKronecker.from_masks(rows)

    check_determined(Stack([rows_on(0, 2), rows_on(1), rows_on()]), measured((0, 2), (1, 2)))
    with pytest.raises(RowSpaceError, match=r"4 of the workload's 8 rows \(rows 4, 5, 6, 7\)"):
        check_determined(Stack([rows_on(0, 2), rows_on(0, 1)]), measured((0, 2), (1, 2)))
    with pytest.raises(RowSpaceError, match=r"lie outside the row space"):
        check_determined(rows_on(3), measured((0, 2), (1,)))


@given(seed=st.integers(0, 10**6))
def test_equal_means_have_equal_components(seed):
    rng = np.random.default_rng(seed)
    masks = tuple(rng.uniform(size=(12, s)) < 0.6 for s in (2, 3, 4))
    together = components(MaskRows(masks))
    for r in range(12):
        alone = components(MaskRows(tuple(mask[[r]] for mask in masks)))
        places = (alone.sets[:, None, :] == together.sets).all(axis=2).argmax(axis=1)
        found = together.energies.toarray()[r]
        np.testing.assert_allclose(found[places], alone.energies.toarray()[0], rtol=1e-12)
        assert np.isclose(found.sum(), alone.energies.sum())


@given(seed=st.integers(0, 10**6))
def test_distinct_rows_stand_for_all(seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, size=(rng.integers(0, 20), rng.integers(1, 4))) / 3
    first, number = unique_rows(table)
    assert len(first) == len({tuple(row) for row in table.tolist()})
    assert np.array_equal(table[first][number], table)
