"""Grown forests against one tree at a time, and against scikit-learn's trees."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from mrf_matrix import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.forests import BreimanTrees, MultinomialTrees, RandomTrees
from mrf_matrix.forests.assembly import graft
from mrf_matrix.forests.growth import grow as grow_module
from mrf_matrix.forests.growth import level as level_module
from mrf_matrix.forests.growth.grow import bare_roots, grow_forest, grow_further
from mrf_matrix.forests.growth.growth import (
    GREEDY,
    AllAttributes,
    Everything,
    Growth,
    Impurity,
    Partition,
    Softmax,
    Stopping,
)
from mrf_matrix.forests.growth.private import Candidates
from mrf_matrix.mechanisms import PureDP

SIZES = (5, 3, 7, 2)
SOURCES = [
    MultinomialTrees(12),
    MultinomialTrees(12, criterion="entropy", nominal=(0, 3)),
    MultinomialTrees(12, b1=0, b2=0, split_pure=True),
    MultinomialTrees(12, b1=float("inf"), b2=float("inf"), partition_rate=2.0),
    BreimanTrees(12),
    BreimanTrees(12, "entropy", nominal=("x1",)),
    MultinomialTrees(12, max_depth=2),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 400) for size in SIZES], axis=1)
    labels = (codes[:, 0] + codes[:, 2] + rng.integers(0, 4, 400)) // 5
    return Domain.from_sizes(SIZES, int(labels.max()) + 1), codes, labels


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_leaf_counts_are_those_of_the_estimation_points(source, data):
    """Route each tree's estimation points, drawn again from the same seed, through the forest."""
    domain, codes, labels = data
    grown = source.grow(domain, codes, labels, random_state=5)
    generator = np.random.default_rng(5).spawn(1)[0]
    (_, _), (tree, record) = source.growth.points.draw(len(codes), source.n_trees, generator)
    by_class = np.argsort(labels, kind="stable")  # the engine's order of records
    record = by_class[record]
    leaves = grown.forest.apply(codes)[record, tree]
    k = domain.n_classes
    expected = np.bincount(leaves * k + labels[record], minlength=grown.forest.n_leaves * k)
    np.testing.assert_array_equal(grown.leaf_counts, expected.reshape(-1, k))
    assert grown.parent_counts.sum(axis=1).min() > 0
    filled = grown.leaf_counts.any(axis=1)
    np.testing.assert_array_equal(grown.parent_counts[filled], grown.leaf_counts[filled])
    assert grown.forest.is_data_dependent


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_stopping_rules_hold(source, data):
    domain, codes, labels = data
    grown = source.grow(domain, codes, labels, random_state=1)
    forest, k = grown.forest, source.min_points
    of_node = np.zeros(forest.n_nodes, dtype=int)
    of_node[forest.leaves] = grown.leaf_counts.sum(axis=1)
    for level in forest.levels[:0:-1]:
        np.add.at(of_node, forest.parent[level], of_node[level])
    inner = forest.attribute >= 0
    if source.growth.stopping.rule == "node":
        assert of_node[inner].min() > k
    else:
        assert of_node[forest.leaves].min() >= k
    if source.max_depth is not None:
        assert forest.max_depth <= source.max_depth


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_equal_seeds_give_equal_forests_on_any_number_of_threads(source, data, monkeypatch):
    domain, codes, labels = data
    monkeypatch.setattr(grow_module, "MOST_POINTS", 1500)  # four blocks of three trees
    one = source.grow(domain, codes, labels, 3, n_jobs=1)
    two = source.grow(domain, codes, labels, 3, n_jobs=2)
    assert one.forest == two.forest
    np.testing.assert_array_equal(one.leaf_counts, two.leaf_counts)
    assert one.forest != source.grow(domain, codes, labels, 4).forest


def test_greedy_trees_do_not_depend_on_chunks(data, monkeypatch):
    labels = data[2]
    rng = np.random.default_rng(1)
    fine = np.stack([rng.permutation(400) for _ in range(3)], axis=1)
    domain = Domain.from_sizes([400] * 3, data[0].n_classes)
    # deeper nodes have cuts of equal worth, which are drawn
    growth = Growth(Everything(), AllAttributes(), GREEDY, Stopping(20, "sides", max_depth=4))
    whole = grow_forest(domain, fine, labels, growth, 2, random_state=0).forest
    monkeypatch.setattr(level_module, "CHUNK", 64)
    assert grow_forest(domain, fine, labels, growth, 2, random_state=0).forest == whole


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("least", [1, 6])
def test_greedy_trees_are_scikit_learns_on_raw_values(criterion, least):
    """One code per distinct value, thresholds halfway: the same cells of training records."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 4))
    X[:, 3] = np.round(X[:, 3], 1)
    y = (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=300) > 0.5).astype(int)
    codes = np.empty(X.shape, dtype=int)
    centres = []
    for i, column in enumerate(X.T):
        values, codes[:, i] = np.unique(column, return_inverse=True)
        centres.append(values)
    domain = Domain.from_sizes([len(values) for values in centres], 2)
    growth = Growth(
        Everything(), AllAttributes(), GREEDY, Stopping(least, "sides"), Impurity(criterion)
    )
    ours = grow_forest(domain, codes, y, growth, 1, centres=centres, random_state=0).forest
    theirs = DecisionTreeClassifier(
        criterion=criterion, min_samples_leaf=least, random_state=0
    ).fit(X, y)
    # equally good cuts may be chosen otherwise: compare the two roots, and the training error
    root = int(ours.roots[0])
    threshold = max(domain.sizes) - int(ours.pattern[root])
    assert ours.attribute[root] == theirs.tree_.feature[0]
    values = centres[int(ours.attribute[root])]
    assert (values[:threshold] <= theirs.tree_.threshold[0]).all()
    assert (values[threshold:] > theirs.tree_.threshold[0]).all()
    leaves = ours.apply(codes)[:, 0]
    counts = np.bincount(leaves * 2 + y).reshape(-1, 2) if y[-1] >= 0 else None
    right = counts.max(axis=1).sum() / 300
    assert right == pytest.approx(theirs.score(X, y), abs=0.02)
    if least == 1:
        assert right == 1


def test_thresholds_lie_halfway_between_values():
    codes = np.array([[0], [0], [3], [3]])
    centres = [np.array([0.0, 10.0, 11.0, 12.0])]
    growth = Growth(Everything(), AllAttributes(), GREEDY, Stopping(1, "sides"))
    forest = grow_forest(
        Domain.from_sizes([4], 2), codes, np.array([0, 0, 1, 1]), growth, 1, centres=centres
    ).forest
    assert forest.apply(np.arange(4)[:, None]).ravel().tolist() == [0, 1, 1, 1]
    middle = grow_forest(Domain.from_sizes([4], 2), codes, np.array([0, 0, 1, 1]), growth, 1).forest
    assert middle.apply(np.arange(4)[:, None]).ravel().tolist() == [0, 0, 1, 1]


def test_nominal_attributes_are_cut_one_code_against_the_rest():
    codes = np.array([[0], [1], [2], [3]] * 5)
    labels = (codes[:, 0] == 2).astype(int)
    growth = Growth(Everything(), AllAttributes(), GREEDY, Stopping(1))
    domain = Domain.from_sizes([4], 2)
    forest = grow_forest(domain, codes, labels, growth, 1, nominal=("x0",)).forest
    assert forest.n_leaves == 2
    assert forest.apply(np.arange(4)[:, None]).ravel().tolist() == [0, 0, 1, 0]
    assert grow_forest(domain, codes, labels, growth, 1).forest.n_leaves == 3


def test_random_limit_uses_every_attribute_and_the_greedy_one_the_best(data):
    domain, codes, labels = data
    random = MultinomialTrees(2000, b1=0, b2=0, max_depth=1).grow(domain, codes, labels, 0).forest
    counts = np.bincount(random.attribute[random.roots], minlength=4)
    assert np.abs(counts - 500).max() < 5 * np.sqrt(375)
    greedy = MultinomialTrees(50, b1=1e9, b2=1e9, max_depth=1)
    limit = MultinomialTrees(50, b1=float("inf"), b2=float("inf"), max_depth=1)
    assert (
        greedy.grow(domain, codes, labels, 0).forest == limit.grow(domain, codes, labels, 0).forest
    )


@pytest.mark.parametrize("sizes", [(2,), (1, 3), (4, 1, 2)])
def test_candidates_are_all_thresholds(sizes):
    candidates = Candidates.of(sizes)
    expected = [(i, cut) for i, size in enumerate(sizes) for cut in range(1, size)]
    found = zip(candidates.attribute.tolist(), candidates.cut.tolist(), strict=True)
    assert list(found) == expected


def test_one_class_or_one_record_makes_single_leaves():
    domain = Domain.from_sizes([3], 2)
    for codes, labels in (([[1]], [0]), ([[0], [1], [2]] * 9, [1] * 27)):
        grown = MultinomialTrees(4).grow(domain, np.array(codes), np.array(labels), 0)
        assert grown.forest.n_leaves == 4
        assert grown.leaf_counts.sum(axis=0)[1 - labels[0]] == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultinomialTrees(0), "n_trees=0"),
        (lambda: MultinomialTrees(min_points=0), "min_points=0"),
        (lambda: MultinomialTrees(b1=-1), "b1=-1"),
        (lambda: MultinomialTrees(partition_rate=0), "partition_rate=0"),
        (lambda: MultinomialTrees(criterion="mse"), "criterion='mse'"),
        (lambda: Stopping(rule="leaf"), "rule='leaf'"),
    ],
)
def test_parameters_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("codes", "labels", "nominal", "message"),
    [
        (np.zeros((0, 1), int), np.zeros(0, int), (), "no records"),
        (np.zeros((2, 1), int), np.zeros(3, int), (), "labels has the wrong shape"),
        (np.zeros((2, 1), int), np.array([0, 2]), (), "labels leave the classes"),
        (np.zeros((2, 1), int), np.array([0, 1]), ("y",), "nominal holds 'y'"),
        (np.zeros((2, 1), int), np.array([0, 1]), (1,), "nominal holds 1"),
    ],
)
def test_records_are_refused_by_name(codes, labels, nominal, message):
    domain = Domain.from_sizes([3], 2)
    with pytest.raises(ValueError, match=message):
        MultinomialTrees(2, nominal=nominal).grow(domain, codes, labels)


def test_softmax_and_partition_are_values():
    assert Softmax(1, 2) == Softmax(1, 2)
    assert Partition(3.0).share == 0.75


# Grown further -----------------------------------------------------------------------------------


FURTHER_SOURCES = [
    BreimanTrees(9, "entropy", 1),
    BreimanTrees(9, nominal=("x1",)),
    MultinomialTrees(9, max_depth=2, nominal=(0, 3)),
]
GREEDY_TREES = BreimanTrees(6, "entropy", 1, max_features=4)


@pytest.fixture(scope="module")
def fewer_records():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 300) for size in SIZES], axis=1)
    labels = (codes[:, 0] + codes[:, 2] + rng.integers(0, 4, 300)) // 5
    return Domain.from_sizes(SIZES, int(labels.max()) + 1), codes, labels


def further(forest, codes, labels, source, random_state=0):
    return grow_further(
        forest, codes, labels, source.growth, nominal=source.nominal, random_state=random_state
    )


@pytest.mark.parametrize("points", [grow_module.MOST_POINTS, 1000], ids=["at once", "in blocks"])
@pytest.mark.parametrize("source", FURTHER_SOURCES, ids=repr)
def test_from_bare_roots_it_is_the_forest_grown_at_once(
    source, points, fewer_records, all_cells, monkeypatch
):
    monkeypatch.setattr(grow_module, "MOST_POINTS", points)
    domain, codes, labels = fewer_records
    once = source.grow(domain, codes, labels, random_state=5).forest
    found = further(bare_roots(domain, 9), codes, labels, source, random_state=5)
    cells = all_cells(SIZES)
    np.testing.assert_array_equal(found.apply(cells), once.apply(cells))
    assert found.n_leaves == once.n_leaves
    assert found.is_data_dependent


def test_no_split_is_undone_and_leaves_are_cut_by_the_new_records_only(fewer_records, all_cells):
    domain, codes, labels = fewer_records
    cells = all_cells(SIZES)
    before = further(bare_roots(domain, 6), codes[:60], labels[:60], GREEDY_TREES)
    after = further(before, codes[60:], labels[60:], GREEDY_TREES)
    np.testing.assert_array_equal(after.attribute[after.roots], before.attribute[before.roots])
    old, new = before.apply(cells).ravel(), after.apply(cells).ravel()
    assert len(np.unique(new * before.n_leaves + old)) == after.n_leaves > before.n_leaves
    pure = np.zeros(240, dtype=int)
    unchanged = further(before, codes[60:], pure, GREEDY_TREES)
    np.testing.assert_array_equal(unchanged.apply(cells), before.apply(cells))


def test_the_depth_limit_counts_the_splits_above(fewer_records):
    domain, codes, labels = fewer_records
    source = replace(GREEDY_TREES, max_depth=3)
    forest = further(bare_roots(domain, 6), codes, labels, replace(GREEDY_TREES, max_depth=2))
    assert forest.max_depth == 2
    for _ in range(3):
        forest = further(forest, codes, labels, source)
    assert forest.max_depth == 3


@given(data=st.data())
def test_a_hung_tree_splits_its_leaf_alone(data, any_forest, all_cells):
    forest = data.draw(any_forest)
    below = RandomTrees(forest.n_leaves, 1).grow(forest.domain, data.draw(st.integers(0, 9)))
    if any(size == 1 for size in forest.domain.sizes):
        return
    below, forest = replace(below, allow_empty=True), replace(forest, allow_empty=True)
    cells = all_cells(forest.domain.sizes)
    leaf, inside = forest.apply(cells), below.apply(cells)
    both = graft(forest, below).apply(cells)
    below_here = np.take_along_axis(inside, leaf, axis=1)
    # leaves are numbered left to right, as the trees below are: by leaf, then within its tree
    np.testing.assert_array_equal(both, below_here)


def test_what_cannot_be_hung_is_refused():
    domain = Domain.from_sizes([3, 2])
    forest = RandomTrees(2, 1).grow(domain, random_state=0)
    with pytest.raises(ValueError, match="subtrees has 1 trees: expected"):
        graft(forest, RandomTrees(1, 1).grow(domain))
    below = RandomTrees(forest.n_leaves, 0).grow(domain)
    np.testing.assert_array_equal(
        graft(forest, below).apply(np.array([[1, 1]])), forest.apply(np.array([[1, 1]]))
    )
    paid = replace(below, provenance=Provenance.spent(PureDP(1)))
    (charge,) = graft(forest, paid).provenance.spendings  # what it cost is kept
    assert charge.budget == PureDP(1)
