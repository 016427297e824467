"""A forest means what walking it node by node says."""

import pickle
import re
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Provenance, PureDP
from mrf_matrix.domain import Attribute, Domain
from mrf_matrix.forests import (
    Forest,
    ForestError,
    LearnedStructureError,
    RandomTrees,
    branch_pool,
    check_structure_is_public,
    concatenate,
    forest_from_levels,
    forest_from_paths,
    leaf_masks,
    subset_patterns,
    take_trees,
    threshold_pattern,
)


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


# Parts and sums ----------------------------------------------------------------------------------


DOMAIN = Domain.from_sizes([5, 4, 3])
CODES = np.random.default_rng(0).integers(0, 3, size=(100, 3))


@given(data=st.data())
def test_trees_taken_route_as_before(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    trees = data.draw(st.permutations(range(forest.n_trees)))
    trees = trees[: data.draw(st.integers(1, forest.n_trees))]
    some = take_trees(forest, trees)
    cells = all_cells(forest.domain.sizes)
    whole, part = forest.apply(cells), some.apply(cells)
    first = np.searchsorted(forest.leaf_tree, np.arange(forest.n_trees))
    first_taken = np.searchsorted(some.leaf_tree, np.arange(some.n_trees))
    assert np.array_equal(part - first_taken, (whole - first)[:, trees])


def test_together_and_apart_again():
    parts = [
        RandomTrees(3, 2).grow(DOMAIN, random_state=0),
        RandomTrees(2, 3, "binary").grow(DOMAIN, random_state=1),
        RandomTrees(1, 0).grow(DOMAIN),
    ]
    whole = concatenate(parts)
    before = np.cumsum([0] + [part.n_leaves for part in parts])
    expected = [part.apply(CODES) + n for part, n in zip(parts, before, strict=False)]
    assert np.array_equal(whole.apply(CODES), np.concatenate(expected, axis=1))
    assert len(whole.branches) == len(parts[0].branches)  # equal pools are kept once
    assert whole.source == "random multi-way trees + random binary trees"
    assert np.array_equal(take_trees(whole, [3, 4]).apply(CODES), parts[1].apply(CODES))


def test_what_the_parts_say_of_themselves_is_kept():
    plain = RandomTrees(1, 1).grow(DOMAIN)
    learned = replace(plain, provenance=Provenance.from_records("forest"))
    assert concatenate([plain, learned]).is_data_dependent
    assert not concatenate([plain, plain]).is_data_dependent
    first, second = (replace(plain, provenance=Provenance.spent(PureDP(1))) for _ in range(2))
    assert len(concatenate([first, second]).provenance.spendings) == 2
    assert len(concatenate([first, first]).provenance.spendings) == 1, "one charge is added once"


def test_what_cannot_be_combined():
    with pytest.raises(ValueError, match="forests is empty"):
        concatenate([])
    other = RandomTrees(1, 1).grow(Domain.from_sizes([5, 4]))
    with pytest.raises(ValueError, match=r"forests\[1\] has another domain"):
        concatenate([RandomTrees(1, 1).grow(DOMAIN), other])


@pytest.mark.parametrize("trees", [[], [3], [-1], [0, 0], [0.5], [[0]]])
def test_trees_that_are_not_there(trees):
    with pytest.raises(ValueError, match="trees="):
        take_trees(RandomTrees(3, 1).grow(DOMAIN), trees)


def test_pools_that_differ_are_joined():
    forest = RandomTrees(2, 3, "binary").grow(DOMAIN, random_state=0)
    moved = {"branches": np.append(7, forest.branches), "pattern": forest.pattern + 1}
    other = replace(forest, **moved)
    whole = concatenate([forest, other, forest])
    assert len(whole.branches) == len(forest.branches) + len(other.branches)
    leaves = forest.apply(CODES)
    expected = [leaves + i * forest.n_leaves for i in range(3)]
    assert np.array_equal(whole.apply(CODES), np.concatenate(expected, axis=1))


# Decision paths ----------------------------------------------------------------------------------


PATHS_DOMAIN = Domain.from_sizes([3, 2, 4, 3])


@given(data=st.data())
def test_masks_hold_the_cells_that_reach_the_leaf(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    cells = all_cells(forest.domain.sizes)
    masks = leaf_masks(forest)
    inside = np.ones((forest.n_leaves, len(cells)), dtype=bool)
    for mask, column in zip(masks, cells.T, strict=True):
        inside &= mask[:, column]
    reached = np.zeros_like(inside)
    np.put_along_axis(reached, forest.apply(cells).T, True, axis=0)
    assert np.array_equal(inside, reached)


@given(st.integers(0, 4), st.integers(0, 2**31))
def test_paths_there_and_back(depth, seed):
    forest = RandomTrees(5, depth).grow(PATHS_DOMAIN, random_state=seed)
    paths = forest.paths()
    shuffled = np.random.default_rng(seed).permutation(len(paths))
    again = forest_from_paths(paths[shuffled], forest.leaf_tree[shuffled], PATHS_DOMAIN)
    for tree in range(5):
        mine = paths[forest.leaf_tree == tree].tolist()
        assert sorted(again.paths()[again.leaf_tree == tree].tolist()) == sorted(mine)


def test_paths_of_unequal_length():
    paths = np.array([[0, -1], [1, 0], [1, 1], [2, -1]])
    forest = forest_from_paths(paths, None, Domain.from_sizes([3, 2]))
    assert forest.paths().tolist() == paths.tolist()
    assert forest.source == "decision paths"


def test_trees_keep_the_order_of_their_ids():
    paths = np.array([[-1], [0], [1]])
    forest = forest_from_paths(paths, np.array([9, 4, 4]), Domain.from_sizes([2]))
    assert forest.paths().tolist() == [[0], [1], [-1]]


def test_two_codes_make_a_threshold_a_path():
    forest = RandomTrees(3, 1, "binary").grow(Domain.from_sizes([2, 2, 1]), random_state=0)
    assert ((forest.paths() >= 0).sum(axis=1) == 1).all()


def test_thresholds_have_no_codes_to_name():
    forest = RandomTrees(3, 1, "binary").grow(Domain.from_sizes([5]), random_state=0)
    with pytest.raises(ForestError, match=r"of the 5 codes of attribute 'x0'.*path_matrix"):
        forest.paths()


@pytest.mark.parametrize(
    ("paths", "tree_id", "error", "message"),
    [
        ([[0, -1], [1, 0]], None, ForestError, "no path holds code 1 of attribute 'x1'"),
        ([[0, -1], [0, -1]], None, ForestError, "no path holds code 1 of attribute 'x0'"),
        ([[0, -1], [0, -1], [1, -1]], None, ForestError, "2 paths.*fix no attribute in common"),
        ([[0, -1], [-1, 0], [1, 1]], None, ForestError, "fix no attribute in common"),
        ([[0, 0]], None, ForestError, "no path holds code 1"),
        ([[0], [1]], None, ValueError, "wrong shape"),
        ([[0.0, 1.0]], None, ValueError, "float64"),
        ([[2, -1]], None, ValueError, "'x0' leave the domain: expected -1 to 1"),
        (np.zeros((0, 2), dtype=int), None, ValueError, "paths is empty"),
        ([[0, -1], [1, -1]], [0], ValueError, r"tree_id has shape \(1,\)"),
    ],
)
def test_what_is_no_multiway_tree(paths, tree_id, error, message):
    with pytest.raises(error, match=message):
        forest_from_paths(np.array(paths), tree_id, Domain.from_sizes([2, 2]))


# Text --------------------------------------------------------------------------------------------


WEATHER = Domain(
    [Attribute("sky", categories=["sun", "cloud", "rain"]), Attribute("age", edges=range(10))]
)


def test_every_kind_of_split():
    pool, starts = subset_patterns(branch_pool(WEATHER.sizes), [np.array([0, 1, 0])])
    forest = Forest(
        domain=WEATHER,
        roots=np.array([0]),
        attribute=np.array([1, 0, -1, -1, -1]),
        first_child=np.array([1, 3, 2, 3, 4]),
        pattern=np.array([9 - 6, starts[0], 0, 0, 0]),
        branches=pool,
    )
    assert forest.export_text() == "\n".join(
        [
            "tree 0",
            "├── age in [0, 1) .. [5, 6)",
            "│   ├── sky in {sun, rain}: leaf 0",
            "│   └── sky = cloud: leaf 1",
            "└── age in {[6, 7), [7, 8), [8, 9]}: leaf 2",
        ]
    )


def test_every_leaf_is_drawn_once_and_long_trees_are_cut():
    forest = RandomTrees(2, 2).grow(WEATHER, random_state=0)
    text = forest.export_text(tree=1)
    mine = np.flatnonzero(forest.leaf_tree == 1).tolist()
    assert [int(leaf) for leaf in re.findall(r": leaf (\d+)", text)] == mine
    short = forest.export_text(tree=1, max_leaves=4)
    assert short.endswith(f"... {len(mine) - 4} more leaves; raise max_leaves to see them")
    assert short.count("leaf ") == 4


def test_a_single_leaf():
    assert RandomTrees(2, 0).grow(WEATHER).export_text(1) == "tree 1: leaf 1"


def test_many_scattered_categories_are_shortened():
    domain = Domain.from_sizes([20])
    pool, starts = subset_patterns(branch_pool([20]), [np.arange(20) % 2])
    forest = Forest(
        domain=domain,
        roots=np.array([0]),
        attribute=np.array([0, -1, -1]),
        first_child=np.array([1, 1, 2]),
        pattern=np.array([starts[0], 0, 0]),
        branches=pool,
    )
    assert "x0 in {0, 2, 4, 6, 8, 10, ... 4 more}: leaf 0" in forest.export_text()


@pytest.mark.parametrize("tree", [-1, 2])
def test_no_such_tree(tree):
    with pytest.raises(ValueError, match="expected 0 to 1"):
        RandomTrees(2, 0).grow(WEATHER).export_text(tree)
    with pytest.raises(TypeError, match="expected an integer"):
        RandomTrees(2, 0).grow(WEATHER).export_text("first")


# Arrays that are no forest ------------------------------------------------------------------------

# Two trees over sizes (3, 2). Tree 0: x0 < 1, right x1; tree 1: x0 one branch a code.
GOOD = {
    "domain": Domain.from_sizes([3, 2]),
    "roots": np.array([0, 5]),
    "attribute": np.array([0, -1, 1, -1, -1, 0, -1, -1, -1]),
    "first_child": np.array([1, 1, 3, 3, 4, 6, 6, 7, 8]),
    "pattern": np.array([2, 0, 6, 0, 0, 6, 0, 0, 0]),
    "branches": branch_pool([3, 2]),
}


def changed(name: str, *entries: tuple[int, int]) -> dict:
    array = GOOD[name].copy()
    for where, value in entries:
        array[where] = value
    return {**GOOD, name: array}


def test_the_good_one_is_accepted():
    assert Forest(**GOOD).n_leaves == 6


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({**GOOD, "roots": np.array([], dtype=int)}, "roots is empty"),
        ({**GOOD, "roots": np.array([0, 0])}, "names a node twice"),
        ({**GOOD, "roots": np.array([0, 9])}, r"roots\[1\] is 9"),
        ({**GOOD, "roots": np.array([[0, 5]])}, r"shape \(1, 2\)"),
        ({**GOOD, "roots": np.array([0.0, 5.0])}, "float64"),
        ({**GOOD, "roots": np.array([0])}, "node 5 is the child of 0 nodes"),
        ({**GOOD, "roots": np.array([1, 5])}, "node 0 is the child of 0 nodes"),
        ({**GOOD, "roots": np.array([0, 2, 5])}, "node 2 is the child of 1 nodes: expected 0"),
        ({**GOOD, "first_child": np.array([1])}, "first_child has 1 entries: expected 9"),
        (changed("attribute", (0, 2)), r"attribute\[0\] is 2"),
        (changed("attribute", (0, -2)), "attribute has entries outside"),
        (changed("first_child", (1, 3)), "first_child of leaf 1 is 3"),
        (changed("first_child", (0, 3)), "node 1 is the child of 0 nodes"),
        (changed("first_child", (5, 8)), "3 children do not fit within 9 nodes"),
        (changed("first_child", (0, 9)), r"first_child\[0\] is 9"),
        (changed("pattern", (5, 7)), "reach beyond the 9 entries"),
        (changed("pattern", (5, 9)), r"pattern\[5\] is 9"),
        (changed("pattern", (1, 3)), "leaf 1 points at branches other than 0"),
        (changed("pattern", (0, 0)), "node 0 has one branch only"),
        (changed("pattern", (0, 3)), "node 0 has an empty branch"),
        (changed("branches", (8, 3)), "node 5 has an empty branch"),
        (changed("branches", (8, -1)), r"branches\[8\] is -1"),
        ({**GOOD, "branches": np.array([0, 0, 0])}, "pattern"),
    ],
)
def test_broken_arrays_are_refused(arrays, message):
    with pytest.raises(ForestError, match=message):
        Forest(**arrays)


def test_a_cycle_beside_the_tree_is_refused():
    # nodes 1 and 3 are each other's parents: every node has one parent, the root reaches none
    with pytest.raises(ForestError, match=r"4 nodes cannot be reached.*cycle"):
        Forest(
            domain=Domain.from_sizes([2]),
            roots=np.array([0]),
            attribute=np.array([-1, 0, -1, 0, -1]),
            first_child=np.array([0, 3, 2, 1, 4]),
            pattern=np.array([0, 4, 0, 4, 0]),
            branches=branch_pool([2]),
            allow_empty=True,
        )


def test_domain_must_be_a_domain():
    with pytest.raises(TypeError, match=r"list: expected a Domain"):
        Forest(**{**GOOD, "domain": [3, 2]})


def twice(first: list[int], second: list[int]) -> dict:
    """One tree over one attribute: a split, then another of its branch 0."""
    size, fan = len(first), max(second) + 1
    others = max(first)
    return {
        "domain": Domain.from_sizes([size]),
        "attribute": [np.array([0]), np.array([0] + [-1] * others), np.full(fan, -1)],
        "pattern": [np.array([3 * size]), np.full(others + 1, 4 * size), np.zeros(fan, int)],
        "branches": np.concatenate([branch_pool([size]), first, second]).astype(np.int32),
    }


@pytest.mark.parametrize(
    ("first", "second", "is_empty"),
    [
        ([0, 0, 1], [0, 1, 1], False),
        ([0, 0, 1], [0, 0, 1], True),  # the second right branch needs code 2, sent elsewhere
        ([1, 0, 0], [0, 0, 1], False),
        ([1, 0, 1], [0, 0, 1], True),
        ([0, 1, 0, 2], [0, 1, 2, 0], True),
        ([0, 1, 0, 2], [0, 1, 1, 0], False),
    ],
)
def test_a_branch_that_no_cell_reaches(first, second, is_empty):
    arrays = twice(first, second)
    if not is_empty:
        assert forest_from_levels(**arrays).max_depth == 2
        return
    with pytest.raises(ForestError, match="node 1 has a branch that no cell reaches"):
        forest_from_levels(**arrays)
    allowed = forest_from_levels(**arrays, allow_empty=True)
    codes = np.arange(len(first))[:, np.newaxis]
    assert len(np.unique(allowed.apply(codes))) < allowed.n_leaves


def test_empty_branches_are_found_in_every_chunk_of_trees(monkeypatch):
    domain = Domain.from_sizes([6, 5])
    forest = RandomTrees(40, 4, "binary").grow(domain, random_state=0)
    monkeypatch.setattr("mrf_matrix.forests.partition.CHUNK", 10)
    assert replace(forest) == forest
    # turn the last repeated threshold around: its right branch starts where nothing arrives
    broken = forest.pattern.copy()
    for node in range(forest.n_nodes):
        up = forest.parent[node]
        if up >= 0 and forest.attribute[node] == forest.attribute[up] >= 0:
            last = node
    up, size = forest.parent[last], domain.sizes[forest.attribute[last]]
    window = forest.branches[forest.pattern[up] : forest.pattern[up] + size]
    cut = int(np.argmax(window))  # first code of the parent's right branch
    broken[last] = 6 - cut
    with pytest.raises(ForestError, match=f"node {last} has a branch that no cell reaches"):
        replace(forest, pattern=broken)


@given(data=st.data())
def test_random_damage_never_goes_unnoticed_unless_it_is_another_forest(
    data, any_forest, all_cells
):
    forest = data.draw(any_forest)
    name = data.draw(st.sampled_from(["roots", "attribute", "first_child", "pattern"]))
    array = getattr(forest, name).copy()
    where = data.draw(st.integers(0, len(array) - 1))
    array[where] = data.draw(st.integers(-1, forest.n_nodes))
    try:
        damaged = replace(forest, **{name: array})
    except ForestError:
        return
    leaves = damaged.apply(all_cells(forest.domain.sizes))
    assert (damaged.leaf_tree[leaves] == np.arange(damaged.n_trees)).all()
    assert len(np.unique(leaves)) == damaged.n_leaves


# Structures learned from records -----------------------------------------------------------------


READ_OFF = Provenance.from_records("forest")
FOREST = RandomTrees(2, 1).grow(Domain.from_sizes([3, 2]), random_state=0)


def test_public_structures_pass():
    check_structure_is_public(FOREST, "a release")


def test_learned_structures_do_not():
    learned = replace(FOREST, provenance=READ_OFF, source="DecisionTreeClassifier")
    for allow in (False, True):
        with pytest.raises(
            LearnedStructureError, match=r"\(DecisionTreeClassifier\).*epsilon=float\('inf'\)"
        ):
            check_structure_is_public(learned, "a release", allow_spent=allow)


def test_structures_that_were_paid_for_pass_where_allowed():
    paid = replace(FOREST, provenance=Provenance.spent(PureDP(1)))
    check_structure_is_public(paid, "a release", allow_spent=True)
    with pytest.raises(LearnedStructureError, match="a plan without data must not depend"):
        check_structure_is_public(paid, "a plan without data")


def test_nothing_raises_a_provenance():
    learned = replace(FOREST, provenance=READ_OFF)
    again = replace(learned, provenance=Provenance.public("forest", "it is only an example"))
    for one in (again, replace(learned, source="public"), copy(learned), take_trees(learned, [0])):
        with pytest.raises(LearnedStructureError):
            check_structure_is_public(one, "a release", allow_spent=True)
    arrays = {name: getattr(learned, name) for name in GOOD if name != "domain"}
    for stated in ({}, {"provenance": Provenance()}):  # an empty one states nothing
        assert Forest(learned.domain, **arrays, **stated).provenance.unknown == {"forest"}


def test_a_structure_is_refused_by_whatever_name_it_was_read_off():
    read_off = Provenance.from_records("thresholds")
    with pytest.raises(LearnedStructureError, match="without a budget"):
        check_structure_is_public(replace(FOREST, provenance=read_off), "a plan", allow_spent=True)


def test_a_domain_that_was_read_off_makes_no_structure_learned():
    domain = Domain(one.read_off() for one in FOREST.domain.attributes)
    forest = RandomTrees(2, 1).grow(domain, random_state=0)
    assert not forest.is_data_dependent
    assert forest.provenance.read_off, "but no claim is made of it"
