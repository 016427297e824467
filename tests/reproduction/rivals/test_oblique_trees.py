"""Trees of hyperplanes: every step against brute force, and nodes that have no plane."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rivals.oblique import oblique_trees
from rivals.oblique.axis_cuts import Level, best_threshold
from rivals.oblique.heterogeneous_cuts import candidate_partitions, ranked_partitions
from rivals.oblique.hyperclasses import class_distances, hyperclasses
from rivals.oblique.linear_classifiers import CLASSIFIERS, GroupedLevel
from rivals.oblique.moments import ClassMoments
from rivals.oblique.oblique_trees import CUTS, ObliqueTrees
from rivals.oblique.projections import projected_cuts
from rivals.oblique.proximal_planes import _nearest_plane
from scipy import linalg
from scipy.stats import rankdata
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge


def a_level(seed=0, nodes=4, m=3, k=3, least=6, most=20, min_leaf=2, digits=1):
    """Return a level of random nodes; rounded values, so that some are equal."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(least, most, nodes)
    node = np.repeat(np.arange(nodes), sizes)
    labels = rng.integers(0, k, len(node))
    values = np.round(rng.normal(size=(len(node), m)) + labels[:, None], digits)
    counts = np.bincount(node * k + labels, minlength=nodes * k).reshape(nodes, k)
    return Level(values, labels, node, np.flatnonzero(np.diff(node, prepend=-1)), counts, min_leaf)


def purity(labels):
    return (np.bincount(labels) ** 2).sum() / len(labels) if len(labels) else 0.0


@pytest.mark.parametrize("seed", range(30))
def test_the_best_threshold_by_trying_all(seed):
    level = a_level(seed, min_leaf=1 + seed % 3)
    column = level.values[:, 0]
    cut, found = best_threshold(level, column)
    for node in range(4):
        at = level.node == node
        x, y = column[at], level.labels[at]
        tried = [
            purity(y[x <= t]) + purity(y[x > t])
            for t in np.unique(x)[:-1]
            if min((x <= t).sum(), (x > t).sum()) >= level.min_leaf
        ]
        assert found[node] == pytest.approx(max(tried, default=-1.0))
        if tried:
            sides = purity(y[x <= cut[node]]) + purity(y[x > cut[node]])
            assert sides == pytest.approx(found[node])


def test_moments_are_those_of_each_class_and_of_their_unions():
    level = a_level(1)
    moments = ClassMoments.of(level)
    second = np.array([[True, False, True]] * 4)
    groups = moments.grouped(second)
    for node in range(4):
        at = level.node == node
        x, y = level.values[at], level.labels[at]
        for label in range(3):
            mine = x[y == label]
            if len(mine):
                assert moments.means[node, label] == pytest.approx(mine.mean(axis=0))
                centred = mine - mine.mean(axis=0)
                assert moments.scatter[node, label] == pytest.approx(centred.T @ centred)
        union = x[y != 1]
        assert groups.counts[node, 1] == len(union)
        assert groups.scatter[node, 1] == pytest.approx(np.cov(union.T, bias=True) * len(union))
        assert moments.total_scatter[node] == pytest.approx(np.cov(x.T, bias=True) * len(x))


def test_distances_are_bhattacharyyas():
    level = a_level(2, nodes=2, least=60, most=61, digits=8)
    found = class_distances(ClassMoments.of(level))
    at = level.node == 1
    x, y = level.values[at], level.labels[at]
    means = [x[y == c].mean(axis=0) for c in range(3)]
    spread = [np.cov(x[y == c].T, bias=True) for c in range(3)]
    for i in range(3):
        for j in range(3):
            both, gap = (spread[i] + spread[j]) / 2, means[i] - means[j]
            volume = np.sqrt(linalg.det(spread[i]) * linalg.det(spread[j]))
            distance = gap @ linalg.inv(both) @ gap / 8 + np.log(linalg.det(both) / volume) / 2
            assert found[1, i, j] == pytest.approx(distance, abs=1e-10)


def test_hyperclasses_gather_around_the_farthest_two():
    counts = np.array([[5, 5, 5, 5], [5, 0, 0, 0]])
    means = np.zeros((2, 4, 1))
    means[0, :, 0] = [0, 9, 1, 8]
    second, is_grouped = hyperclasses(ClassMoments(counts, means, np.zeros((2, 4, 1, 1))))
    assert second[0].tolist() == [False, True, False, True]
    assert is_grouped.tolist() == [True, False]


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_plane_is_the_top_generalised_eigenvector(seed):
    rng = np.random.default_rng(seed)
    own, others = ((lambda a: a.T @ a)(rng.normal(size=(9, 4))) for _ in range(2))
    expected = linalg.eigh(others, own)[1][:, -1]
    found = _nearest_plane(own[None], others[None], "tikhonov")[0]
    assert np.linalg.norm(found[:-1]) == pytest.approx(1)
    assert abs(found @ expected) == pytest.approx(np.linalg.norm(found) * np.linalg.norm(expected))


def test_planes_in_the_null_space():
    own = np.diag([0.0, 1.0, 2.0])
    found = _nearest_plane(own[None], np.ones((1, 3, 3)), "null_space")[0]
    assert np.abs(found) == pytest.approx([1, 0, 0])


def test_discriminant_axes_part_what_no_attribute_does():
    """Two classes along a diagonal: one oblique cut, no axis-parallel one."""
    rng = np.random.default_rng(0)
    line = rng.normal(size=200) * 5
    labels = np.arange(200) % 2
    values = np.stack([line, line + 0.5 * (2 * labels - 1) + 0.01 * rng.normal(size=200)], axis=1)
    counts = np.array([[100, 100]])
    level = Level(values, labels, np.zeros(200, dtype=int), np.array([0]), counts, 1)
    cuts = projected_cuts(level, "lda")
    right = values @ cuts.weights[0] > cuts.threshold[0]
    assert (right == labels).all() or (right != labels).all()


@pytest.mark.parametrize("split", CUTS)
def test_children_share_their_parents_points(split):
    X, y = load_iris(return_X_y=True)
    forest = ObliqueTrees(7, split, min_points=3).grow(X, y, 3, random_state=0)
    nodes = np.arange(len(forest.child))
    cut = nodes[forest.child != nodes]
    children = forest.counts[forest.child[cut]] + forest.counts[forest.child[cut] + 1]
    assert (children == forest.counts[cut]).all()
    leaves = nodes[forest.child == nodes]
    assert forest.counts[leaves].sum(axis=1).min() >= 3
    assert (forest.counts[:7].sum(axis=1) == len(X)).all()
    reached = forest.apply(X)
    assert reached.shape == (150, 7)
    assert np.isin(reached, leaves).all()
    voted = forest.counts[reached].sum(axis=1).argmax(axis=1)
    assert (voted == y).mean() > 0.93


def test_batches_of_trees_are_one_forest(monkeypatch):
    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr(oblique_trees, "BATCH", 2 * 150 * 4)
    forest = ObliqueTrees(5, "pca").grow(X, y, 3, random_state=0)
    nodes = np.arange(len(forest.child))
    cut = nodes[forest.child != nodes]
    assert forest.n_trees == 5
    children = forest.counts[forest.child[cut]] + forest.counts[forest.child[cut] + 1]
    assert (children == forest.counts[cut]).all()
    assert sorted([*range(5), *forest.child[cut], *(forest.child[cut] + 1)]) == nodes.tolist()
    assert (forest.counts[forest.apply(X)].sum(axis=1).argmax(axis=1) == y).mean() > 0.93


@given(st.sampled_from(sorted(CUTS)), st.integers(1, 30), st.integers(1, 5), st.integers(0, 2**31))
def test_nodes_without_a_plane_are_cut_along_an_attribute_or_are_leaves(split, n, d, seed):
    """Constant attributes, equal records and classes of one record: no nan, no crash."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, d)) * rng.integers(0, 2, d).astype(float)
    y = rng.integers(0, 4, n)
    forest = ObliqueTrees(3, split, min_points=1).grow(X, y, 4, random_state=seed)
    assert np.isfinite(forest.weights).all()
    assert np.isfinite(forest.threshold).all()
    assert (forest.counts.sum(axis=1) > 0).all()
    forest.apply(X)


def test_partitions_that_keep_classes_pure_and_apart_come_first():
    counts = np.array([50, 50, 5, 5])
    places = np.array([0.0, 1.0, 10.0, 11.0])
    distances = np.abs(places[:, None] - places)
    tried = candidate_partitions(counts, np.zeros(4, dtype=bool), np.random.default_rng(0))
    assert len({tuple(one) for one in tried}) == 7
    ranked = ranked_partitions(tried, counts, distances)

    def merit(one):
        pure = sum((g**2).sum() / g.sum() for g in (counts[one], counts[~one]))
        within = max(distances[np.ix_(g, g)].max() for g in (one, ~one))
        return pure, distances[np.ix_(one, ~one)].min() / within

    merits = np.array([merit(one) for one in ranked])
    total = sum(rankdata(column) for column in merits.T)
    assert (np.diff(total) <= 0).all()
    assert total[0] > total[-1]


def test_many_classes_are_parted_in_a_sample_of_ways():
    counts = np.array([3] * 9 + [0])
    second = np.arange(10) % 2 == 1
    tried = candidate_partitions(counts, second, np.random.default_rng(0))
    assert not tried[:, 9].any()
    assert 0 < len(tried) <= 9 * 12 + 1
    assert len({tuple(one) for one in tried}) == len(tried)
    assert all(0 < one.sum() < 9 for one in tried)


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_each_classifier_parts_two_groups_that_a_plane_parts(name):
    rng = np.random.default_rng(0)
    node = np.repeat([0, 1], 60)
    group = np.tile([False, True], 60)
    values = rng.normal(size=(120, 3)) * 0.3 + np.where(group, 2.0, -2.0)[:, None] * [1, 1, 0]
    counts = np.full((2, 2), 30)
    level = Level(values, group.astype(int), node, np.array([0, 60]), counts, 1)
    weights, threshold = CLASSIFIERS[name](GroupedLevel.of(level, group), rng)
    for one in (0, 1):
        right = values[node == one] @ weights[one] > threshold[one]
        wrong = (right != group[node == one]).mean()
        assert min(wrong, 1 - wrong) == 0


def test_least_squares_is_ridge_regression():
    level = a_level(5, nodes=1, k=2, least=40, most=41)
    group = level.labels == 1
    problems = GroupedLevel.of(level, group)
    weights, threshold = CLASSIFIERS["least_squares"](problems, np.random.default_rng(0))
    model = Ridge(alpha=1.0).fit(level.values, np.where(group, 1.0, -1.0))
    assert weights[0] == pytest.approx(model.coef_)
    assert threshold[0] == pytest.approx(-model.intercept_)


def test_equal_seeds_give_equal_trees():
    X, y = load_iris(return_X_y=True)
    one, two, other = (ObliqueTrees(3, "lda").grow(X, y, 3, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.threshold, two.threshold)
    assert not np.array_equal(one.counts, other.counts)


def test_nodes_draw_as_many_attributes_as_they_are_told():
    X, y = load_iris(return_X_y=True)
    widths = [
        ObliqueTrees(2, "pca", max_features=m).grow(X, y, 3, 0).attributes.shape[1]
        for m in ("sqrt", 1, 3, 9)
    ]
    assert widths == [2, 1, 3, 4]


def test_a_large_ridge_leads_to_the_axis_that_is_far_from_the_others():
    """As the ridge grows, the plane maximises ``wᵀ others w`` alone."""
    own, others = np.diag([0.0, 1.0, 1.0]), np.diag([1.0, 9.0, 1.0])
    small, large = (
        abs(_nearest_plane(own[None], others[None], "tikhonov", r)[0]) for r in (1e-6, 1e3)
    )
    assert small == pytest.approx([1, 0, 0], abs=1e-3)
    assert large == pytest.approx([0, 1, 0], abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_trees": 0}, "n_trees=0"),
        ({"split": "cca"}, "split='cca': expected one of 'axis', 'pca'"),
        ({"min_points": 0}, "min_points=0"),
        ({"max_features": 0}, "max_features=0"),
        ({"ridge": 0.0}, "ridge=0.0"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        ObliqueTrees(**arguments)
