"""Arrays that are no forest are refused, each for its own reason."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests import (
    Forest,
    ForestError,
    LearnedStructureError,
    RandomTrees,
    branch_pool,
    check_structure_is_public,
    forest_from_levels,
    take_trees,
)
from mrf_matrix.forests.nodes import ARRAYS
from mrf_matrix.forests.partition import _check_runs, _check_sets, nearest_same_attribute
from mrf_matrix.mechanisms import PureDP

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
    monkeypatch.setattr("mrf_matrix.forests.partition._CHUNK", 10)
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


def complaint(check, *arguments) -> str | None:
    try:
        check(*arguments)
    except ForestError as error:
        return str(error)
    return None


def test_following_runs_and_following_sets_find_the_same_branches():
    rng = np.random.default_rng(0)
    found = []
    for seed in range(200):
        domain = Domain.from_sizes(rng.integers(2, 7, size=2).tolist())
        forest = RandomTrees(2, 3, "binary").grow(domain, random_state=seed)
        pattern = forest.pattern.copy()
        node = rng.choice(np.flatnonzero(forest.attribute >= 0))
        cut = rng.integers(1, domain.sizes[forest.attribute[node]])
        pattern[node] = max(domain.sizes) - cut
        moved = replace(forest, pattern=pattern, allow_empty=True)
        above, edge = nearest_same_attribute(moved)
        runs = complaint(_check_runs, moved, above, edge)
        sets = complaint(_check_sets, moved, above, edge, np.ones(moved.n_nodes, dtype=bool))
        assert runs == sets
        found.append(runs is not None)
    assert 0 < sum(found) < len(found)


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
    arrays = {name: getattr(learned, name) for name in ARRAYS}
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
