"""Marginals against their dense twin, on complete and rank-deficient families of sets."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import MemoryCapError, RowSpaceError, memory_cap
from strategies.operators import Dense, Marginals, Product, RowKronecker, RowScaled, Stack

SIZES = (3, 2, 4)
CASES = {
    "complete": [(0, 1, 2)],
    "complete and coarser": [(0,), (0, 1, 2), (1, 2)],
    "pairs": [(0, 1), (1, 2), (0, 2)],
    "total and one": [(), (2,)],
    "total": [()],
}


def dense_twin(matrix):
    """Build every row from its definition."""
    blocks = []
    for chosen, weight in zip(matrix.attribute_sets, matrix.weights, strict=True):
        blocks += [
            [
                weight * all(cell[i] == value for i, value in zip(chosen, row, strict=True))
                for cell in np.ndindex(*matrix.domain_sizes)
            ]
            for row in np.ndindex(*(matrix.domain_sizes[i] for i in chosen))
        ]
    return np.array(blocks, dtype=float)


def rows_of(matrix):
    """Sums of two neighbouring rows of every table: inside the row space, and no table."""
    dense = dense_twin(matrix)
    return Dense(dense + 2 * np.roll(dense, 1, axis=0))


@pytest.mark.parametrize("sets", CASES.values(), ids=CASES)
def test_coefficients_are_those_of_the_pseudo_inverse(sets):
    matrix = Marginals(SIZES, sets, np.arange(1.0, len(sets) + 1))
    workload = rows_of(matrix)
    expected = workload.to_dense() @ np.linalg.pinv(dense_twin(matrix))
    np.testing.assert_allclose(matrix.coefficients(workload), expected, atol=1e-12)
    wrong = Marginals(SIZES, sets, np.arange(2.0, len(sets) + 2))  # negative control
    assert np.abs(wrong.coefficients(workload) - expected).max() > 1e-3


def test_a_marginal_of_no_weight_has_no_coefficients():
    matrix = Marginals(SIZES, [(0, 1), (1, 2)], [1.0, 0.0])
    found = matrix.coefficients(Dense(dense_twin(matrix)[:6]))
    np.testing.assert_allclose(found, np.eye(6, matrix.shape[0]), atol=1e-12)


def rows_within(sets, sizes, count, rng):
    """Draw 0/1 product rows that restrict attributes of one set only."""
    masks = [np.ones((count, size), dtype=bool) for size in sizes]
    for r in range(count):
        for i in sets[rng.integers(len(sets))]:
            masks[i][r] = rng.uniform(size=sizes[i]) < 0.6
    return RowKronecker.from_masks(masks)


@pytest.fixture(params=CASES, name="matrix")
def _matrix(request):
    rng = np.random.default_rng(1)
    sets = CASES[request.param]
    return Marginals(SIZES, sets, rng.uniform(0.5, 1.5, len(sets)))


@pytest.mark.parametrize("form", ["rows", "weighted", "mixed", "stacked"])
def test_workload_answers_and_errors(matrix, form):
    rng = np.random.default_rng(4)
    rows = rows_within(matrix.attribute_sets, SIZES, 7, rng)
    workload = {
        "rows": rows,
        "weighted": RowScaled(rng.uniform(1, 2, 7), rows),
        "mixed": Product(Dense(rng.normal(size=(4, 7))), rows),
        "stacked": Stack([rows, RowScaled(rng.uniform(1, 2, 7), rows)]),
    }[form]
    recovery = workload.to_dense() @ np.linalg.pinv(dense_twin(matrix), rcond=1e-10)
    answers = rng.normal(size=(matrix.shape[0], 2))
    np.testing.assert_allclose(matrix.row_errors(workload), (recovery**2).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(matrix.estimate(workload, answers), recovery @ answers, atol=1e-12)


def test_row_outside_the_row_space_is_refused():
    rows = RowKronecker.from_masks([np.eye(3)[[0]], np.ones((1, 2)), np.eye(4)[[1]]])
    matrix = Marginals(SIZES, [(0,), (2,)], [1.0, 1.0])
    for call in (lambda: matrix.row_errors(rows), lambda: matrix.estimate(rows, np.ones(7))):
        with pytest.raises(RowSpaceError, match="Add a marginal"):
            call()


def test_weights_are_rounded_before_they_are_summed():
    with pytest.raises(ValueError, match="Round the marginals first"):
        Marginals(SIZES, [(0,)], [0.5]).integer_sensitivity("l1")


def test_weight_zero_supports_nothing():
    matrix = Marginals(SIZES, [(0, 1), (2,)], [0.0, 1.0])
    only = Marginals(SIZES, [(2,)], [1.0])
    answers = np.random.default_rng(0).normal(size=10)
    np.testing.assert_allclose(
        matrix.least_squares(answers), only.least_squares(answers[6:]), atol=1e-14
    )


def test_astronomical_domain():
    """2**200 cells: exact shape, columns, rounding, errors and answers in no time."""
    d = 200
    matrix = Marginals([2] * d, [(0, 1), (5, 7, 9), ()], [0.25, 0.5, 0.25])
    assert matrix.shape == (13, 2**d)
    codes = np.random.default_rng(0).integers(0, 2, size=(50, d))
    counts = matrix.rounded(4).columns(codes).sum(axis=1)
    assert counts[-1] == 50
    assert counts[:4].sum() == 50
    masks = [np.ones((3, 2), dtype=bool) for _ in range(d)]
    masks[0][0, 1] = masks[1][0, 0] = masks[9][1, 1] = False
    workload = RowKronecker.from_masks(masks)
    truth = workload.columns(codes).sum(axis=1)
    answers = matrix.columns(codes).sum(axis=1)
    np.testing.assert_allclose(matrix.estimate(workload, answers), truth)
    assert matrix.row_errors(workload).shape == (3,)
    with pytest.raises(MemoryCapError), memory_cap(2**20):
        matrix.least_squares(answers)


def test_entries_are_counted_before_they_are_made():
    """Five sets over a domain whose cells fit the cap, and whose entries do not."""
    matrix = Marginals((2,) * 16, [(i,) for i in range(5)], [1.0] * 5)
    with memory_cap(2**22), pytest.raises(MemoryCapError, match="sparse marginals"):
        matrix.to_sparse()
    one = Marginals((2,) * 16, [()], [1.0])
    with memory_cap(2**22), pytest.raises(MemoryCapError, match="codes of every cell"):
        one.to_sparse()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), [()], [1]), "sizes"),
        (((2, 0), [()], [1]), "sizes"),
        (((2, 2), [], []), "attribute_sets"),
        (((2, 2), [(0,), (0,)], [1, 1]), "each once"),
        (((2, 2), [(0, 0)], [1]), "distinct"),
        (((2, 2), [(2,)], [1]), "from 0 to 1"),
        (((2, 2), [(0,)], [-1]), "none negative"),
        (((2, 2), [(0,)], [np.nan]), "finite"),
        (((2, 2), [(0,)], [1, 2]), "one for each"),
    ],
)
def test_nonsense_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        Marginals(*arguments)


@given(st.data())
def test_random_marginals_and_workloads(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    every = list(chain.from_iterable(combinations(range(len(sizes)), k) for k in range(4)))
    sets = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=5, unique=True))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    matrix = Marginals(sizes, sets, rng.uniform(0.1, 1, len(sets)))
    workload = rows_within(sets, sizes, 4, rng)
    recovery = workload.to_dense() @ np.linalg.pinv(dense_twin(matrix), rcond=1e-10)
    np.testing.assert_allclose(matrix.row_errors(workload), (recovery**2).sum(axis=1), atol=1e-9)
