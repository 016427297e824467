"""Terms of a posterior: they add up to its log odds, and their deviations to its margins'."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit

from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.forests.sources.random_trees import Cut
from mrf_matrix.labels.posterior import label_evidence
from mrf_matrix.posterior import BlockTable, CellShares, LabelPosterior, product_posterior
from mrf_matrix.posterior import whole_effects as averages
from mrf_matrix.posterior.effects import constant, contributions, terms
from mrf_matrix.posterior.whole_effects import averaged
from strategies.operators import MemoryCapError, memory_cap

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


# A tree's log odds, averaged ---------------------------------------------------------------------


TREE_SIZES = (3, 2, 4, 3)
TREE_CODES = np.array(list(product(*map(range, TREE_SIZES))))


def tree_of(seed, depth=3, *, counts=True):
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
        return LabelPosterior(tree, tuple(said.turned(label) for label in tree.labels.tolist()))
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


def by_hand(posterior, values, attributes, margins):
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
    posterior = tree_posterior(tree_of(seed), sizes=sizes)
    margins = MARGINS[known]
    if known == "a code that nobody has" and sizes:
        margins = {0: np.array([1e-9, 1 - 2e-9, 1e-9])}
    shares = posterior.probabilities(TREE_CODES)
    odds, weights = np.log(shares[:, 1] / shares[:, 0]), background(posterior, margins)
    for attributes in asked_of(posterior):
        found = averaged(posterior, attributes, (1, 0), 0.95, margins)
        shape = tuple(TREE_SIZES[i] for i in attributes)
        assert found.log_odds.shape == found.below.shape == found.above.shape == shape
        for at, value in by_hand(posterior, odds, attributes, margins).items():
            assert found.log_odds[at] == pytest.approx(value, rel=1e-6)
            here = (TREE_CODES[:, list(attributes)] == at).all(axis=1)
            assert found.shares[at] == pytest.approx(weights[here].sum(), abs=1e-8)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("counts", [False, True], ids=["labels", "counts"])
def test_bands_are_quantiles_of_averages_of_independent_cells(counts, k):
    """Draws of other generators, each cell by its own: tails of what was averaged by hand."""
    posterior, rng = tree_posterior(tree_of(4, counts=counts), k), np.random.default_rng(7)
    boxes, pair = boxes_of(posterior), (k - 1, 0)
    values = np.empty((len(TREE_CODES), 40_000))
    for number, (cell, _) in enumerate(posterior.partition.boxes):
        one = posterior.evidence[cell]
        picked = one.shares[rng.choice(len(one.weights), values.shape[1], p=one.weights)]
        values[boxes == number] = np.log(picked[:, pair[0]]) - np.log(picked[:, pair[1]])
    skewed = False
    for attributes in asked_of(posterior):
        found = averaged(posterior, attributes, pair, 0.9)
        for at, drawn in by_hand(posterior, values, attributes, {}).items():
            low, high = np.quantile(drawn, [0.05, 0.95])
            middle, width = found.log_odds[at], high - low
            assert found.below[at] == pytest.approx(max(middle - low, 0), abs=0.06 * width)
            assert found.above[at] == pytest.approx(max(high - middle, 0), abs=0.06 * width)
            skewed |= abs(found.below[at] / found.above[at] - 1) > 0.3
    assert skewed, "the case tells the sides apart"


def test_of_all_attributes_together_bands_are_those_of_cells():
    posterior = tree_posterior(tree_of(1))
    found = averaged(posterior, posterior.partition.attributes, (1, 0), 0.95)
    for at in np.ndindex(found.log_odds.shape):
        codes = np.zeros((1, len(TREE_SIZES)), dtype=int)
        codes[0, list(posterior.partition.attributes)] = at
        cell = posterior.evidence[posterior.cells_at(codes)[0]]
        assert found.log_odds[at] == pytest.approx(cell.log_odds(1, 0))
        widths = found.below[at], found.above[at]
        assert widths == pytest.approx(cell.odds_widths(1, 0, 0.95), rel=0.03, abs=0.03)


def test_the_other_way_round_is_the_negative():
    posterior = tree_posterior(tree_of(2), 3)
    for attributes in asked_of(posterior):
        one, other = (averaged(posterior, attributes, pair, 0.9) for pair in ((2, 1), (1, 2)))
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
        posterior = LabelPosterior(tree, tuple(evidence.turned(label) for label in said))
        found, here = averaged(posterior, (0,), (1, 0), 0.9), (labels == said).all(axis=1)
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
    posterior = tree_posterior(tree_of(0))
    whole = posterior.partition.attributes
    with memory_cap(8), pytest.raises(MemoryCapError, match="an effect over all codes"):
        averaged(posterior, whole, (1, 0), 0.95)
    monkeypatch.setattr(averages, "MOST_PLACES", 3)
    with pytest.raises(ValueError, match="export_text"):
        averaged(posterior, whole, (1, 0), 0.95)


def test_many_rows_are_averaged_a_part_at_a_time(monkeypatch):
    posterior = tree_posterior(tree_of(3))
    expected = averaged(posterior, (0, 2), (1, 0), 0.95)
    monkeypatch.setattr(averages, "AT_ONCE", averages.DRAWS)
    found = averaged(posterior, (0, 2), (1, 0), 0.95)
    assert_allclose((found.below, found.above), (expected.below, expected.above))


def test_a_tree_that_says_one_class_is_one_cell():
    cut = Cut.of(1, np.array([False, True]))
    tree = LabelTree((cut,), np.array([1, 1]))
    assert len(tree.boxes) == 1
    posterior = LabelPosterior(tree, (label_evidence(2, 5.0, 0.5).turned(1),) * 2)
    found = averaged(posterior, (1,), (1, 0), 0.95)
    [below, above] = posterior.evidence[0].odds_widths(1, 0, 0.95)
    assert_allclose(found.log_odds, posterior.evidence[0].margin)
    assert_allclose((found.below, found.above), ([below] * 2, [above] * 2), rtol=0.01)
