"""Structure that is found: columns that are equal are merged, rows that are ranges ordered."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

import strategies
from strategies import Problem, examples, merge_columns, select
from strategies.operators import (
    Dense,
    Gram,
    Identity,
    Kronecker,
    Operator,
    Ranges,
    RowKronecker,
    Scaled,
    Sparse,
    Stack,
)
from strategies.operators import explicit as module
from strategies.problem.merging import equal_valued_rows, sums_differ


@st.composite
def repetitive(draw: st.DrawFn) -> np.ndarray:
    q, g, n = (draw(st.integers(1, high)) for high in (6, 5, 12))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = random.choice([0.0, -0.0, 1.0, -1.0, 0.1, 1e300, 5e-324], size=(q, g))
    return columns[:, random.integers(0, g, size=n)]


def oracle(matrix: np.ndarray) -> np.ndarray:
    """Number the distinct columns by first occurrence, one by one."""
    seen: dict[tuple[float, ...], int] = {}
    return np.array([seen.setdefault(tuple(column), len(seen)) for column in matrix.T.tolist()])


@given(repetitive())
def test_groups_are_the_distinct_columns(matrix: np.ndarray) -> None:
    for form in (matrix, sparse.csr_array(matrix), Dense(matrix), sparse.csr_matrix(matrix)):
        merging = merge_columns(form)
        assert_array_equal(merging.groups, oracle(matrix))
        merged = merging.apply(form)
        assert_array_equal(merged.to_dense()[:, merging.groups], matrix)
        assert merging.n_groups == merged.shape[1]


def test_explicit_zeros_do_not_matter() -> None:
    form = sparse.csr_array(np.array([[1.0, 1.0, 2.0], [3.0, 3.0, 3.0]]))
    form.data[[0, 1]] = 0.0
    assert_array_equal(merge_columns(form).groups, [0, 0, 1])


def test_a_gram_merges_like_its_workload() -> None:
    workload = np.array([[1.0, 1.0, 0.0, 2.0], [1.0, 1.0, 3.0, 0.0]])
    merging = merge_columns(Gram(workload.T @ workload))
    assert_array_equal(merging.groups, [0, 0, 1, 2])
    merged = merging.apply(Gram(workload.T @ workload))
    first = workload[:, [0, 2, 3]]
    assert_array_equal(merged.gram_dense(), first.T @ first)


@pytest.mark.parametrize(
    "workload",
    [
        RowKronecker.from_masks([np.array([[1, 1, 0], [0, 1, 1]]), np.array([[1, 1], [1, 0]])]),
        Kronecker([Dense(np.ones((1, 3))), Identity(4)]),
        Sparse(sparse.eye_array(5)),
    ],
)
def test_structured_workloads(workload: Operator) -> None:
    merging = merge_columns(workload)
    assert_array_equal(merging.groups, oracle(workload.to_dense()))
    assert merging.grouping.sizes == workload.sizes


@pytest.mark.parametrize(("q", "distinct"), [(40, True), (4, False)])
def test_distinct_columns_of_paths_are_told_without_writing_them_out(
    q: int, distinct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    masks = [(rng.random((q, size)) < 0.6).astype(int) for size in (3, 4, 5)]
    paths = RowKronecker.from_masks(masks)
    expected = oracle(paths.to_dense())
    assert sums_differ(paths) is distinct
    assert bool(expected.max() == 59) is distinct
    if distinct:
        monkeypatch.setattr(RowKronecker, "to_sparse", None)
    assert_array_equal(merge_columns(paths).groups, expected)


@given(repetitive(), st.integers(0, 2**32), st.sampled_from(["l1", "l2"]))
def test_lifted_strategies_keep_norm_and_loss(matrix: np.ndarray, seed: int, norm: str) -> None:
    matrix = np.clip(matrix, -2, 2)
    if not np.abs(matrix).max() > 1e-3:
        return
    merging = merge_columns(matrix)
    g = merging.n_groups
    small = np.random.default_rng(seed).normal(size=(g + 2, g))
    lifted = strategies.evaluate(matrix, merging.invert(small), norm)
    merged = strategies.evaluate(merging.apply(matrix), small, norm)
    assert lifted.loss == pytest.approx(merged.loss, rel=1e-9)
    assert lifted.sensitivity == pytest.approx(merged.sensitivity)
    explicit = strategies.evaluate(matrix, merging.invert(small).to_dense(), norm)
    assert explicit.loss == pytest.approx(merged.loss, rel=1e-7)


def test_averaging_never_costs() -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        workload = random.normal(size=(4, 3))[:, random.integers(0, 3, size=8)]
        merging = merge_columns(workload)
        matrix = random.normal(size=(9, 8))
        for norm in ("l1", "l2"):
            before = strategies.evaluate(workload, matrix, norm)
            after = strategies.evaluate(workload, merging.invert(merging.average(matrix)), norm)
            assert after.sensitivity <= before.sensitivity * (1 + 1e-12)
            assert after.loss <= before.loss * (1 + 1e-9)


def test_averages_of_sparse_and_lifted_strategies() -> None:
    merging = merge_columns([[1, 1, 2], [0, 0, 1]])
    matrix = np.array([[1.0, 3.0, 5.0]])
    assert_array_equal(merging.average(matrix).to_dense(), [[2.0, 5.0]])
    assert_array_equal(merging.average(sparse.csr_array(matrix)).to_dense(), [[2.0, 5.0]])
    inner = Dense(np.eye(2))
    assert merging.average(merging.invert(inner)) is inner
    assert merging.average(Identity(3)).shape == (2, 2)
    trivial = merge_columns(np.eye(3))
    assert trivial.is_trivial
    assert trivial.average(inner @ Dense(np.ones((2, 3)))).shape == (2, 3)
    assert isinstance(trivial.invert(Identity(3)), Identity)


def test_a_collision_of_hashes_only_costs_the_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: with a hash that says all columns are equal, nothing is merged."""
    monkeypatch.setattr(module, "mixed_words", lambda word: np.zeros_like(word))
    for form in (np.eye(3), sparse.csr_array(np.eye(3))):
        assert_array_equal(merge_columns(form).groups, [0, 1, 2])


def test_bands_of_a_tall_matrix() -> None:
    matrix = np.random.default_rng(0).normal(size=(3000, 2))[:, [0, 1, 0]]
    whole = module.dense_keys(matrix)
    assert_array_equal(merge_columns(matrix).groups, [0, 1, 0])
    assert_array_equal(whole[0], whole[2])
    matrix[2999, 2] = np.nextafter(matrix[2999, 2], 1)
    assert_array_equal(merge_columns(matrix).groups, [0, 1, 2])


@pytest.mark.parametrize("value", [1.0, -0.5])
def test_entries_of_one_value_are_hashed_by_row(value: float) -> None:
    """As the general hash does, entry by entry."""
    mask = np.random.default_rng(0).random((6, 40)) < 0.3
    form = sparse.csc_array(value * mask)
    entries = module.hash_entries(form.indices, form.data)
    sums = [entries[a:b].sum(axis=0, dtype=np.uint64) for a, b in pairwise(form.indptr)]
    assert_array_equal(module.sparse_keys(form), sums)


# Consecutive ones ---------------------------------------------------------------------------------


def random_ranges(n, q, seed, longest=None):
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, n, q)
    stops = np.minimum(n, starts + generator.integers(1, (longest or n) + 1, q))
    return Ranges(n, starts, stops, generator.integers(1, 4, q))


def shuffled(rows, seed):
    generator = np.random.default_rng(seed)
    q, n = rows.shape
    return rows[generator.permutation(q)][:, generator.permutation(n)]


def is_consecutive(rows):
    """Try every order of the cells."""
    for order in permutations(range(rows.shape[1])):
        held = rows[:, list(order)] != 0
        changes = np.abs(np.diff(held.astype(int), prepend=0, append=0, axis=1)).sum(axis=1)
        if np.all(changes <= 2):
            return True
    return False


def told_apart(rows):
    """Add a row for every cell, which no order forbids, and cells up to 16."""
    q, n = rows.shape
    whole = np.zeros((q + 16, 16))
    whole[:q, :n] = rows
    whole[q:] = np.eye(16)
    return whole


@pytest.mark.parametrize("longest", [4, 12, None])
@pytest.mark.parametrize("seed", range(8))
def test_shuffled_ranges_are_found(seed, longest):
    rows = shuffled(random_ranges(60, 70, seed, longest).to_dense(), seed)
    problem = Problem.of(rows)
    assert problem.row_ranges is not None
    assert problem.merging is not None
    lifted = problem.row_ranges.to_dense() @ problem.merging.grouping.to_dense()
    np.testing.assert_array_equal(lifted, rows)
    known = merge_columns(rows)
    assert problem.merging.n_groups == known.n_groups
    firsts = known.grouping.representatives
    assert len(set(problem.merging.groups[firsts])) == known.n_groups


def test_what_is_found_is_what_there_is():
    """Against all orders of six cells."""
    generator, found = np.random.default_rng(0), []
    for _ in range(60):
        rows = (generator.random((int(generator.integers(2, 6)), 6)) < 0.5) * 1.0
        told = Problem.of(told_apart(rows)).row_ranges is not None
        assert told == is_consecutive(rows)
        found.append(told)
    assert 10 < sum(found) < 50


FORBIDDEN = {
    "a circle": [[1, 1, 0], [0, 1, 1], [1, 0, 1]],
    "a star": [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]],
    "a claw of longer rows": [[1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 1, 1]],
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_no_order_serves_is_refused(name):
    assert Problem.of(told_apart(np.array(FORBIDDEN[name], float))).row_ranges is None


def test_unequal_numbers_in_a_row_are_no_range():
    rows = np.tri(20)
    assert Problem.of(rows).row_ranges is not None
    rows[7, 3] = 2.0
    assert Problem.of(rows).row_ranges is None


def test_equal_cells_apart_are_one():
    """Those in no row, and those on both sides of a row."""
    rows = np.zeros((40, 64))
    rows[np.arange(20), 2 * np.arange(20) + 5] = 1.0  # with cells in no row between them
    rows[20:, 3:60] = np.tri(20, 57, 3)
    problem = Problem.of(rows)
    assert problem.merging.n_groups == merge_columns(rows).n_groups
    assert problem.row_ranges is not None


FORMS = {
    "dense": Dense,
    "sparse": lambda rows: Sparse(sparse.csr_array(rows)),
    "ranges": lambda rows: Ranges(96, np.zeros(96, int), np.arange(1, 97), np.ones(96)),
    "scaled": lambda rows: Scaled(0.5, Dense(2.0 * rows)),
    "stacked": lambda rows: Stack([Dense(rows[:30]), Sparse(sparse.csr_array(rows[30:]))]),
    "columns shuffled": lambda rows: Dense(rows[:, np.random.default_rng(1).permutation(96)]),
    "all shuffled": lambda rows: sparse.csr_array(shuffled(rows, 2)),
}


@pytest.mark.parametrize("form", FORMS)
def test_prefix_sums_have_one_result_in_every_form(form):
    expected = select(examples.prefix_sums(96), "l2", random_state=0).loss
    found = select(FORMS[form](np.tri(96)), "l2", random_state=0)
    assert found.loss == pytest.approx(expected, rel=1e-3)


def test_weights_of_rows_are_kept():
    rows, weights = random_ranges(40, 30, 3).to_dense(), np.arange(30.0)
    problem = Problem.of(shuffled(rows, 4))
    summed = problem.as_total(weights)
    whole = (np.sqrt(weights)[:, None] * problem.workload.to_dense()) ** 2
    assert summed.merged_total == pytest.approx(
        float(whole[:, problem.merging.grouping.representatives].sum())
    )


def test_weights_leave_ranges_what_they_are():
    rows = random_ranges(40, 30, 5)
    problem = Problem.of(rows, weights=np.arange(1, 31))
    assert problem.row_ranges is not None
    np.testing.assert_allclose(problem.row_ranges.squares.sum(), rows.squares @ np.arange(1, 31))


@pytest.mark.parametrize("picked", [[2, 0, 2], [1], []])
def test_picked_rows_hold_the_same_cells(picked):
    """An internal: rows that are looked at first decide no result, only where time goes."""
    dense = 3 * np.array([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 1]])
    few = equal_valued_rows(dense).take(np.array(picked, dtype=np.int64))
    held = np.zeros((len(picked), 4), dtype=np.int64)
    held[np.repeat(np.arange(len(picked)), few.lengths), few.cells] = 1
    np.testing.assert_array_equal(held * few.values[:, None], dense[picked])
