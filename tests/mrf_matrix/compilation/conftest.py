"""Oracles for compilation: T cell by cell from a walk of one tree at a time."""

import numpy as np
import pytest
from hypothesis import strategies as st

from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, RandomTrees, concatenate


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
