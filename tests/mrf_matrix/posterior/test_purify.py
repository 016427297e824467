"""Tables of several attributes hand their margins over; log odds stay what they were."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix.posterior import ResidualPosterior
from mrf_matrix.posterior.residuals.block import EffectBlock
from mrf_matrix.posterior.residuals.class_shares import additive_shares
from mrf_matrix.posterior.residuals.posterior import purify

SIZES = (2, 3, 2, 4)
CODES = np.stack(np.unravel_index(np.arange(prod(SIZES)), SIZES), axis=1)


def posterior_of(seed, orders):
    """Return a sum of tables of every set of so many attributes."""
    rng, blocks = np.random.default_rng(seed), []
    for attributes in (one for order in orders for one in combinations(range(4), order)):
        fans = tuple(SIZES[i] for i in attributes)
        root = rng.normal(size=(prod(fans), prod(fans)))
        blocks.append(EffectBlock(attributes, fans, (), rng.normal(size=len(root)), root @ root.T))
    margins = tuple(rng.dirichlet(np.ones(size)) for size in SIZES)
    return ResidualPosterior(rng.normal(), rng.normal(), tuple(blocks), margins)


@pytest.mark.parametrize("orders", [(1,), (1, 2), (1, 2, 3)])
def test_log_odds_are_identical_and_margins_are_handed_over(orders):
    before = posterior_of(0, orders)
    after = purify(before)
    assert_allclose(after.log_odds(CODES), before.log_odds(CODES), rtol=1e-12, atol=1e-12)
    for block in after.blocks:
        if len(block.attributes) > 1:
            table = block.mean.reshape(block.sizes)
            own = [after.margins[i] for i in block.attributes]
            for axis in range(table.ndim):
                means = np.moveaxis(table, axis, 0)
                for j in reversed([j for j in range(table.ndim) if j != axis]):
                    means = means @ own[j]
                assert_allclose(means, 0, atol=1e-12)


def test_variances_are_those_of_the_parts():
    """Every part is a linear map of the table: the covariance of what it says is mapped too."""
    before = posterior_of(1, (1, 2))
    after = purify(before)
    for one, other in zip(before.blocks, after.blocks, strict=True):
        assert_allclose(other.covariance, other.covariance.T)
        assert np.linalg.eigvalsh(other.covariance).min() > -1e-9
        if len(one.attributes) == 1:
            assert np.linalg.eigvalsh(other.covariance - one.covariance).min() > -1e-9


def test_what_holds_no_pairs_and_what_is_pure_stay():
    alone = posterior_of(2, (1,))
    assert purify(alone).shift == alone.shift
    once = purify(posterior_of(3, (1, 2)))
    again = purify(once)
    for one, other in zip(once.blocks, again.blocks, strict=True):
        assert_allclose(one.mean, other.mean, atol=1e-12)


def test_shares_of_cells_agree_with_those_of_codes_and_have_no_interaction():
    rng = np.random.default_rng(4)
    counts = rng.gamma(2, size=(3, 4, 2))
    log_odds = sum(
        np.expand_dims(rng.normal(size=n), tuple(j for j in range(3) if j != axis))
        for axis, n in enumerate(counts.shape)
    )
    shares = 1 / (1 + np.exp(2 - log_odds))
    axes = [tuple(j for j in range(3) if j != axis) for axis in range(3)]
    told = [(counts * shares).sum(axis=rest) / counts.sum(axis=rest) for rest in axes]
    assert_allclose(additive_shares(told, counts), shares, atol=5e-3)
