"""from_sklearn: the same leaves as scikit-learn, record by record and cell by cell."""

from dataclasses import replace

import numpy as np
import pytest
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
from mrf_matrix.forests import from_sklearn

SIZES = (5, 3, 4, 7)
DOMAIN = Domain.from_sizes(SIZES)
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
    forest = from_sklearn(model, DOMAIN)
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
    forest = from_sklearn(model, DOMAIN)
    mine = forest.apply(cells)
    theirs = np.asarray(model.apply(cells)).reshape(len(cells), -1)
    for tree in range(forest.n_trees):
        pairs = np.unique(np.stack([mine[:, tree], theirs[:, tree]]), axis=1)
        assert (np.bincount(pairs[0] - pairs[0].min()) == 1).all()
        assert len(np.unique(pairs[1])) == pairs.shape[1]
        if not getattr(model, "max_leaf_nodes", None):  # scikit-learn numbers depth first
            assert (np.diff(pairs[1]) > 0).all()


def test_it_is_marked_as_learned_from_records():
    forest = from_sklearn(fitted(FORESTS[0]), DOMAIN)
    assert forest.is_data_dependent
    assert not forest.provenance.released
    assert forest.source == "RandomForestClassifier"
    public = Provenance.public("forest", "fitted on a public survey")
    assert replace(forest, provenance=public).is_data_dependent, "nothing raises it afterwards"
    said = from_sklearn(fitted(FORESTS[0]), DOMAIN, provenance=public)
    assert not said.is_data_dependent
    assert any("a public survey" in one for one in said.provenance.declared)


def test_a_tree_that_never_splits():
    codes, _ = records()
    model = DecisionTreeClassifier().fit(codes, np.zeros(len(codes)))
    forest = from_sklearn(model, DOMAIN)
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
    forest = from_sklearn(model, DOMAIN)
    inner = int(np.flatnonzero(forest.attribute >= 0)[0])
    pattern = forest.pattern.copy()
    pattern[inner] += 1 if pattern[inner] < max(SIZES) - 1 else -1
    moved = replace(forest, pattern=pattern, allow_empty=True)
    assert not np.array_equal(moved.apply(cells), forest.apply(cells))


def test_other_estimators_are_refused():
    codes, labels = records()
    for model in (LogisticRegression(), HistGradientBoostingClassifier(max_iter=2)):
        with pytest.raises(TypeError, match="keeps no binary trees"):
            from_sklearn(model.fit(codes, labels), DOMAIN)
    with pytest.raises(TypeError, match="estimator is str"):
        from_sklearn("forest", DOMAIN)
    with pytest.raises(NotFittedError):
        from_sklearn(RandomForestClassifier(), DOMAIN)


def test_what_was_fitted_on_something_else_is_refused():
    codes, labels = records()
    with pytest.raises(ValueError, match=r"fitted on 3 features: expected 4"):
        from_sklearn(DecisionTreeClassifier().fit(codes[:, :3], labels), DOMAIN)
    raw = DecisionTreeClassifier(random_state=0).fit(codes * 10.0, labels)
    with pytest.raises(ValueError, match=r"splits attribute 'x\d' between codes .* not on raw"):
        from_sklearn(raw, DOMAIN)
    with pytest.raises(TypeError, match="domain is list"):
        from_sklearn(fitted(TREES[0]), [5, 3])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="float32"):
        from_sklearn(fitted(TREES[0]), Domain.from_sizes([5, 3, 4, (1 << 24) + 1]))
