"""Trees that records grow: leaves, rules and refusals, and those that scikit-learn grew."""

from collections import deque
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from grown_sources import SOURCES
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from mrf_matrix import Provenance
from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.estimators import MultinomialForestClassifier
from mrf_matrix.forests import (
    MultinomialTrees,
    SimplifiedBreimanTrees,
    from_sklearn,
    impure_diameter,
    leaf_masks,
)
from mrf_matrix.mechanisms import PrivacyLedger
from strategies.operators import MemoryCapError, memory_cap


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


def test_one_class_or_one_record_makes_single_leaves():
    domain = Domain.from_sizes([3], 2)
    for codes, labels in (([[1]], [0]), ([[0], [1], [2]] * 9, [1] * 27)):
        grown = MultinomialTrees(4).grow(domain, np.array(codes), np.array(labels), 0)
        assert grown.forest.n_leaves == 4
        assert grown.leaf_counts.sum(axis=0)[1 - labels[0]] == 0


ONE, TWO_RECORDS, BOTH = Domain.from_sizes([3], 2), np.zeros((2, 1), int), np.array([0, 1])


def grown_by(make, **changes):
    """Return the call that grows trees from records some of which are changed."""

    def grow():
        domain, codes, labels = noisy()
        return make.grow(domain, **({"codes": codes, "labels": labels} | changes))

    return grow


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MultinomialTrees(0), "n_trees=0"),
        (lambda: MultinomialTrees(min_points=0), "min_points=0"),
        (lambda: MultinomialTrees(b1=-1), "b1=-1"),
        (lambda: MultinomialTrees(partition_rate=0), "partition_rate=0"),
        (lambda: MultinomialTrees(criterion="mse"), "criterion='mse'"),
        (lambda: MultinomialTrees(b1="10"), "b1"),
        (lambda: MultinomialTrees(b1=float("nan")), "b1"),
        (lambda: MultinomialTrees(2).grow(ONE, TWO_RECORDS[:0], BOTH[:0]), "no records"),
        (lambda: MultinomialTrees(2).grow(ONE, TWO_RECORDS, np.zeros(3, int)), "labels has the"),
        (lambda: MultinomialTrees(2).grow(ONE, TWO_RECORDS, 2 * BOTH), "labels leave the classes"),
        (lambda: MultinomialTrees(2, nominal=("y",)).grow(ONE, TWO_RECORDS, BOTH), "holds 'y'"),
        (lambda: MultinomialTrees(2, nominal=(1,)).grow(ONE, TWO_RECORDS, BOTH), "nominal holds 1"),
        (lambda: SimplifiedBreimanTrees(n_trees=0), "n_trees"),
        (lambda: SimplifiedBreimanTrees(n_leaves="3"), "n_leaves"),
        (lambda: SimplifiedBreimanTrees(attributes="a"), "attributes"),
        (grown_by(SimplifiedBreimanTrees(2), labels=np.zeros(3, int)), "labels has the wrong"),
        (grown_by(SimplifiedBreimanTrees(2), labels=np.zeros(400)), "type float64"),
        (grown_by(SimplifiedBreimanTrees(2), codes=np.full((400, 3), 64)), "expected 0 to 63"),
        (grown_by(SimplifiedBreimanTrees(2), codes=np.zeros((400, 2), int)), "wrong shape"),
    ],
)
def test_parameters_and_records_are_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


# Simplified Breiman trees -------------------------------------------------------------------------


def is_pure(codes, labels, low, high):
    inside = ((codes >= low) & (codes < high)).all(axis=1)
    return len(set(labels[inside].tolist())) <= 1


def longest(low, high, sizes):
    """Return the longest sides, in exact arithmetic."""
    share = [
        Fraction(int(b - a), size) if b - a >= 2 else Fraction(0)
        for a, b, size in zip(low, high, sizes, strict=True)
    ]
    return [i for i, s in enumerate(share) if s > 0 and s == max(share)]


def replay(forest, tree, codes, labels, n_leaves):
    """Walk Algorithm 1 line by line along a tree, checking every decision it left a trace of."""
    sizes = forest.domain.sizes
    queue = deque([(forest.roots[tree], np.zeros(len(sizes), int), np.array(sizes))])
    n = 1
    while n < n_leaves and queue:
        node, low, high = queue.popleft()
        sides = longest(low, high, sizes)
        if is_pure(codes, labels, low, high) or not sides:
            assert forest.attribute[node] < 0
            continue
        i = forest.attribute[node]
        assert i in sides
        cut = (low[i] + high[i]) // 2
        table = forest.branches[forest.pattern[node] : forest.pattern[node] + sizes[i]]
        assert (table == (np.arange(sizes[i]) >= cut)).all()
        for side, bound in enumerate((high, low)):
            part = bound.copy()
            part[i] = cut
            corners = (low, part) if side == 0 else (part, high)
            queue.append((forest.first_child[node] + side, *corners))
        n += 1
    for node, _, _ in queue:
        assert forest.attribute[node] < 0
    return n


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    n_records=st.integers(0, 60),
    n_leaves=st.integers(1, 40),
    n_classes=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_every_tree_is_a_run_of_algorithm_1(sizes, n_records, n_leaves, n_classes, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, sizes, size=(n_records, len(sizes)))
    labels = rng.integers(0, n_classes, size=n_records)
    trees = SimplifiedBreimanTrees(n_trees=3, n_leaves=n_leaves)
    forest = trees.grow(Domain.from_sizes(sizes), codes, labels, seed)
    for tree in range(3):
        n = replay(forest, tree, codes, labels, n_leaves)
        assert n == np.count_nonzero(forest.leaf_tree == tree)


def noisy(n=400, sizes=(64, 64, 64), seed=0):
    rng = np.random.default_rng(seed)
    return Domain.from_sizes(sizes), rng.integers(0, sizes, (n, len(sizes))), rng.integers(0, 2, n)


def test_it_says_that_it_depends_on_the_records():
    domain, codes, labels = noisy()
    forest = SimplifiedBreimanTrees(2, 8).grow(domain, codes, labels, 0)
    assert forest.is_data_dependent
    assert not forest.provenance.released
    assert "data-dependent" in repr(forest)
    moved = labels.copy()
    moved[codes[:, 0] < 40] = 0
    other = SimplifiedBreimanTrees(2, 8).grow(domain, codes, moved, 0)
    assert forest != other


def test_without_records_it_explains():
    with pytest.raises(ValueError, match=r"needs codes and labels.*PureTrees or RandomTrees"):
        SimplifiedBreimanTrees().grow(Domain.from_sizes([4]))


def test_sides_are_drawn_uniformly_among_the_longest():
    domain, codes, labels = noisy(40)
    forest = SimplifiedBreimanTrees(6000, 2).grow(domain, codes, labels, 1)
    drawn = np.bincount(forest.attribute[forest.roots], minlength=3)
    assert chisquare(drawn).pvalue > 1e-3
    assert chisquare(drawn, np.array([0.4, 0.3, 0.3]) * 6000).pvalue < 1e-6  # negative control
    forest = SimplifiedBreimanTrees(6000, 3).grow(domain, codes, labels, 2)
    first = forest.attribute[forest.roots]
    second = forest.attribute[forest.first_child[forest.roots]]
    assert (second != first).all()  # halved once, a side is no longest side
    assert chisquare(np.bincount((second - first) % 3 - 1)).pvalue > 1e-3


def test_impure_leaves_are_small():
    domain, codes, labels = noisy(3000)
    for k in (5, 16, 33, 100):
        forest = SimplifiedBreimanTrees(3, k).grow(domain, codes, labels, 0)
        sides = np.stack([mask.sum(axis=1) for mask in leaf_masks(forest)], axis=1) / 64
        counts = np.zeros((forest.n_leaves, 2), int)
        for column in forest.apply(codes).T:
            np.add.at(counts, (column, labels), 1)
        impure = (counts > 0).all(axis=1)
        diameter = np.sqrt((sides[impure] ** 2).sum(axis=1)).max()
        assert diameter <= impure_diameter(k, 3) + 1e-12
        assert impure_diameter(k, 3) <= 2 * np.sqrt(3) * k ** (-1 / 3)


def test_the_seed_decides():
    domain, codes, labels = noisy()
    grow = SimplifiedBreimanTrees(4, 30).grow
    assert grow(domain, codes, labels, 3) == grow(domain, codes, labels, 3)
    assert grow(domain, codes, labels, 3) != grow(domain, codes, labels, 4)


def test_only_the_named_attributes_are_split():
    domain, codes, labels = noisy()
    trees = SimplifiedBreimanTrees(5, 20, attributes=["x2", "x0"])
    forest = trees.grow(domain, codes, labels, 0)
    assert set(forest.attribute.tolist()) == {-1, 0, 2}


# Private growth -----------------------------------------------------------------------------------

DOMAIN = Domain.from_sizes([3, 4, 2], 2)


WIDE = Domain.from_sizes([16] * 6, 2)
TOO_LARGE = {
    "nodes": (WIDE, {"max_depth": 24, "n_trees": 4}, None, "above the limit"),
    "leaves": (DOMAIN, {"n_trees": 50}, 10_000, "class counts of all leaves"),
    "candidates": (
        Domain.from_sizes([5000, 2], 3),
        {"n_trees": 1, "max_depth": 1},
        200_000,
        "class counts of a node's candidates",
    ),
    "rate": (DOMAIN, {"epsilon": 10**9, "n_trees": 1, "label_score": "count"}, None, "rate="),
}


@pytest.mark.parametrize("name", TOO_LARGE)
@pytest.mark.parametrize("n", [6, 60])
def test_what_could_not_be_grown_is_refused_before_the_charge(name, n):
    domain, given, cap, said = TOO_LARGE[name]
    ledger = PrivacyLedger(epsilon=10**12)
    codes = np.zeros((n, domain.n_attributes), dtype=int)
    forest = MultinomialForestClassifier(domain, **({"epsilon": 1, "ledger": ledger} | given))
    with memory_cap(cap or 2**31), pytest.raises(ValueError, match=said) as error:
        forest.fit(codes, np.arange(n) % 2)
    assert ledger.spent == 0
    assert f"{n} " not in str(error.value)
    assert isinstance(error.value, MemoryCapError) == (cap is not None)


# Trees of scikit-learn ----------------------------------------------------------------------------


SIZES = (5, 3, 4, 7)
FINE_CODES = Domain.from_sizes(SIZES)
SMALL = {"n_estimators": 4, "random_state": 0}

TREES = [
    DecisionTreeClassifier(random_state=0),
    DecisionTreeClassifier(max_leaf_nodes=9, random_state=0),  # numbered best first
    DecisionTreeClassifier(max_depth=1),
    DecisionTreeRegressor(max_depth=4, random_state=0),
    ExtraTreeClassifier(random_state=0),
    ExtraTreeRegressor(max_depth=5, random_state=0),
]
FORESTS = [
    RandomForestClassifier(**SMALL),
    RandomForestRegressor(max_depth=3, **SMALL),
    ExtraTreesClassifier(max_leaf_nodes=12, **SMALL),
    ExtraTreesRegressor(**SMALL),
    RandomTreesEmbedding(max_depth=3, **SMALL),
]
ENSEMBLES = [
    BaggingClassifier(max_features=2, **SMALL),
    BaggingClassifier(RandomForestClassifier(n_estimators=3, random_state=0), max_features=3),
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), **SMALL),
    GradientBoostingClassifier(max_depth=2, **SMALL),
    GradientBoostingRegressor(max_depth=2, **SMALL),
    IsolationForest(max_features=2, **SMALL),
]


def records(n=150, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, SIZES, size=(n, len(SIZES)))
    return codes, rng.integers(0, 3, size=n)


def fitted(estimator):
    return estimator.fit(*records())


def members(estimator, columns):
    """Return every tree with the columns it reads, in order."""
    if hasattr(estimator, "tree_"):
        return [(estimator, columns)]
    drawn = getattr(estimator, "estimators_features_", None)
    trees = estimator.estimators_
    trees = trees.ravel() if isinstance(trees, np.ndarray) else trees
    return [
        pair
        for number, tree in enumerate(trees)
        for pair in members(tree, columns if drawn is None else columns[drawn[number]])
    ]


@pytest.fixture(scope="module")
def cells(all_cells):
    return all_cells(SIZES)


@pytest.mark.parametrize("estimator", TREES + FORESTS + ENSEMBLES, ids=str)
def test_its_path_matrix_is_scikit_learns_decision_path(estimator, cells):
    model = fitted(estimator)
    forest = from_sklearn(model, FINE_CODES)
    matrix = path_matrix(forest).to_dense()
    trees = members(model, np.arange(len(SIZES)))
    assert forest.n_trees == len(trees)
    for number, (tree, columns) in enumerate(trees):
        path = tree.decision_path(cells[:, columns].astype(np.float32)).toarray()
        theirs = path[:, tree.tree_.children_left < 0].T
        ours = matrix[forest.leaf_tree == number]
        order = [np.lexsort(rows.T) for rows in (theirs, ours)]
        np.testing.assert_array_equal(theirs[order[0]], ours[order[1]])


@pytest.mark.parametrize("estimator", [TREES[0], *FORESTS[:3]], ids=str)
def test_leaves_are_numbered_left_to_right(estimator, cells):
    model = fitted(estimator)
    forest = from_sklearn(model, FINE_CODES)
    mine = forest.apply(cells)
    theirs = np.asarray(model.apply(cells)).reshape(len(cells), -1)
    for tree in range(forest.n_trees):
        pairs = np.unique(np.stack([mine[:, tree], theirs[:, tree]]), axis=1)
        assert (np.bincount(pairs[0] - pairs[0].min()) == 1).all()
        assert len(np.unique(pairs[1])) == pairs.shape[1]
        if not getattr(model, "max_leaf_nodes", None):  # scikit-learn numbers depth first
            assert (np.diff(pairs[1]) > 0).all()


def test_it_is_marked_as_learned_from_records():
    forest = from_sklearn(fitted(FORESTS[0]), FINE_CODES)
    assert forest.is_data_dependent
    assert not forest.provenance.released
    assert forest.source == "RandomForestClassifier"
    public = Provenance.public("forest", "fitted on a public survey")
    assert replace(forest, provenance=public).is_data_dependent, "nothing raises it afterwards"
    said = from_sklearn(fitted(FORESTS[0]), FINE_CODES, provenance=public)
    assert not said.is_data_dependent
    assert any("a public survey" in one for one in said.provenance.declared)


def test_a_tree_that_never_splits():
    codes, _ = records()
    model = DecisionTreeClassifier().fit(codes, np.zeros(len(codes)))
    forest = from_sklearn(model, FINE_CODES)
    assert (forest.n_leaves, forest.max_depth) == (1, 0)


def test_fine_codes_and_any_float_of_the_same_codes():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 1 << 20, size=(500, 2))
    domain = Domain.from_sizes([1 << 20, 1 << 20])
    for kind in (np.float32, np.float64, np.int64):
        model = ExtraTreesClassifier(5, random_state=0).fit(codes.astype(kind), codes[:, 0] % 2)
        forest = from_sklearn(model, domain)
        probe = rng.integers(0, 1 << 20, size=(2000, 2))
        mine, theirs = forest.apply(probe), model.apply(probe)
        for tree in range(5):
            pairs = np.unique(np.stack([mine[:, tree], theirs[:, tree]]), axis=1)
            assert len(np.unique(pairs[0])) == len(np.unique(pairs[1])) == pairs.shape[1]


def test_negative_control_a_threshold_moved_by_one_code_is_noticed(cells):
    model = fitted(DecisionTreeClassifier(max_depth=3, random_state=0))
    forest = from_sklearn(model, FINE_CODES)
    inner = int(np.flatnonzero(forest.attribute >= 0)[0])
    pattern = forest.pattern.copy()
    pattern[inner] += 1 if pattern[inner] < max(SIZES) - 1 else -1
    moved = replace(forest, pattern=pattern, allow_empty=True)
    assert not np.array_equal(moved.apply(cells), forest.apply(cells))


def test_other_estimators_are_refused():
    codes, labels = records()
    for model in (LogisticRegression(), HistGradientBoostingClassifier(max_iter=2)):
        with pytest.raises(TypeError, match="keeps no binary trees"):
            from_sklearn(model.fit(codes, labels), FINE_CODES)
    with pytest.raises(TypeError, match="estimator is str"):
        from_sklearn("forest", FINE_CODES)
    with pytest.raises(NotFittedError):
        from_sklearn(RandomForestClassifier(), FINE_CODES)


def test_what_was_fitted_on_something_else_is_refused():
    codes, labels = records()
    with pytest.raises(ValueError, match=r"fitted on 3 features: expected 4"):
        from_sklearn(DecisionTreeClassifier().fit(codes[:, :3], labels), FINE_CODES)
    raw = DecisionTreeClassifier(random_state=0).fit(codes * 10.0, labels)
    with pytest.raises(ValueError, match=r"splits attribute 'x\d' between codes .* not on raw"):
        from_sklearn(raw, FINE_CODES)
    with pytest.raises(TypeError, match="domain is list"):
        from_sklearn(fitted(TREES[0]), [5, 3])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float32"):
        from_sklearn(fitted(TREES[0]), Domain.from_sizes([5, 3, 4, (1 << 24) + 1]))
