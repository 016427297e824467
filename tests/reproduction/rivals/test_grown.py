"""Forests that papers compare with: leaves count their own points, and threads change nothing."""

import numpy as np
import pytest
from rivals.bernoulli import BernoulliAttributes, BernoulliCut, BernoulliTrees
from rivals.breiman import BreimanVariants
from rivals.denil import DenilTrees, PoissonAttributes
from scipy import stats

from mrf_matrix.domain import Domain

SIZES = (5, 3, 7, 2)
SOURCES = [
    BreimanVariants(12, variant="SE", nominal=("x1",)),
    BreimanVariants(12, variant="M", criterion="entropy"),
    DenilTrees(12),
    DenilTrees(12, mean_features=1.0, range_points=20, nominal=(2,)),
    BernoulliTrees(12, p_attribute=0.5, p_cut=0.5),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 400) for size in SIZES], axis=1)
    labels = (codes[:, 0] + codes[:, 2] + rng.integers(0, 4, 400)) // 5
    return Domain.from_sizes(SIZES, int(labels.max()) + 1), codes, labels


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_leaf_counts_are_those_of_the_estimation_points(source, data):
    domain, codes, labels = data
    grown = source.grow(domain, codes, labels, random_state=5)
    generator = np.random.default_rng(5).spawn(1)[0]
    _, (tree, record) = source.growth.points.draw(len(codes), source.n_trees, generator)
    record = np.argsort(labels, kind="stable")[record]  # the engine's order of records
    leaves = grown.forest.apply(codes)[record, tree]
    k = domain.n_classes
    expected = np.bincount(leaves * k + labels[record], minlength=grown.forest.n_leaves * k)
    np.testing.assert_array_equal(grown.leaf_counts, expected.reshape(-1, k))
    if source.growth.stopping.rule == "sides":
        assert grown.leaf_counts.sum(axis=1).min() >= source.min_points


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_equal_seeds_give_equal_forests(source, data):
    one, two = (source.grow(*data, 3, n_jobs=jobs).forest for jobs in (1, 2))
    assert one == two
    assert one != source.grow(*data, 4).forest


@pytest.mark.parametrize("attributes", [BernoulliAttributes(0.25), PoissonAttributes(2.0)])
def test_attributes_are_drawn_evenly_and_once(attributes):
    drawn = attributes.draw(20_000, 9, np.random.default_rng(0))
    for column in drawn.T[:200]:
        kept = column[column >= 0]
        assert len(set(kept.tolist())) == len(kept)
    assert stats.chisquare(np.bincount(drawn[drawn >= 0], minlength=9)).pvalue > 1e-4


def test_bernoulli_counts_and_cuts():
    rng = np.random.default_rng(0)
    few = (BernoulliAttributes(0.25, 4).draw(40_000, 9, rng) >= 0).sum(axis=0) == 1
    assert stats.binomtest(int(few.sum()), 40_000, 0.25).pvalue > 1e-4
    b1, b2 = BernoulliCut(0.1).sharpness(40_000, rng)
    assert (b1 == b2).all()
    assert set(np.unique(b1)) == {0.0, np.inf}
    assert stats.binomtest(int((b1 == 0).sum()), 40_000, 0.1).pvalue > 1e-4


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BreimanVariants(variant="X"), "variant='X'"),
        (lambda: BernoulliTrees(p_cut=1.5), "probability=1.5"),
        (lambda: DenilTrees(range_points=1), "range_points=1"),
    ],
)
def test_parameters_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
