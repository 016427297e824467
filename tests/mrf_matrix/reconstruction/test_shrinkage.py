"""Leaves shrunk toward their ancestors, against a recursion over nodes and simulations."""

from math import inf

import numpy as np
import pytest

from mrf_matrix.compilation import leaf_counts, path_matrix, prediction_workload, query_matrix
from mrf_matrix.datasets import load_dataset
from mrf_matrix.domain import Domain
from mrf_matrix.forests import PureTrees, RandomTrees
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure
from mrf_matrix.reconstruction import combine, shrink_leaves, vote_noise_share
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


def car_accuracy(strategy, epsilon, draws=2):
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
    """Where the majority class is .70."""
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
