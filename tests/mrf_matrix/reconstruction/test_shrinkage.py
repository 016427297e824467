"""Leaves shrunk toward their ancestors, against a recursion over nodes and simulations."""

from math import inf

import numpy as np
import pytest

from mrf_matrix.compilation import leaf_counts, path_matrix, prediction_workload, query_matrix
from mrf_matrix.datasets import load_dataset
from mrf_matrix.domain import Domain
from mrf_matrix.forests import PureTrees, RandomTrees
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure
from mrf_matrix.reconstruction import (
    combine,
    project_to_simplex,
    shrink_leaves,
    vote_noise_share,
)
from mrf_matrix.reconstruction.shrinkage import (
    _own_noise,
    answers_from_leaves,
    answers_from_releases,
    leaf_sums,
    node_matrix,
    parts_of_parents,
)
from strategies.operators import Identity, RowKronecker, RowSpaceError, Scaled, Stack

SIZES = (3, 4, 2)
DOMAIN = Domain.from_sizes(SIZES)
FORESTS = {
    "multiway": RandomTrees(n_trees=5, max_depth=2).grow(DOMAIN, random_state=0),
    "binary": RandomTrees(n_trees=4, max_depth=3, splits="binary").grow(DOMAIN, random_state=1),
    "pure": PureTrees(n_trees=3, n_leaves=6).grow(DOMAIN, random_state=2),
    "stump": RandomTrees(n_trees=1, max_depth=1, attributes=[1]).grow(DOMAIN),
}
RNG = np.random.default_rng(0)
CODES = np.stack([RNG.integers(0, size, 200) for size in SIZES], axis=1)
LABELS = np.where(RNG.random(200) < 0.8, CODES[:, 0], RNG.integers(0, 3, 200))
COUNTS = count_cells(CODES, LABELS, SIZES, 3)
CELLS = Identity(24, SIZES)
EVERYTHING = RowKronecker.from_masks([np.ones((1, size), dtype=bool) for size in SIZES])
WITH_TOTALS = Stack([Scaled(4, CELLS), EVERYTHING])


def draw(strategy, epsilon=0.5, seed=0, counts=COUNTS):
    return measure(strategy, counts, PureDP(epsilon), noise="research", random_state=seed)


def leaves_below(forest, node):
    """Return the leaves below a node by walking."""
    if forest.attribute[node] < 0:
        return [int(forest.leaf_index[node])]
    first = forest.first_child[node]
    children = range(first, first + forest.n_children[node])
    return [leaf for child in children for leaf in leaves_below(forest, child)]


@pytest.mark.parametrize("name", FORESTS)
def test_nodes_are_their_leaves_together(name):
    forest = FORESTS[name]
    paths = path_matrix(forest).to_dense()
    expected = np.stack([paths[leaves_below(forest, v)].sum(axis=0) for v in range(forest.n_nodes)])
    assert np.array_equal(node_matrix(forest).to_dense(), expected)
    assert np.array_equal(leaf_sums(forest) @ paths, expected)
    cells = expected.sum(axis=1)
    above = np.where(forest.parent < 0, cells, cells[np.maximum(forest.parent, 0)])
    assert parts_of_parents(forest) == pytest.approx(cells / above)


@pytest.mark.parametrize("name", FORESTS)
def test_node_answers_carry_exact_variances(name):
    forest, release = FORESTS[name], draw(WITH_TOTALS)
    found = answers_from_releases(forest, release)
    inverse = np.linalg.pinv(WITH_TOTALS.to_dense())
    recovered = node_matrix(forest).to_dense() @ inverse
    assert found.counts == pytest.approx(recovered @ release.answers)
    assert found.variances == pytest.approx(release.variance * (recovered**2).sum(axis=1))
    direct = answers_from_leaves(forest, found.counts[forest.leaves], 2.0)
    assert direct.counts == pytest.approx(found.counts)
    assert direct.variances == pytest.approx(2.0 * np.diff(leaf_sums(forest).indptr))


def recursion(forest, nodes, noise_share=1.0, sampling=False):
    """Compute the same by loops over nodes, straight from the formulas of the module."""
    count, k = forest.n_nodes, nodes.counts.shape[1]
    totals, shares = np.zeros(count), np.zeros((count, k))
    heavy, light = np.ones(count), np.zeros(count)

    def noise_beyond(v, factor):
        up = forest.parent[v]
        first = forest.first_child[up]
        siblings = nodes.variances[first : first + forest.n_children[up]].sum()
        shared = nodes.variances[v] * nodes.variances[up] / siblings if siblings else 0.0
        return nodes.variances[v] - 2 * factor * shared + factor**2 * nodes.variances[up]

    for level in forest.levels:
        if level[0] in forest.roots:
            totals[level] = np.maximum(nodes.counts[level].sum(axis=1), 0)
            continue
        rest, noise, spread = {}, {}, {}
        for v in level:
            up, q = forest.parent[v], nodes.parts[v]
            rest[v] = nodes.counts[v].sum() - q * totals[up]
            noise[v] = k * noise_beyond(v, q * heavy[up])
            spread[v] = totals[up] ** 2 * q * (1 - q)
        scale = sum(spread.values())
        signal = max(0, sum(rest[v] ** 2 - noise[v] for v in level) / scale) if scale else 0
        for v in level:
            strong, weak = signal * spread[v], noise_share * noise[v]
            heavy[v] = strong / (strong + weak) if weak > 0 else 1
            totals[v] = max(0, nodes.parts[v] * totals[forest.parent[v]] + heavy[v] * rest[v])
        for up in np.unique(forest.parent[level]):
            below = np.arange(
                forest.first_child[up], forest.first_child[up] + forest.n_children[up]
            )
            known = totals[below].sum()
            given = totals[up]
            totals[below] = totals[below] * given / known if known else nodes.parts[below] * given
    for level in forest.levels:
        rest, noise, base = {}, {}, {}
        for v in level:
            up = forest.parent[v]
            base[v] = np.full(k, 1 / k) if up < 0 else shares[up]
            rest[v] = nodes.counts[v] - nodes.counts[v].sum() * base[v]
            part = totals[v] / totals[up] if up >= 0 and totals[up] else 0
            own = nodes.variances[v] if up < 0 else noise_beyond(v, part * light[up])
            # variance of (ε - p Σε)_c is 1 - 2p + kp²: its mean over classes
            noise[v] = own * np.mean([1 - 2 * p + k * p * p for p in base[v]])
            if sampling:
                noise[v] += totals[v] * np.mean(base[v] * (1 - base[v]))
        excess = sum(np.mean(rest[v] ** 2) - noise[v] for v in level)
        scale = sum(totals[v] ** 2 for v in level)
        signal = min(max(0, excess / scale), 1) if scale else 0
        for v in level:
            strong, weak = signal * totals[v] ** 2, noise_share * noise[v]
            light[v] = strong / (strong + weak) if weak > 0 else 1
            moved = light[v] * rest[v] / totals[v] if totals[v] else 0
            shares[v] = project_to_simplex(base[v] + moved)
    return totals[:, None] * shares, shares, light


@pytest.mark.parametrize("sampling", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.3])
@pytest.mark.parametrize("name", FORESTS)
def test_against_the_recursion(name, share, sampling):
    forest = FORESTS[name]
    for seed, epsilon in enumerate((0.2, 1, 3)):
        release = draw(WITH_TOTALS, epsilon, seed)
        values, shares, weights = recursion(
            forest, answers_from_releases(forest, release), share, sampling
        )
        found = shrink_leaves(forest, release, noise_share=share, sampling_variance=sampling)
        assert found.values == pytest.approx(values[forest.leaves], abs=1e-7)
        assert found.shares == pytest.approx(shares[forest.leaves], abs=1e-9)
        assert found.weights == pytest.approx(weights, abs=1e-9)
        assert found.expected_error is None
        assert "depends on the data" in found.note


@pytest.mark.parametrize("name", FORESTS)
def test_without_noise_the_leaf_counts_come_back(name):
    forest = FORESTS[name]
    release = measure(CELLS, COUNTS, PureDP(inf))
    counts = leaf_counts(forest, CODES, LABELS, 3)
    found = shrink_leaves(forest, release)
    assert np.array_equal(found.values, counts)
    assert np.array_equal(found.weights, np.ones(forest.n_nodes))
    faint = shrink_leaves(forest, leaf_values=counts, leaf_variances=1e-9)
    assert faint.values == pytest.approx(counts, abs=1e-3)  # and continuously so
    sampled = shrink_leaves(forest, release, sampling_variance=True)
    assert not np.allclose(sampled.values, counts)
    assert sampled.weights[forest.leaves].max() < 1


@pytest.mark.parametrize("name", FORESTS)
def test_shares_and_totals_are_proper(name):
    forest = FORESTS[name]
    found = shrink_leaves(forest, draw(CELLS, 0.1))
    assert found.shares.min() >= 0
    assert found.shares.sum(axis=1) == pytest.approx(1)
    assert found.values.min() >= 0
    trees = np.bincount(forest.leaf_tree, found.values.sum(axis=1))
    assert trees == pytest.approx(np.full(forest.n_trees, max(draw(CELLS, 0.1).answers.sum(), 0)))
    assert found.weights.min() >= 0
    assert found.weights.max() <= 1


def test_classes_have_no_order():
    forest, release = FORESTS["multiway"], draw(CELLS)
    values = combine(release, path_matrix(forest)).values
    plain = shrink_leaves(forest, leaf_values=values, leaf_variances=9)
    turned = shrink_leaves(forest, leaf_values=values[:, [2, 0, 1]], leaf_variances=9)
    assert turned.values == pytest.approx(plain.values[:, [2, 0, 1]])


def test_the_noise_of_a_child_beyond_its_parent_is_exact():
    """Independent leaves of unequal variances under one root: by simulation and by algebra."""
    forest = FORESTS["stump"]
    variances = np.array([1.0, 4.0, 9.0, 2.0])
    nodes = answers_from_leaves(forest, np.zeros((4, 1)), variances)
    level = forest.levels[1]
    part, weight = np.array([0.1, 0.4, 0.3, 0.2]), np.full(4, 0.7)
    found = _own_noise(forest, nodes.variances, level, part, weight)
    noise = np.random.default_rng(0).normal(size=(20000, 4)) * np.sqrt(variances)
    rest = noise - part * weight * noise.sum(axis=1, keepdims=True)
    assert found == pytest.approx(rest.var(axis=0), rel=0.05)
    assert found != pytest.approx(variances, rel=0.05)  # negative control: noise not shared


def pure_signal(spread, noise, seed=0, leaves=400):
    """Return a stump over many codes whose leaf shares lie a known distance from the root's."""
    generator = np.random.default_rng(seed)
    forest = RandomTrees(n_trees=1, max_depth=1).grow(Domain.from_sizes([leaves]))
    away = spread * generator.choice([-1.0, 1.0], leaves)
    counts = 100 * np.stack([0.5 + away, 0.5 - away], axis=1)
    noisy = counts + generator.normal(scale=noise, size=counts.shape)
    return counts, noisy, shrink_leaves(forest, leaf_values=noisy, leaf_variances=noise**2)


def test_the_signal_is_found():
    _, _, found = pure_signal(0.1, 10.0)
    assert found.signals[1] == pytest.approx(0.1, rel=0.15)
    weight = 0.01 * 1e4 / (0.01 * 1e4 + 100 / 2)  # noise of r at equal shares is s²/2
    assert found.weights[1:].mean() == pytest.approx(weight, rel=0.1)


def test_without_signal_leaves_fall_on_their_parent():
    spans = [np.ptp(pure_signal(0.0, 10.0, seed)[2].shares, axis=0).max() for seed in range(20)]
    assert np.median(spans) < 0.06
    assert np.ptp(pure_signal(0.1, 10.0)[2].shares, axis=0).max() > 0.15  # negative control


def test_the_error_is_below_least_squares():
    for spread in (0.0, 0.05, 0.1):
        for seed in range(5):
            counts, noisy, found = pure_signal(spread, 10.0, seed)
            assert np.square(found.values - counts).mean() < 0.8 * np.square(noisy - counts).mean()
    # much signal in the shares and none in the numbers of records, which have half of the noise
    counts, noisy, found = pure_signal(0.4, 1.0)
    ratio = np.square(found.values - counts).mean() / np.square(noisy - counts).mean()
    assert 0.45 < ratio < 0.55


def test_public_totals_and_priors():
    forest = FORESTS["multiway"]
    totals = np.bincount(LABELS, minlength=3)
    found = shrink_leaves(forest, draw(CELLS, 0.3), class_totals=totals)
    assert found.weights[forest.roots] == pytest.approx(1)
    assert found.values.sum() == pytest.approx(forest.n_trees * 200)
    prior = shrink_leaves(
        forest, leaf_values=np.zeros((forest.n_leaves, 3)), leaf_variances=1, prior=[0.5, 0.5, 0]
    )
    assert prior.shares == pytest.approx(np.tile([0.5, 0.5, 0], (forest.n_leaves, 1)))


def test_several_releases_and_gaussian_noise():
    forest = FORESTS["multiway"]
    gaussian = measure(CELLS, COUNTS, ZCDP(0.1), noise="research", random_state=0)
    alone = shrink_leaves(forest, gaussian)
    both = shrink_leaves(forest, [gaussian, draw(EVERYTHING, 1)])
    assert both.weights[forest.roots].min() > alone.weights[forest.roots].min()


def test_what_is_left_of_the_noise_in_votes():
    forest = FORESTS["multiway"]
    cells = np.stack(np.unravel_index(np.arange(24), SIZES), axis=1)
    release = draw(WITH_TOTALS)
    inverse = np.linalg.pinv(WITH_TOTALS.to_dense())
    votes = prediction_workload(path_matrix(forest), query_matrix(cells, SIZES)).to_dense()
    leaves = path_matrix(forest).to_dense()
    above = np.square(votes @ inverse).sum(axis=1).mean() / forest.n_trees**2
    below = np.square(leaves @ inverse).sum(axis=1)[forest.apply(cells)].mean()
    found = vote_noise_share(forest, release, n_cells=4000)
    assert found == pytest.approx(above / below, rel=0.05)
    assert 1 / forest.n_trees < found < 1
    assert vote_noise_share(FORESTS["stump"], release) == 1
    again = draw(WITH_TOTALS, seed=9)
    assert vote_noise_share(forest, again) == vote_noise_share(forest, release)


def car_accuracy(strategy, epsilon, draws=3):
    """Return mean accuracies of weight voting with leaf values of least squares, and shrunk."""
    car = load_dataset("car")
    forest = RandomTrees(n_trees=16, max_depth=3).grow(car.domain, random_state=0)
    paths, sizes = path_matrix(forest), car.domain.sizes
    generator = np.random.default_rng(0)
    found = []
    for seed in range(draws):
        order = generator.permutation(len(car.labels))
        train, test = order[:970], order[970:]
        counts = count_cells(car.codes[train], car.labels[train], sizes, 4)
        release = measure(
            strategy(sizes), counts, PureDP(epsilon), noise="research", random_state=seed
        )
        leaves = forest.apply(car.codes[test])
        values = combine(release, paths).values, shrink_leaves(forest, release).values
        labels = [value[leaves].sum(axis=1).argmax(axis=1) for value in values]
        found.append([np.mean(label == car.labels[test]) for label in labels])
    return np.mean(found, axis=0)


def test_car_with_a_fifth_on_class_totals():
    """FINDINGS: .30 to .71 at ε = .1; majority class .70."""
    everything = [np.ones((1, size), dtype=bool) for size in (4, 4, 4, 3, 3, 3)]

    def strategy(sizes):
        return Stack([Scaled(4, Identity(1728, sizes)), RowKronecker.from_masks(everything)])

    plain, shrunk = car_accuracy(strategy, 0.1)
    assert plain < 0.5
    assert shrunk > 0.65


def test_car_with_the_identity_alone():
    plain, shrunk = car_accuracy(lambda sizes: Identity(1728, sizes), 0.5)
    assert shrunk > 0.65
    assert shrunk > plain


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({}, ValueError, "either releases"),
        ({"leaf_values": np.ones((4, 2))}, ValueError, "either releases"),
        ({"leaf_values": np.ones((3, 2)), "leaf_variances": 1}, ValueError, "leaf_values"),
        ({"leaf_values": np.ones((4, 2)), "leaf_variances": -1}, ValueError, "leaf_variances"),
        (
            {"leaf_values": np.ones((4, 2)), "leaf_variances": 1, "class_totals": [1, 1]},
            ValueError,
            "class_totals",
        ),
        (
            {"leaf_values": np.ones((4, 2)), "leaf_variances": 1, "prior": [1, 1]},
            ValueError,
            "prior",
        ),
        (
            {"leaf_values": np.ones((4, 2)), "leaf_variances": 1, "noise_share": 2},
            ValueError,
            "noise_share",
        ),
        (
            {"leaf_values": np.ones((4, 2)), "leaf_variances": 1, "noise_share": "all"},
            ValueError,
            "noise_share='all': expected a number",
        ),
        ({"releases": draw(EVERYTHING)}, RowSpaceError, "determine"),
    ],
)
def test_refusals(arguments, error, match):
    with pytest.raises(error, match=match):
        shrink_leaves(FORESTS["stump"], **arguments)
    with pytest.raises(TypeError, match="expected a Forest"):
        shrink_leaves("forest", draw(CELLS))
    with pytest.raises(ValueError, match="n_cells"):
        vote_noise_share(FORESTS["stump"], draw(CELLS), n_cells=0)
