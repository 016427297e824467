"""A tree beside tables of residuals: the pool's formula, its terms, and what noise leaves of it."""

from math import exp, log, prod

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from mrf_matrix.forests.learned.label_tree import CellTable
from mrf_matrix.posterior import (
    CellShares,
    LabelPosterior,
    PooledPosterior,
    ResidualPosterior,
    SeveralPosterior,
)
from mrf_matrix.posterior.effects import constant, contributions, terms
from mrf_matrix.posterior.pooled import WEIGHTS_BESIDE_RESIDUALS, ResidualEvidence
from mrf_matrix.posterior.residuals.block import EffectBlock

SIZES = (2, 3, 2)
CODES = np.stack(np.unravel_index(np.arange(prod(SIZES)), SIZES), axis=1)
OF_TREE, OF_TABLES = 0.5, 0.9
PAIRS = {2: [(1, 0), (0, 1)], 3: [(0, 1), (2, 0), (1, 2)]}
CASES = [(k, pair) for k, pairs in PAIRS.items() for pair in pairs]


def column_of(seed):
    """Return a sum of tables of single attributes and of a pair."""
    rng, blocks = np.random.default_rng(seed), []
    for attributes in ((0,), (1,), (0, 2)):
        n = prod(SIZES[i] for i in attributes)
        root = rng.normal(size=(n, n))
        fans = tuple(SIZES[i] for i in attributes)
        blocks.append(EffectBlock(attributes, fans, (), rng.normal(size=n), root @ root.T))
    margins = tuple(rng.dirichlet(np.ones(n)) for n in SIZES)
    return ResidualPosterior(rng.normal(), rng.normal(), tuple(blocks), margins)


def tables_of(k):
    if k == 2:
        return column_of(0)
    return SeveralPosterior(tuple(column_of(seed) for seed in range(k)))


def tree_of(k, attributes=(0, 1)):
    rng = np.random.default_rng(9)
    places = tuple({2: np.array([0, 1]), 3: np.array([1, 0, 1])}[SIZES[i]] for i in attributes)
    shape = (2,) * len(attributes)
    evidence = tuple(
        CellShares(rng.dirichlet(np.full(k, 0.8), size=9), rng.dirichlet(np.ones(9)))
        for _ in range(prod(shape))
    )
    table = CellTable(attributes, places, np.arange(prod(shape)).reshape(shape))
    return LabelPosterior(table, evidence)


def shares_of(k):
    """Return the class shares that totals tell: of two classes the log odds of the second."""
    bases = [0.0, column_of(0).base] if k == 2 else [column_of(seed).base for seed in range(k)]
    return [exp(one) / sum(map(exp, bases)) for one in bases]


@pytest.mark.parametrize("k", PAIRS)
def test_probabilities_are_the_pool_of_both_parts(k):
    tree, tables = tree_of(k), tables_of(k)
    pool = PooledPosterior.of(tree, tables)
    of_tree, of_tables = tree.probabilities(CODES), tables.probabilities(CODES)
    raw = np.array(
        [
            [
                exp(log(s) + OF_TREE * (log(p) - log(s)) + OF_TABLES * (log(q) - log(s)))
                for s, p, q in zip(shares_of(k), *both, strict=True)
            ]
            for both in zip(of_tree, of_tables, strict=True)
        ]
    )
    expected = raw / raw.sum(axis=1, keepdims=True)
    found = pool.probabilities(CODES)
    assert_allclose(found, expected, rtol=1e-10)
    odds = np.exp(pool.log_odds(CODES))  # nothing is averaged: means of effects are all there is
    assert_allclose(odds / odds.sum(axis=1, keepdims=True), expected, rtol=1e-10)
    assert pool.weights == WEIGHTS_BESIDE_RESIDUALS == (OF_TREE, OF_TABLES)
    for other in (of_tree, of_tables):
        assert np.abs(found - other).max() > 0.02, "the case tells the pool from either part"


@pytest.mark.parametrize("k", PAIRS)
def test_evidence_says_what_the_residual_forest_says(k):
    tables = tables_of(k)
    evidence = ResidualEvidence(tables)
    assert_allclose(np.exp(evidence.log_shares), shares_of(k))
    shares = np.exp(evidence.log_odds(CODES))
    assert_allclose(
        shares / shares.sum(axis=1, keepdims=True), tables.probabilities(CODES), rtol=1e-10
    )
    first, ahead, variances = tables.leading(CODES)
    logs = np.sort(evidence.log_odds(CODES), axis=1)
    assert_allclose(ahead, logs[:, -1] - logs[:, -2])
    second = np.argsort(evidence.log_odds(CODES), axis=1)[:, -2]
    for pair in ((first, second), (second, first)):
        for side in evidence.margin_widths(CODES, *pair, 0.9):
            assert_allclose(side, norm.ppf(0.95) * np.sqrt(variances))


@pytest.mark.parametrize("attributes", [(0, 1), (0, 2), (1,)], ids=["apart", "a pair", "single"])
@pytest.mark.parametrize(("k", "pair"), CASES)
def test_terms_and_the_constant_add_up_to_the_log_odds(k, pair, attributes):
    pool, (one, other) = PooledPosterior.of(tree_of(k, attributes), tables_of(k)), pair
    found, logs = terms(pool, one, other), pool.log_odds(CODES)
    added = contributions(found, CODES).sum(axis=1) + constant(pool, one, other)
    assert_allclose(added, logs[:, one] - logs[:, other], atol=1e-10)
    names = [term.attributes for term in found]
    assert len(set(names)) == len(names) == 4 - (attributes in ((0, 2), (1,)))


@pytest.mark.parametrize(("k", "pair"), CASES)
def test_widths_are_those_of_both_parts_as_they_weigh(k, pair):
    tree, tables, (one, other) = tree_of(k), tables_of(k), pair
    columns = [column_of(0)] if k == 2 else [column_of(c) for c in pair]
    of_tables = norm.ppf(0.9) * np.sqrt(sum(column.variances(CODES) for column in columns))
    cells = tree.cells_at(CODES)
    of_tree = np.array([tree.evidence[cell].odds_widths(one, other, 0.8) for cell in cells]).T
    full = [np.full(len(CODES), c) for c in pair]
    found = PooledPosterior.of(tree, tables).margin_widths(CODES, *full, 0.8)
    for side, own in zip(found, of_tree, strict=True):
        assert_allclose(side, np.sqrt((OF_TREE * own) ** 2 + (OF_TABLES * of_tables) ** 2))
    assert np.abs(found[0] - found[1]).max() > 1e-3, "the case tells the sides apart"
