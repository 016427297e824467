"""Terms of a posterior: they add up to its log odds, and their deviations to its margins'."""

from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix.posterior import BlockTable, product_posterior
from mrf_matrix.posterior.effects import constant, contributions, terms

SIZES, K = (2, 3, 2), 3


def posterior_of(blocks, seed=0, sigma=1.5):
    rng = np.random.default_rng(seed)
    tables = []
    for block in blocks:
        fans = tuple(SIZES[i] for i in block)
        values = 80 * rng.dirichlet(np.ones(prod(fans)), size=K).T + rng.normal(
            0, sigma, (prod(fans), K)
        )
        tables.append(BlockTable(tuple(block), fans, values, sigma**2))
    return product_posterior(tables, [False] * 3)


CODES = np.stack(np.unravel_index(np.arange(prod(SIZES)), SIZES), axis=1)


@pytest.mark.parametrize("blocks", [[(0,), (1,), (2,)], [(0, 1), (2,)], [(0, 1, 2)]])
@pytest.mark.parametrize("pair", [(0, 1), (2, 0), (1, 2)])
def test_terms_add_up_to_the_log_odds(blocks, pair):
    posterior = posterior_of(blocks)
    one, other = pair
    logs = posterior.log_odds(CODES)
    added = contributions(terms(posterior, one, other), CODES).sum(axis=1)
    assert_allclose(added + constant(posterior, one, other), logs[:, one] - logs[:, other])


@pytest.mark.parametrize("pair", [(0, 1), (2, 0)])
def test_deviations_of_single_blocks_are_those_of_margins(pair):
    posterior = posterior_of([(0,), (1,), (2,)])
    one, other = pair
    relative = posterior.totals.error / posterior.totals.values
    expected = relative[one] ** 2 + relative[other] ** 2
    for term in terms(posterior, one, other):
        expected = expected + term.deviations[CODES[:, term.attributes[0]]] ** 2
    full = np.full(len(CODES), one), np.full(len(CODES), other)
    assert_allclose(posterior.margin_variances(CODES, *full), expected)


def test_deviations_within_a_block_by_finite_differences():
    posterior = posterior_of([(0, 1), (2,)])
    (model, _), (fit, _) = posterior.models, posterior.fits
    base = np.concatenate([fit.common, fit.class_terms.ravel()])
    found = terms(posterior, 2, 0)[1]  # the second attribute of the first block
    for code in range(3):

        def odds(values, code=code):
            common, rest = values[:5][2:5], values[5:].reshape(K, 6)[:, 2:5]
            logs = common + rest
            logs = logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))
            return logs[2, code] - logs[0, code]

        slopes = [
            (odds(base + step) - odds(base - step)) / 2e-5 for step in 1e-5 * np.eye(len(base))
        ]
        own = np.r_[0:5, 5 + 12 : 5 + 17, 5:10]  # common, effects of class 2, of class 0
        used = np.asarray(slopes)[own]
        variance = posterior.trust**2 * used @ fit.covariance.of_two(2, 0) @ used
        assert_allclose(found.deviations[code] ** 2, variance, rtol=1e-6)
    assert model.table.attributes == (0, 1)


def test_shares_sum_to_one_and_sizes_are_of_what_varies():
    for term in terms(posterior_of([(0, 1), (2,)]), 0, 1):
        assert_allclose(term.shares.sum(), 1)
        spread = np.sqrt(
            np.average(
                (term.log_odds - np.average(term.log_odds, weights=term.shares)) ** 2,
                weights=term.shares,
            )
        )
        assert_allclose(term.size, spread)


def test_one_class_against_itself_is_refused():
    with pytest.raises(ValueError, match="different"):
        terms(posterior_of([(0,), (1,), (2,)]), 1, 1)
