"""The pool of a tree and tables: its formula, and terms that add up to what it says."""

from itertools import combinations, product
from math import exp, log, pi, prod, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from scipy.stats import norm

from mrf_matrix.forests.label_tree import CellTable, Cut, LabelTree
from mrf_matrix.kinds.tables import ADDITIVE
from mrf_matrix.labels.posterior import label_evidence
from mrf_matrix.posterior import (
    BlockTable,
    CellShares,
    LabelPosterior,
    PooledPosterior,
    ResidualPosterior,
    Score,
    product_posterior,
)
from mrf_matrix.posterior import effects as averages
from mrf_matrix.posterior.effects import average_effect, constant, contributions, terms
from mrf_matrix.posterior.label_posterior import WEIGHTS_BESIDE_RESIDUALS
from mrf_matrix.posterior.residual_blocks import EffectBlock
from strategies.operators import MemoryCapError, memory_cap

SIZES = (2, 3, 2)
CODES = np.stack(np.unravel_index(np.arange(prod(SIZES)), SIZES), axis=1)
WEIGHT = 0.7
PAIRS = {2: [(1, 0), (0, 1)], 3: [(0, 1), (2, 0), (1, 2)]}
CASES = [(k, pair) for k, pairs in PAIRS.items() for pair in pairs]


def tables_of(blocks, k, seed=0, sigma=6.0):
    rng = np.random.default_rng(seed)
    sizes_of_classes, made = 120 * rng.dirichlet(np.full(k, 3.0)), []
    for block in blocks:
        fans = tuple(SIZES[i] for i in block)
        values = (sizes_of_classes[:, None] * rng.dirichlet(np.ones(prod(fans)), size=k)).T
        values = values + rng.normal(0, sigma, values.shape)
        made.append(BlockTable(tuple(block), fans, values, sigma**2))
    return product_posterior(made, [False] * 3)


def tree_of(attributes, k, *, sizes=False, seed=1):
    """Return four cells in no order, that share rows where attributes have three codes."""
    rng = np.random.default_rng(seed)
    rows = {2: np.array([0, 1]), 3: np.array([1, 0, 1])}
    places = tuple(rows[SIZES[i]] for i in attributes)
    shape = (2,) * len(attributes)
    cells = np.arange(prod(shape))[::-1].reshape(shape).copy()
    evidence = []
    for _ in range(prod(shape)):
        weights = rng.dirichlet(np.ones(9))
        evidence.append(CellShares(rng.dirichlet(np.full(k, 0.8), size=9), weights))
    known = rng.dirichlet(np.ones(len(evidence))) if sizes else None
    return LabelPosterior(CellTable(tuple(attributes), places, cells), tuple(evidence), known)


def pool_of(k, attributes=(0, 1), blocks=((0, 1), (2,)), **changes):
    return PooledPosterior(tree_of(attributes, k, **changes), tables_of(blocks, k))


def by_hand(shares, of_tree, of_tables):
    """Return the pool of one record's probabilities: classes weighed by evidence beyond shares."""
    raw = [
        share * exp(WEIGHT * (log(one / share) + log(other / share)))
        for share, one, other in zip(shares, of_tree, of_tables, strict=True)
    ]
    return [one / sum(raw) for one in raw]


@pytest.mark.parametrize("k", PAIRS)
def test_probabilities_are_the_pool_of_both_parts(k):
    pool = pool_of(k)
    values = pool.tables.totals.values
    shares = [float(one / values.sum()) for one in values]
    of_tree, of_tables = pool.tree.probabilities(CODES), pool.tables.probabilities(CODES)
    found = pool.probabilities(CODES)
    expected = [by_hand(shares, *both) for both in zip(of_tree, of_tables, strict=True)]
    assert_allclose(found, expected, rtol=1e-12)
    assert_allclose(found.sum(axis=1), 1)
    assert pool.n_classes == found.shape[1] == k
    for other in (of_tree, of_tables, (of_tree + of_tables) / 2):
        assert np.abs(found - other).max() > 0.02, "the case tells the pool from either part"


@pytest.mark.parametrize("k", PAIRS)
def test_log_odds_are_those_of_the_tables_before_they_are_averaged(k):
    pool = pool_of(k)
    shares, odds = pool.tables.totals.shares, pool.tables.log_odds(CODES)
    plain = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    expected = [
        by_hand(shares, *both) for both in zip(pool.tree.probabilities(CODES), plain, strict=True)
    ]
    found = np.exp(pool.log_odds(CODES))
    assert_allclose(found / found.sum(axis=1, keepdims=True), expected, rtol=1e-12)
    assert np.abs(pool.probabilities(CODES) - expected).max() > 1e-3, "averaging moves something"


@pytest.mark.parametrize("k", PAIRS)
def test_a_part_that_knows_the_shares_alone_adds_nothing(k):
    pool = pool_of(k)
    shares = pool.tables.totals.shares
    silent = tuple(CellShares(shares[None], np.ones(1)) for _ in pool.tree.evidence)
    tree = LabelPosterior(pool.tree.partition, silent)
    odds, base = pool.tables.log_odds(CODES), np.log(shares)
    expected = base + WEIGHT * (odds - base)
    found = PooledPosterior(tree, pool.tables).log_odds(CODES)
    assert_allclose(found - found[:, :1], expected - expected[:, :1], atol=1e-12)


ARRANGED = {
    "apart": ((0, 1), ((0,), (1,), (2,))),
    "the same block": ((0, 1), ((0, 1), (2,))),
    "the same attribute": ((1,), ((0, 2), (1,))),
    "within a block": ((0, 1), ((0, 1, 2),)),
}
"""Attributes of the tree, and blocks."""
MERGED = ("the same block", "the same attribute")


@pytest.mark.parametrize("sizes", [False, True], ids=["labels", "counts"])
@pytest.mark.parametrize("arranged", ARRANGED)
@pytest.mark.parametrize(("k", "pair"), CASES)
def test_terms_and_the_constant_add_up_to_the_log_odds(k, pair, arranged, sizes):
    pool, (one, other) = pool_of(k, *ARRANGED[arranged], sizes=sizes), pair
    found, logs = terms(pool, one, other), pool.log_odds(CODES)
    added = contributions(found, CODES).sum(axis=1) + constant(pool, one, other)
    assert_allclose(added, logs[:, one] - logs[:, other], atol=1e-12)
    names = [term.attributes for term in found]
    assert len(set(names)) == len(names)
    both = len(terms(pool.tree, one, other)) + len(terms(pool.tables, one, other))
    assert len(found) == both - (arranged in MERGED)
    assert all(term.shares.sum() == pytest.approx(1) for term in found)


@pytest.mark.parametrize("arranged", ARRANGED)
def test_deviations_of_terms_are_those_of_both_parts(arranged):
    attributes, blocks = ARRANGED[arranged]
    pool = pool_of(2, attributes, blocks)
    of_tables = {one.attributes: one.deviations for one in terms(pool.tables, 1, 0)}
    [of_tree] = terms(pool.tree, 1, 0)
    for term in terms(pool, 1, 0):
        wanted = of_tables.get(term.attributes, 0.0)
        if term.attributes == attributes:
            wanted = np.hypot(of_tree.expand_codes().deviations, wanted)
        assert_allclose(term.expand_codes().deviations, WEIGHT * wanted)


@pytest.mark.parametrize(("k", "pair"), CASES)
def test_margin_widths_are_those_of_both_parts(k, pair):
    """Each side in quadrature: weighted quantiles of the tree, normal ones of the tables."""
    pool, (one, other) = pool_of(k), pair
    expected = []
    for code in CODES:
        rows = zip(code, pool.tree.partition.places, strict=False)
        cell = pool.tree.partition.numbers[tuple(place[i] for i, place in rows)]
        draws, weights = pool.tree.evidence[cell].shares, pool.tree.evidence[cell].weights
        mean = [float(weights @ draws[:, c]) for c in range(k)]
        around = log(mean[one]) - log(mean[other])
        odds = sorted(
            (log(share[one]) - log(share[other]), weight)
            for weight, share in zip(weights, draws, strict=True)
        )
        upto = np.cumsum([weight for _, weight in odds])
        low, high = (odds[int((upto < tail).sum())][0] for tail in (0.1, 0.9))
        asked = code[None], np.array([one]), np.array([other])
        [variance] = pool.tables.margin_variances(*asked)
        of_tree = np.maximum([around - low, high - around], 0)
        expected.append(WEIGHT * np.sqrt(of_tree**2 + norm.ppf(0.9) ** 2 * variance))
    full = [np.full(len(CODES), c) for c in pair]
    below, above = found = pool.margin_widths(CODES, *full, 0.8)
    assert_allclose(np.transpose(found), expected)
    assert np.abs(below / above - 1).max() > 0.1, "the case tells the sides apart"
    assert_allclose(pool.margin_widths(CODES, *full[::-1], 0.8), (above, below))
    mixed = np.arange(len(CODES)) % 2 == 0  # pairs of classes may differ from record to record
    first, second = (np.where(mixed, a, b) for a, b in (pair, pair[::-1]))
    swapped = np.where(mixed, found, found[::-1])
    assert_allclose(pool.margin_widths(CODES, first, second, 0.8), swapped)
    nobody = np.zeros(0, dtype=np.int64)
    assert np.shape(pool.margin_widths(CODES[:0], nobody, nobody, 0.8)) == (2, 0)


def test_classes_keep_their_order_in_both_parts():
    """Classes turned round in the tree and in the tables are turned round in the pool."""
    pool = pool_of(3)
    order = [2, 0, 1]
    turned = tuple(CellShares(one.shares[:, order], one.weights) for one in pool.tree.evidence)
    tree = LabelPosterior(pool.tree.partition, turned)
    blocks = [model.table for model in pool.tables.models]
    tables = [
        BlockTable(one.attributes, one.sizes, one.values[:, order], one.variance) for one in blocks
    ]
    again = PooledPosterior(tree, product_posterior(tables, [False] * 3))
    assert_allclose(again.probabilities(CODES), pool.probabilities(CODES)[:, order], rtol=1e-6)
    half = PooledPosterior(tree, pool.tables)
    assert np.abs(half.probabilities(CODES) - again.probabilities(CODES)).max() > 0.1


def test_a_class_of_no_share_in_a_cell_gives_finite_numbers():
    pool = pool_of(2)
    certain = tuple(CellShares(np.array([[1.0, 0.0]]), np.ones(1)) for _ in pool.tree.evidence)
    tree = LabelPosterior(pool.tree.partition, certain)
    sure = PooledPosterior(tree, pool.tables)
    found = sure.probabilities(CODES)
    assert np.isfinite(found).all()
    assert found[:, 0].min() > 0.999
    assert np.isfinite(sure.log_odds(CODES)).all()
    ones = np.ones(len(CODES), dtype=np.int64)
    assert np.isfinite(sure.margin_widths(CODES, 0 * ones, ones, 0.95)).all()


def test_averaged_probabilities_take_what_noise_leaves_from_the_tables_alone():
    """The tree's probabilities are means already; those of tables divide their log odds."""
    pool = pool_of(2)
    odds, base = pool.tables.log_odds(CODES), np.log(pool.tables.totals.shares)
    zeros, ones = np.zeros(len(CODES), dtype=np.int64), np.ones(len(CODES), dtype=np.int64)
    variances = pool.tables.margin_variances(CODES, ones, zeros)
    of_tables = (odds[:, 1] - odds[:, 0]) - (base[1] - base[0])
    of_tables = of_tables / np.array([sqrt(1 + pi * v / 8) for v in variances])
    of_tree = pool.tree.probabilities(CODES)
    beyond = np.log(of_tree[:, 1] / of_tree[:, 0]) - (base[1] - base[0])
    expected = base[1] - base[0] + WEIGHT * (beyond + of_tables)
    found = pool.probabilities(CODES)
    assert_allclose(np.log(found[:, 1] / found[:, 0]), expected)


# Beside residuals --------------------------------------------------------------------------------


OF_TREE, OF_TABLES = 0.5, 0.9


def column_of(seed):
    """Return a sum of tables of single attributes and of a pair."""
    rng, blocks = np.random.default_rng(seed), []
    for attributes in ((0,), (1,), (0, 2)):
        n = prod(SIZES[i] for i in attributes)
        root = rng.normal(size=(n, n))
        fans = tuple(SIZES[i] for i in attributes)
        blocks.append(EffectBlock(attributes, fans, (), rng.normal(size=n), root @ root.T))
    margins = tuple(rng.dirichlet(np.ones(n)) for n in SIZES)
    return Score(rng.normal(), rng.normal(), tuple(blocks), margins)


def residuals_of(k):
    return ResidualPosterior(tuple(column_of(seed) for seed in range(1 if k == 2 else k)), k)


def tree_beside(k, attributes=(0, 1)):
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
def test_probabilities_are_the_pool_of_tree_and_residuals(k):
    tree, tables = tree_beside(k), residuals_of(k)
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
def test_a_residual_forest_says_one_thing_by_shares_odds_and_margins(k):
    tables = residuals_of(k)
    assert_allclose(np.exp(tables.log_shares), shares_of(k))
    shares = np.exp(tables.log_odds(CODES))
    assert_allclose(
        shares / shares.sum(axis=1, keepdims=True), tables.probabilities(CODES), rtol=1e-10
    )
    first, ahead, *widths = ADDITIVE.margins(tables, CODES, 0.9)
    logs = np.sort(tables.log_odds(CODES), axis=1)
    assert_allclose(ahead, logs[:, -1] - logs[:, -2])
    second = np.argsort(tables.log_odds(CODES), axis=1)[:, -2]
    asked = (0,) if k == 2 else (first, second)
    every = np.stack([column.variances(CODES) for column in tables.columns])
    variances = sum(every[one, np.arange(len(CODES))] for one in asked)
    for pair in ((first, second), (second, first)):
        for side in (*tables.margin_widths(CODES, *pair, 0.9), *widths):
            assert_allclose(side, norm.ppf(0.95) * np.sqrt(variances))


@pytest.mark.parametrize("attributes", [(0, 1), (0, 2), (1,)], ids=["apart", "a pair", "single"])
@pytest.mark.parametrize(("k", "pair"), CASES)
def test_terms_beside_residuals_add_up_to_the_log_odds(k, pair, attributes):
    pool, (one, other) = PooledPosterior.of(tree_beside(k, attributes), residuals_of(k)), pair
    found, logs = terms(pool, one, other), pool.log_odds(CODES)
    added = contributions(found, CODES).sum(axis=1) + constant(pool, one, other)
    assert_allclose(added, logs[:, one] - logs[:, other], atol=1e-10)
    names = [term.attributes for term in found]
    assert len(set(names)) == len(names) == 4 - (attributes in ((0, 2), (1,)))


@pytest.mark.parametrize(("k", "pair"), CASES)
def test_widths_are_those_of_both_parts_as_they_weigh(k, pair):
    tree, tables, (one, other) = tree_beside(k), residuals_of(k), pair
    columns = [column_of(0)] if k == 2 else [column_of(c) for c in pair]
    of_tables = norm.ppf(0.9) * np.sqrt(sum(column.variances(CODES) for column in columns))
    cells = tree.cells_at(CODES)
    of_tree = np.array([tree.evidence[cell].odds_widths(one, other, 0.8) for cell in cells]).T
    full = [np.full(len(CODES), c) for c in pair]
    found = PooledPosterior.of(tree, tables).margin_widths(CODES, *full, 0.8)
    for side, own in zip(found, of_tree, strict=True):
        assert_allclose(side, np.sqrt((OF_TREE * own) ** 2 + (OF_TABLES * of_tables) ** 2))
    assert np.abs(found[0] - found[1]).max() > 1e-3, "the case tells the sides apart"


# Terms --------------------------------------------------------------------------------------------

TERM_SIZES, K = (2, 3, 2), 3


def posterior_of(blocks, seed=0, sigma=1.5):
    rng = np.random.default_rng(seed)
    tables = []
    for block in blocks:
        fans = tuple(TERM_SIZES[i] for i in block)
        values = 80 * rng.dirichlet(np.ones(prod(fans)), size=K).T + rng.normal(
            0, sigma, (prod(fans), K)
        )
        tables.append(BlockTable(tuple(block), fans, values, sigma**2))
    return product_posterior(tables, [False] * 3)


TERM_CODES = np.stack(np.unravel_index(np.arange(prod(TERM_SIZES)), TERM_SIZES), axis=1)


@pytest.mark.parametrize("blocks", [[(0,), (1,), (2,)], [(0, 1), (2,)], [(0, 1, 2)]])
@pytest.mark.parametrize("pair", [(0, 1), (2, 0), (1, 2)])
def test_terms_add_up_to_the_log_odds(blocks, pair):
    posterior = posterior_of(blocks)
    one, other = pair
    logs = posterior.log_odds(TERM_CODES)
    added = contributions(terms(posterior, one, other), TERM_CODES).sum(axis=1)
    assert_allclose(added + constant(posterior, one, other), logs[:, one] - logs[:, other])


@pytest.mark.parametrize("pair", [(0, 1), (2, 0)])
def test_deviations_of_single_blocks_are_those_of_margins(pair):
    posterior = posterior_of([(0,), (1,), (2,)])
    one, other = pair
    relative = posterior.totals.error / posterior.totals.values
    expected = relative[one] ** 2 + relative[other] ** 2
    for term in terms(posterior, one, other):
        expected = expected + term.deviations[TERM_CODES[:, term.attributes[0]]] ** 2
    full = np.full(len(TERM_CODES), one), np.full(len(TERM_CODES), other)
    assert_allclose(posterior.margin_variances(TERM_CODES, *full), expected)


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
        variance = posterior.trust**2 * used @ fit.covariance.pair_covariance(2, 0) @ used
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


# A tree's log odds, averaged ---------------------------------------------------------------------


TREE_SIZES = (3, 2, 4, 3)
TREE_CODES = np.array(list(product(*map(range, TREE_SIZES))))


def term_tree_of(seed, depth=3, *, counts=True):
    """Return a tree of random cuts; some have nothing on one side, of what is left above."""
    rng = np.random.default_rng(seed)
    cuts = []
    for _ in range(2**depth - 1):
        i = int(rng.integers(len(TREE_SIZES) - 1))  # the last is not cut
        cuts.append(Cut.of(i, rng.permutation(TREE_SIZES[i]) < rng.integers(1, TREE_SIZES[i])))
    labels = rng.integers(0, 2, 2**depth)
    return LabelTree(tuple(cuts), labels, np.ones((2**depth, 2), np.int64) if counts else None)


def tree_posterior(tree, k=2, *, seed=0, sizes=True):
    """Return skewed draws of each cell, as counts would have, or the same of the same label."""
    rng = np.random.default_rng(seed)
    if tree.counts is None:
        said = label_evidence(k, 5.0, 0.5)
        return LabelPosterior(tree, tuple(said.rotate(label) for label in tree.labels.tolist()))
    evidence = [
        CellShares(
            rng.dirichlet(0.3 + 4 * rng.dirichlet(np.ones(k)), 900), rng.dirichlet([1] * 900)
        )
        for _ in range(tree.n_cells)
    ]
    known = rng.dirichlet(np.full(tree.n_cells, 0.7)) if sizes else None
    return LabelPosterior(tree, tuple(evidence), known)


def boxes_of(posterior):
    """Return the number of the box that each combination of codes is in."""
    found = np.full(len(TREE_CODES), -1)
    for number, (cell, held) in enumerate(posterior.partition.boxes):
        inside = np.all([mask[TREE_CODES[:, i]] for i, mask in held.items()], axis=0)
        assert (found[inside] == -1).all(), "boxes do not overlap"
        found[inside] = number
        shares = posterior.evidence[cell].probabilities
        assert_allclose(
            posterior.probabilities(TREE_CODES[inside]), np.tile(shares, (inside.sum(), 1))
        )
    assert (found >= 0).all()
    return found


def background(posterior, margins):
    """Return the share of each combination of codes, one by one."""
    shares = np.ones(len(TREE_CODES))
    for i, size in enumerate(TREE_SIZES):
        shares = shares * margins.get(i, np.full(size, 1 / size))[TREE_CODES[:, i]]
    if posterior.sizes is not None:
        own = boxes_of(posterior)
        for number, (cell, _) in enumerate(posterior.partition.boxes):
            here = own == number
            shares[here] *= posterior.sizes[cell] / shares[here].sum()
    return shares / shares.sum()


def term_by_hand(posterior, values, attributes, margins):
    """Return the averages of values of all codes, a loop over every pair of combinations."""
    rest = [i for i in range(len(TREE_SIZES)) if i not in attributes]
    shares, found = background(posterior, margins), {}
    for asked in product(*(range(TREE_SIZES[i]) for i in attributes)):
        total = 0.0
        for row, share in zip(TREE_CODES, shares, strict=True):
            other = row.copy()
            other[list(attributes)] = asked
            assert_array_equal(other[rest], row[rest])
            total = total + share * values[np.ravel_multi_index(tuple(other), TREE_SIZES)]
        found[asked] = total
    return found


def asked_of(posterior):
    own = posterior.partition.attributes
    return [subset for size in range(1, len(own) + 1) for subset in combinations(own, size)]


MARGINS = {
    "even": {},
    "measured": {0: np.array([0.7, 0.1, 0.2]), 2: np.array([0.05, 0.5, 0.05, 0.4])},
    "a code that nobody has": {0: np.array([0.0, 1.0, 0.0])},
}


@pytest.mark.parametrize("known", MARGINS)
@pytest.mark.parametrize(("sizes", "seed"), [(False, 0), (True, 1)], ids=["no sizes", "sizes"])
def test_averages_are_those_of_all_codes(seed, sizes, known):
    posterior = tree_posterior(term_tree_of(seed), sizes=sizes)
    margins = MARGINS[known]
    if known == "a code that nobody has" and sizes:
        margins = {0: np.array([1e-9, 1 - 2e-9, 1e-9])}
    shares = posterior.probabilities(TREE_CODES)
    odds, weights = np.log(shares[:, 1] / shares[:, 0]), background(posterior, margins)
    for attributes in asked_of(posterior):
        found = average_effect(posterior, attributes, (1, 0), 0.95, margins)
        shape = tuple(TREE_SIZES[i] for i in attributes)
        assert found.log_odds.shape == found.below.shape == found.above.shape == shape
        for at, value in term_by_hand(posterior, odds, attributes, margins).items():
            assert found.log_odds[at] == pytest.approx(value, rel=1e-6)
            here = (TREE_CODES[:, list(attributes)] == at).all(axis=1)
            assert found.shares[at] == pytest.approx(weights[here].sum(), abs=1e-8)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("counts", [False, True], ids=["labels", "counts"])
def test_bands_are_quantiles_of_averages_of_independent_cells(counts, k):
    """Draws of other generators, each cell by its own: tails of what was averaged by hand."""
    posterior, rng = tree_posterior(term_tree_of(4, counts=counts), k), np.random.default_rng(7)
    boxes, pair = boxes_of(posterior), (k - 1, 0)
    values = np.empty((len(TREE_CODES), 40_000))
    for number, (cell, _) in enumerate(posterior.partition.boxes):
        one = posterior.evidence[cell]
        picked = one.shares[rng.choice(len(one.weights), values.shape[1], p=one.weights)]
        values[boxes == number] = np.log(picked[:, pair[0]]) - np.log(picked[:, pair[1]])
    skewed = False
    for attributes in asked_of(posterior):
        found = average_effect(posterior, attributes, pair, 0.9)
        for at, drawn in term_by_hand(posterior, values, attributes, {}).items():
            low, high = np.quantile(drawn, [0.05, 0.95])
            middle, width = found.log_odds[at], high - low
            assert found.below[at] == pytest.approx(max(middle - low, 0), abs=0.06 * width)
            assert found.above[at] == pytest.approx(max(high - middle, 0), abs=0.06 * width)
            skewed |= abs(found.below[at] / found.above[at] - 1) > 0.3
    assert skewed, "the case tells the sides apart"


def test_of_all_attributes_together_bands_are_those_of_cells():
    posterior = tree_posterior(term_tree_of(1))
    found = average_effect(posterior, posterior.partition.attributes, (1, 0), 0.95)
    for at in np.ndindex(found.log_odds.shape):
        codes = np.zeros((1, len(TREE_SIZES)), dtype=int)
        codes[0, list(posterior.partition.attributes)] = at
        cell = posterior.evidence[posterior.cells_at(codes)[0]]
        assert found.log_odds[at] == pytest.approx(cell.log_odds(1, 0))
        widths = found.below[at], found.above[at]
        assert widths == pytest.approx(cell.odds_widths(1, 0, 0.95), rel=0.03, abs=0.03)


def test_the_other_way_round_is_the_negative():
    posterior = tree_posterior(term_tree_of(2), 3)
    for attributes in asked_of(posterior):
        one, other = (average_effect(posterior, attributes, pair, 0.9) for pair in ((2, 1), (1, 2)))
        assert_allclose(one.log_odds, -other.log_odds)
        assert_allclose((one.below, one.above), (other.above, other.below), atol=1e-12)


def test_bands_of_labels_hold_what_their_prior_draws():
    """Cells of the prior, labels by the exponential mechanism, and the averages that they have."""
    a, signal = 0.5, 4.0
    first, second = (Cut.of(i, np.arange(TREE_SIZES[i]) > 0) for i in (0, 1))
    rng, trials = np.random.default_rng(0), 20_000
    truth = rng.beta(a, a, (trials, 4))
    labels = (rng.random(truth.shape) < expit(signal * (2 * truth - 1))).astype(int)
    # the last code of the first attribute: half of it is in either of two cells
    average = logit(truth[:, 2:]).mean(axis=1)
    evidence, below, above, as_one = label_evidence(2, signal, a), 0, 0, 0
    for said in product(range(2), repeat=4):
        if said[:2] == said[2:] or said[2] == said[3]:
            continue  # told as fewer cells
        tree = LabelTree((first, second, second), np.array(said))
        posterior = LabelPosterior(tree, tuple(evidence.rotate(label) for label in said))
        found, here = average_effect(posterior, (0,), (1, 0), 0.9), (labels == said).all(axis=1)
        low, high = (found.log_odds - found.below)[-1], (found.log_odds + found.above)[-1]
        below, above = below + (average[here] < low).sum(), above + (average[here] > high).sum()
        alike = [posterior.evidence[cell].odds_widths(1, 0, 0.9) for cell in (2, 3)]
        end = found.log_odds[-1] - np.mean([width for width, _ in alike])
        as_one += (average[here] < end).sum()
    told = (labels[:, 2] != labels[:, 3]) & (labels[:, :2] != labels[:, 2:]).any(axis=1)
    assert below / told.sum() == pytest.approx(0.05, abs=0.01)
    assert above / told.sum() == pytest.approx(0.05, abs=0.01)
    assert as_one / told.sum() < 0.035, "the negative control: cells that vary as one"


def test_what_is_too_large_is_refused(monkeypatch):
    posterior = tree_posterior(term_tree_of(0))
    whole = posterior.partition.attributes
    with memory_cap(8), pytest.raises(MemoryCapError, match="an effect over all codes"):
        average_effect(posterior, whole, (1, 0), 0.95)
    monkeypatch.setattr(averages, "MOST_PLACES", 3)
    with pytest.raises(ValueError, match="export_text"):
        average_effect(posterior, whole, (1, 0), 0.95)


def test_many_rows_are_averaged_a_part_at_a_time(monkeypatch):
    posterior = tree_posterior(term_tree_of(3))
    expected = average_effect(posterior, (0, 2), (1, 0), 0.95)
    monkeypatch.setattr(averages, "AT_ONCE", averages.DRAWS)
    found = average_effect(posterior, (0, 2), (1, 0), 0.95)
    assert_allclose((found.below, found.above), (expected.below, expected.above))


def test_a_tree_that_says_one_class_is_one_cell():
    cut = Cut.of(1, np.array([False, True]))
    tree = LabelTree((cut,), np.array([1, 1]))
    assert len(tree.boxes) == 1
    posterior = LabelPosterior(tree, (label_evidence(2, 5.0, 0.5).rotate(1),) * 2)
    found = average_effect(posterior, (1,), (1, 0), 0.95)
    [below, above] = posterior.evidence[0].odds_widths(1, 0, 0.95)
    assert_allclose(found.log_odds, posterior.evidence[0].margin)
    assert_allclose((found.below, found.above), ([below] * 2, [above] * 2), rtol=0.01)
