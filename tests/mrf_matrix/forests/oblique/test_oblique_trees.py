"""Trees of hyperplanes: every step against brute force, and nodes that have no plane."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg
from sklearn.datasets import load_iris

from mrf_matrix.forests.oblique import ObliqueTrees, oblique_trees
from mrf_matrix.forests.oblique.axis_cuts import Level, best_threshold
from mrf_matrix.forests.oblique.hyperclasses import class_distances, hyperclasses
from mrf_matrix.forests.oblique.moments import ClassMoments
from mrf_matrix.forests.oblique.oblique_trees import CUTS
from mrf_matrix.forests.oblique.projections import projected_cuts
from mrf_matrix.forests.oblique.proximal_planes import _nearest_plane


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


@settings(max_examples=40)
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


def test_equal_seeds_give_equal_trees():
    X, y = load_iris(return_X_y=True)
    one, two, other = (ObliqueTrees(3, "lda").grow(X, y, 3, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.threshold, two.threshold)
    assert not np.array_equal(one.counts, other.counts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_trees": 0}, "n_trees=0"),
        ({"split": "cca"}, "split='cca': expected one of 'axis', 'pca'"),
        ({"min_points": 0}, "min_points=0"),
    ],
)
def test_bad_parameters(arguments, message):
    with pytest.raises(ValueError, match=message):
        ObliqueTrees(**arguments)
