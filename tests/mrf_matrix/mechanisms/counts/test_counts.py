"""Counts of cells: what they hold, how they add, and that they and their products stay private."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from mrf_matrix import RandomTrees, load_dataset, path_matrix
from mrf_matrix.mechanisms import CellCounts, LeafCounts, PrivateDataError, count_cells
from strategies.operators import (
    Dense,
    Grouping,
    Identity,
    Kronecker,
    Marginals,
    Product,
    RowKronecker,
    Scaled,
    Stack,
)

SIZES = (2, 3, 2)
N_CELLS = 12


def records(seed, n, sizes=SIZES, k=3):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(np.int32)
    return codes, rng.integers(0, k, n).astype(np.int32)


def dense_table(codes, labels, sizes, k):
    """Count one record at a time."""
    table = np.zeros((int(np.prod(sizes)), k), dtype=np.int64)
    for code, label in zip(codes, labels, strict=True):
        table[np.ravel_multi_index(tuple(code), sizes), label] += 1
    return table


def operators():
    rng = np.random.default_rng(0)
    masks = [rng.random((5, size)) < 0.6 for size in SIZES]
    return {
        "identity": Identity(N_CELLS, SIZES),
        "flat identity": Identity(N_CELLS),
        "dense": Dense(rng.integers(-3, 4, (4, N_CELLS))),
        "grouping": Grouping([0, 1, 0, 2] * 3),
        "lifted": Product(Dense(rng.integers(0, 4, (4, 3))), Grouping([0, 1, 0, 2] * 3)),
        "paths": RowKronecker.from_masks(masks),
        "marginals": Marginals(SIZES, [(0,), (1, 2), ()], [1, 2, 3]),
        "kronecker": Kronecker([Dense(rng.integers(0, 3, (2, size))) for size in SIZES]),
        "stack": Stack([Identity(N_CELLS, SIZES), Scaled(3, RowKronecker.from_masks(masks))]),
        "combined paths": Product(
            Dense(rng.integers(0, 4, (4, 5))), RowKronecker.from_masks(masks)
        ),
    }


@given(st.integers(0, 10**6), st.sampled_from([0, 1, 2, 7, 60]))
def test_counts_are_those_of_the_records(seed, n):
    codes, labels = records(seed, n)
    counts = count_cells(codes, labels, SIZES, 3)
    table = np.zeros((N_CELLS, 3), dtype=np.int64)
    table[np.ravel_multi_index(tuple(counts.codes.T), SIZES)] = counts.counts
    assert np.array_equal(table, dense_table(codes, labels, SIZES, 3))
    assert counts.counts.dtype == np.int64
    assert len(np.unique(counts.codes, axis=0)) == len(counts.codes) <= n


@pytest.mark.parametrize("name", operators())
@pytest.mark.parametrize("n", [0, 1, 50])
def test_answers_are_exact(name, n):
    operator = operators()[name]
    codes, labels = records(4, n)
    answers = count_cells(codes, labels, SIZES, 3).answers(operator)
    expected = operator.to_dense().astype(int) @ dense_table(codes, labels, SIZES, 3)
    assert answers.dtype == np.int64
    assert np.array_equal(answers, expected)


@pytest.mark.parametrize("sizes", [(50,) * 8, (50,) * 14, (2,) * 80])
def test_huge_domains_cost_only_their_records(sizes):
    codes, labels = records(1, 500, sizes)
    counts = count_cells(codes, labels, sizes, 3)
    assert counts.n_cells == sizes[0] ** len(sizes)
    assert counts.counts.sum() == 500
    marginals = Marginals(sizes, [(0,), (1, 3)], [1, 1])
    expected = np.zeros((sizes[0], 3), dtype=int)
    np.add.at(expected, (codes[:, 0], labels), 1)
    assert np.array_equal(counts.answers(marginals)[: sizes[0]], expected)


def test_blocks_of_cells_add_up():
    codes, labels = records(2, 5000, (40, 40, 40))
    counts = count_cells(codes, labels, (40, 40, 40), 3)
    assert len(counts.codes) > 2048  # more than one block
    answers = counts.answers(Marginals((40, 40, 40), [(), (1,)], [1, 1]))
    assert np.array_equal(answers[0], np.bincount(labels, minlength=3))
    assert np.array_equal(answers[1:].sum(axis=0), answers[0])


def test_more_than_63_bits_under_other_sizes_is_refused():
    """A strategy over other attributes is asked by cell number, and there is none."""
    codes, labels = records(1, 3, (2,) * 70)
    other = Marginals((2**35, 2**35), [()], [1])
    with pytest.raises(ValueError, match="64-bit cell numbers"):
        count_cells(codes, labels, (2,) * 70, 3).answers(other)


def test_overflow_fractions_and_other_cells_are_refused():
    counts = count_cells(np.array([[0], [1]]), np.array([0, 0]), (2,), 1)
    assert counts.answers(Dense([[2**59, -(2**59)]])).tolist() == [[0]]
    with pytest.raises(OverflowError, match="63 bits"):
        counts.answers(Dense([[2**61, 2**61]]))
    with pytest.raises(ValueError, match="round"):
        counts.answers(Dense([[0.5, 1.0]]))
    with pytest.raises(ValueError, match=r"3 columns.*expected 2"):
        counts.answers(Identity(3))


def test_attributes_in_another_order_are_refused():
    counts = count_cells(*records(0, 5, (2, 3)), (2, 3), 3)
    with pytest.raises(ValueError, match="same order"):
        counts.answers(Identity(6, (3, 2)))
    assert counts.answers(Identity(6)).sum() == 5


GOOD = {"codes": np.array([[0, 1], [1, 2]]), "labels": np.array([0, 1]), "sizes": (2, 3)}
BAD = {
    "one dimension": ({"codes": np.array([0, 1])}, ValueError, "codes has the wrong shape"),
    "too few columns": ({"codes": np.array([[0], [1]])}, ValueError, r"expected \(N, 2\)"),
    "float codes": ({"codes": np.array([[0.0, 1], [1, 2]])}, TypeError, "Domain.encode"),
    "text codes": ({"codes": np.array([["a", "b"]] * 2)}, TypeError, "integer codes"),
    "code too large": ({"codes": np.array([[0, 3], [1, 2]])}, ValueError, "attribute 1"),
    "free code": ({"codes": np.array([[-1, 1], [1, 2]])}, ValueError, "attribute 0"),
    "labels too long": ({"labels": np.array([0, 1, 0])}, ValueError, "labels has the wrong shape"),
    "label too large": ({"labels": np.array([0, 2])}, ValueError, "expected 0 to 1"),
    "negative label": ({"labels": np.array([0, -1])}, ValueError, "expected 0 to 1"),
    "float labels": ({"labels": np.array([0.0, 1.0])}, TypeError, "encode_target"),
    "no sizes": ({"sizes": ()}, ValueError, "sizes="),
    "size zero": ({"sizes": (2, 0)}, ValueError, "sizes="),
    "float size": ({"sizes": (2, 3.0)}, ValueError, "sizes="),
    "no classes": ({"n_classes": 0}, ValueError, "n_classes=0"),
    "bool classes": ({"n_classes": True}, ValueError, "n_classes=True"),
    "float classes": ({"n_classes": 2.0}, ValueError, "n_classes=2.0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_records_are_refused(case):
    change, error, message = BAD[case]
    arguments = {"n_classes": 2, **GOOD, **change}
    with pytest.raises(error, match=message):
        count_cells(**arguments)


@pytest.mark.parametrize(
    "counts",
    [
        np.array([1, 2]),
        np.array([[1.0], [2.0]]),
        np.array([[1], [-1]]),
        np.ones((3, 1)),
        np.array([[1], [2**63]], dtype=np.uint64),  # it would be negative
    ],
)
def test_bad_tables_are_refused(counts):
    with pytest.raises(ValueError, match="counts"):
        CellCounts(np.array([[0, 0], [1, 1]]), counts, (2, 3))


@pytest.mark.parametrize("action", [pickle.dumps, copy.copy, copy.deepcopy])
def test_private_counts_do_not_leave_the_process(action):
    counts = count_cells(**GOOD, n_classes=2)
    with pytest.raises(PrivateDataError, match="raw private counts"):
        action(counts)


def test_printing_shows_nothing_private():
    one = count_cells(np.array([[0, 1]]), np.array([0]), (2, 3), 2)
    many = count_cells(*records(0, 400, (2, 3), 2), (2, 3), 2)
    assert repr(one) == repr(many) == "CellCounts(private, 2 attributes, 2 classes)"


def test_counts_cannot_be_written():
    counts = count_cells(**GOOD, n_classes=2)
    with pytest.raises(ValueError, match="read-only"):
        counts.counts[0, 0] = 5


# Products by hand --------------------------------------------------------------------------------


CAR = load_dataset("car")
LABELS = CAR.domain.encode_target(CAR.y)
COUNTS = count_cells(CAR.codes, LABELS, CAR.domain.sizes, CAR.domain.n_classes)
T = path_matrix(RandomTrees(n_trees=2, max_depth=2).grow(CAR.domain, random_state=0))
LEAVES = LeafCounts(T, COUNTS.answers(T))


@pytest.mark.parametrize(
    "answers",
    [
        lambda: T @ COUNTS,
        lambda: T @ LEAVES,
        lambda: strategies.evaluate(T) @ COUNTS,
        lambda: np.ones((3, 1728)) @ COUNTS,
        lambda: Dense(np.full((3, 1728), 0.5)) @ COUNTS,
        lambda: 0.5 * Identity(1728) @ COUNTS,
    ],
)  # fmt: skip
def test_answers_without_noise_show_nothing(answers):
    made = answers()
    assert (
        str(made)
        == repr(made)
        == f"PrivateAnswers({made.shape[0]} x 4, private: "
        + ("measure(A, counts, budget) releases them)")
    )
    for leak in (lambda: pickle.dumps(made), lambda: float(made), lambda: made[0]):
        with pytest.raises((PrivateDataError, TypeError)):
            leak()
    assert np.asarray(made).dtype == object


def test_other_cells_are_refused():
    with pytest.raises(ValueError, match="columns"):
        np.eye(5) @ COUNTS
