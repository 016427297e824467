"""A forest means what walking it node by node says."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests import Forest, RandomTrees, branch_pool, threshold_pattern
from mrf_matrix.forests.nodes import BLOCK, ROWS


@given(data=st.data())
def test_every_cell_reaches_the_leaf_that_walking_reaches(data, any_forest, slow, all_cells):
    forest = data.draw(any_forest)
    cells = all_cells(forest.domain.sizes)
    oracle = slow(forest)
    assert forest.apply(cells).tolist() == [oracle.route(cell) for cell in cells.tolist()]


@given(data=st.data())
def test_every_tree_partitions_the_domain(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    leaves = forest.apply(all_cells(forest.domain.sizes))
    assert (forest.leaf_tree[leaves] == np.arange(forest.n_trees)).all()
    assert len(np.unique(leaves)) == forest.n_leaves  # and no leaf is empty


@given(data=st.data())
def test_derived_fields(data, any_forest, slow):
    forest = data.draw(any_forest)
    oracle = slow(forest)
    assert forest.leaves.tolist() == oracle.leaves
    assert forest.leaf_tree.tolist() == oracle.tree_of_leaf
    assert forest.depth.tolist() == oracle.depth
    assert forest.parent.tolist() == oracle.parent
    assert forest.max_depth == max(oracle.depth)
    assert forest.n_leaves == len(oracle.leaves)
    numbers = np.full(forest.n_nodes, -1)
    numbers[oracle.leaves] = np.arange(len(oracle.leaves))
    assert forest.leaf_index.tolist() == numbers.tolist()
    inner = np.flatnonzero(forest.attribute >= 0)
    assert forest.n_children[inner].tolist() == [len(oracle.children(v)) for v in inner]
    assert sum(map(len, forest.levels)) == forest.n_nodes


@pytest.fixture(scope="module")
def car() -> Forest:
    return RandomTrees(n_trees=5, max_depth=2).grow(Domain.from_sizes([4, 4, 3]), random_state=0)


@pytest.mark.parametrize("n_records", [0, 1, ROWS - 1, ROWS + 1, BLOCK // 5 + 1])
@pytest.mark.parametrize("n_trees", [1, 5])
def test_blocks_join_without_a_seam(n_records, n_trees, slow):
    forest = RandomTrees(n_trees, 2, "binary").grow(Domain.from_sizes([4, 3]), random_state=1)
    codes = np.random.default_rng(0).integers(0, 3, size=(n_records, 2))
    oracle = slow(forest)
    expected = {cell: oracle.route(list(cell)) for cell in np.ndindex(4, 3)}
    leaves = forest.apply(codes)
    assert leaves.shape == (n_records, n_trees)
    assert leaves.dtype == np.int32
    assert leaves.tolist() == [expected[tuple(record)] for record in codes.tolist()]


def test_more_trees_than_a_block_holds():
    forest = RandomTrees(BLOCK + 7, 1).grow(Domain.from_sizes([2, 3]), random_state=0)
    leaves = forest.apply(np.array([[1, 2]]))[0]
    assert (forest.leaf_tree[leaves] == np.arange(forest.n_trees)).all()


def chain(size: int) -> Forest:
    """Split off one code after the other: depth size - 1."""
    inner = np.arange(size - 1) * 2
    attribute = np.full(2 * size - 1, -1)
    attribute[inner] = 0
    first_child = np.arange(2 * size - 1)
    first_child[inner] = inner + 1
    pattern = np.zeros(2 * size - 1, dtype=int)
    pattern[inner] = threshold_pattern([size], np.arange(1, size))
    # node 0 -> (1, 2), node 2 -> (3, 4), ...: the left child is code i, the right one the rest
    return Forest(
        domain=Domain.from_sizes([size]),
        roots=np.array([0]),
        attribute=attribute,
        first_child=first_child,
        pattern=pattern,
        branches=branch_pool([size]),
    )


def test_a_deep_chain_is_routed_and_states_that_arrived_are_dropped():
    forest = chain(300)
    assert forest.max_depth == 299
    codes = np.random.default_rng(0).integers(0, 300, size=(5000, 1))
    assert np.array_equal(forest.apply(codes), codes)


def test_trees_of_different_depths_in_one_block():
    from mrf_matrix.forests import concatenate

    domain = Domain.from_sizes([3] * 6)
    shallow = RandomTrees(3, 0).grow(domain, random_state=0)
    deep = RandomTrees(3, 6).grow(domain, random_state=0)
    both = concatenate([shallow, deep])
    codes = np.random.default_rng(0).integers(0, 3, size=(400, 6))
    assert np.array_equal(both.apply(codes)[:, :3], shallow.apply(codes))
    assert np.array_equal(both.apply(codes)[:, 3:], deep.apply(codes) + shallow.n_leaves)


def test_codes_of_any_integer_type_and_layout(car):
    codes = np.random.default_rng(0).integers(0, 3, size=(50, 3))
    expected = car.apply(codes)
    for kind in (np.int8, np.uint16, np.int32, np.uint64):
        assert np.array_equal(car.apply(np.asfortranarray(codes.astype(kind))), expected)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros(3, dtype=int), "wrong shape"),
        (np.zeros((2, 2), dtype=int), "wrong shape"),
        (np.zeros((2, 3)), "float64"),
        (np.array([[0, 4, 0]]), "'x1' leave the domain: expected 0 to 3"),
        (np.array([[0, 0, -1]]), "'x2' leave the domain"),
    ],
)
def test_codes_outside_the_domain_are_refused(car, codes, message):
    with pytest.raises(ValueError, match=message):
        car.apply(codes)


def test_a_forest_is_a_value(car):
    again = RandomTrees(n_trees=5, max_depth=2).grow(Domain.from_sizes([4, 4, 3]), random_state=0)
    other = RandomTrees(n_trees=5, max_depth=2).grow(Domain.from_sizes([4, 4, 3]), random_state=1)
    assert car == again
    assert hash(car) == hash(again)
    assert car != other
    learned = replace(car, provenance=Provenance.from_records("forest"))
    assert car == learned  # where they came from is no matter
    assert car != 3
    assert pickle.loads(pickle.dumps(car)) == car
    assert not car.is_data_dependent
    assert car.provenance.declared == {"domain", "forest"}


def test_arrays_cannot_be_written(car):
    with pytest.raises(ValueError, match="read-only"):
        car.attribute[0] = 1
    mine = np.array([0, -1, -1])
    forest = Forest(
        domain=Domain.from_sizes([2]),
        roots=np.array([0]),
        attribute=mine,
        first_child=np.array([1, 1, 2]),
        pattern=np.array([4, 0, 0]),
        branches=branch_pool([2]),
    )
    mine[0] = -1
    assert forest.attribute[0] == 0


def test_repr_says_what_it_is(car):
    leaves = car.n_leaves
    assert repr(car) == (
        f"Forest(5 trees, {leaves} leaves, depth 2, over 3 attributes, random multi-way trees)"
    )
    learned = replace(car, provenance=Provenance.from_records("forest"))
    assert "data-dependent" in repr(learned)


def test_memory_is_twelve_bytes_a_node(car):
    assert car.nbytes == 12 * car.n_nodes + 4 * car.n_trees + 4 * len(car.branches)
    fine = RandomTrees(8, 3, "binary").grow(Domain.from_sizes([5000] * 3), random_state=0)
    assert len(fine.branches) == 15000  # one pool, however many thresholds
