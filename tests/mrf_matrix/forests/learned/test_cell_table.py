"""Partitions as tables: which cell a record is in, and how much of all codes each cell holds."""

import tracemalloc
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest

from mrf_matrix.forests.learned import label_tree
from mrf_matrix.forests.learned.label_tree import CellTable, LabelTree
from mrf_matrix.forests.sources.cuts import Cut

SIZES = (3, 4, 2, 5)
EVERY = np.array(list(product(*map(range, SIZES))))


def grown(seed, depth=5):
    """Return a tree of random cuts, with counts, so that no cells are the same."""
    generator = np.random.default_rng(seed)
    cuts = []
    for _ in range(2**depth - 1):
        i = int(generator.integers(len(SIZES)))
        cuts.append(Cut.of(i, np.arange(SIZES[i]) >= generator.integers(1, SIZES[i])))
    n = 2**depth
    return LabelTree(tuple(cuts), generator.integers(0, 2, n), np.ones((n, 2), dtype=np.int64))


def test_a_table_looks_cells_up_and_weighs_codes_alike():
    places = (np.array([0, 1, 1]), np.array([0, 0, 0, 1]))
    table = CellTable((0, 3), places, np.array([[2, 0], [1, 1]]))
    codes = np.array([[0, 9, 9, 0], [1, 9, 9, 3], [0, 9, 9, 3]])
    assert table.cells(codes).tolist() == [2, 1, 0]
    assert table.table is table
    np.testing.assert_allclose(table.shares, np.outer([1 / 3, 2 / 3], [3 / 4, 1 / 4]))
    np.testing.assert_allclose(table.even, [1 / 12, 2 / 3, 1 / 4])


@pytest.mark.parametrize("seed", range(5))
def test_a_tree_and_its_table_say_the_same(seed):
    tree = grown(seed)
    assert tree.table is not None
    assert (tree.table.cells(EVERY) == tree.cells(EVERY)).all()
    held = np.bincount(tree.cells(EVERY), minlength=tree.n_cells) / len(EVERY)
    np.testing.assert_allclose(tree.even, held, atol=1e-15)
    even = np.zeros(tree.n_cells)
    even[: len(tree.table.even)] = tree.table.even
    np.testing.assert_allclose(even, held, atol=1e-15)
    assert (held == 0).any(), "some cuts leave nothing on a side"


def test_a_table_that_is_too_large_is_not_written_out(monkeypatch):
    tree = grown(0)
    size = tree.table.numbers.size
    monkeypatch.setattr(label_tree, "MOST_PLACES", size)
    assert grown(0).table is not None
    monkeypatch.setattr(label_tree, "MOST_PLACES", size - 1)
    assert grown(0).table is None


def test_a_table_has_columns_for_attributes_that_are_cut_alone():
    """Of the last ones of a million attributes: columns for all would be 8 MB a place."""
    tree, far = grown(0), 10**6
    cuts = tuple(Cut(cut.attribute + far, cut.sides) for cut in tree.cuts)
    moved = LabelTree(cuts, tree.labels, tree.counts)
    assert moved.attributes == tuple(i + far for i in tree.attributes)
    with tracing() as peak:
        table = moved.table
        assert peak() < 1e6
    assert table.numbers.tolist() == tree.table.numbers.tolist()


@contextmanager
def tracing():
    """Yield a function that returns the largest memory taken since, in bytes."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
