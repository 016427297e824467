"""Rows that are ranges in some order of the cells: found in any form, and nothing else is."""

from itertools import permutations

import numpy as np
import pytest
from scipy import sparse

from strategies import Problem, examples, merge_columns, select
from strategies.operators import Dense, Ranges, Scaled, Sparse, Stack
from strategies.problem.consecutive import equal_valued_rows


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
    few = equal_valued_rows(dense).picked(np.array(picked, dtype=np.int64))
    held = np.zeros((len(picked), 4), dtype=np.int64)
    held[np.repeat(np.arange(len(picked)), few.lengths), few.cells] = 1
    np.testing.assert_array_equal(held * few.values[:, None], dense[picked])
