"""A tree's log odds averaged over some attributes: against all codes, and bands against draws."""

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit

from mrf_matrix.forests.learned.label_tree import LabelTree
from mrf_matrix.forests.sources.cuts import Cut
from mrf_matrix.labels.posterior import label_evidence
from mrf_matrix.posterior import CellShares, LabelPosterior
from mrf_matrix.posterior import whole_effects as averages
from mrf_matrix.posterior.whole_effects import averaged
from strategies.operators import MemoryCapError, memory_cap

SIZES = (3, 2, 4, 3)
CODES = np.array(list(product(*map(range, SIZES))))


def tree_of(seed, depth=3, *, counts=True):
    """Return a tree of random cuts; some have nothing on one side, of what is left above."""
    rng = np.random.default_rng(seed)
    cuts = []
    for _ in range(2**depth - 1):
        i = int(rng.integers(len(SIZES) - 1))  # the last is not cut
        cuts.append(Cut.of(i, rng.permutation(SIZES[i]) < rng.integers(1, SIZES[i])))
    labels = rng.integers(0, 2, 2**depth)
    return LabelTree(tuple(cuts), labels, np.ones((2**depth, 2), np.int64) if counts else None)


def posterior_of(tree, k=2, *, seed=0, sizes=True):
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
    found = np.full(len(CODES), -1)
    for number, (cell, held) in enumerate(posterior.partition.boxes):
        inside = np.all([mask[CODES[:, i]] for i, mask in held.items()], axis=0)
        assert (found[inside] == -1).all(), "boxes do not overlap"
        found[inside] = number
        shares = posterior.evidence[cell].probabilities
        assert_allclose(posterior.probabilities(CODES[inside]), np.tile(shares, (inside.sum(), 1)))
    assert (found >= 0).all()
    return found


def background(posterior, margins):
    """Return the share of each combination of codes, one by one."""
    shares = np.ones(len(CODES))
    for i, size in enumerate(SIZES):
        shares = shares * margins.get(i, np.full(size, 1 / size))[CODES[:, i]]
    if posterior.sizes is not None:
        own = boxes_of(posterior)
        for number, (cell, _) in enumerate(posterior.partition.boxes):
            here = own == number
            shares[here] *= posterior.sizes[cell] / shares[here].sum()
    return shares / shares.sum()


def by_hand(posterior, values, attributes, margins):
    """Return the averages of values of all codes, a loop over every pair of combinations."""
    rest = [i for i in range(len(SIZES)) if i not in attributes]
    shares, found = background(posterior, margins), {}
    for asked in product(*(range(SIZES[i]) for i in attributes)):
        total = 0.0
        for row, share in zip(CODES, shares, strict=True):
            other = row.copy()
            other[list(attributes)] = asked
            assert_array_equal(other[rest], row[rest])
            total = total + share * values[np.ravel_multi_index(tuple(other), SIZES)]
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
    posterior = posterior_of(tree_of(seed), sizes=sizes)
    margins = MARGINS[known]
    if known == "a code that nobody has" and sizes:
        margins = {0: np.array([1e-9, 1 - 2e-9, 1e-9])}
    shares = posterior.probabilities(CODES)
    odds, weights = np.log(shares[:, 1] / shares[:, 0]), background(posterior, margins)
    for attributes in asked_of(posterior):
        found = averaged(posterior, attributes, (1, 0), 0.95, margins)
        shape = tuple(SIZES[i] for i in attributes)
        assert found.log_odds.shape == found.below.shape == found.above.shape == shape
        for at, value in by_hand(posterior, odds, attributes, margins).items():
            assert found.log_odds[at] == pytest.approx(value, rel=1e-6)
            here = (CODES[:, list(attributes)] == at).all(axis=1)
            assert found.shares[at] == pytest.approx(weights[here].sum(), abs=1e-8)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("counts", [False, True], ids=["labels", "counts"])
def test_bands_are_quantiles_of_averages_of_independent_cells(counts, k):
    """Draws of other generators, each cell by its own: tails of what was averaged by hand."""
    posterior, rng = posterior_of(tree_of(4, counts=counts), k), np.random.default_rng(7)
    boxes, pair = boxes_of(posterior), (k - 1, 0)
    values = np.empty((len(CODES), 40_000))
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
    posterior = posterior_of(tree_of(1))
    found = averaged(posterior, posterior.partition.attributes, (1, 0), 0.95)
    for at in np.ndindex(found.log_odds.shape):
        codes = np.zeros((1, len(SIZES)), dtype=int)
        codes[0, list(posterior.partition.attributes)] = at
        cell = posterior.evidence[posterior.cells_at(codes)[0]]
        assert found.log_odds[at] == pytest.approx(cell.log_odds(1, 0))
        widths = found.below[at], found.above[at]
        assert widths == pytest.approx(cell.odds_widths(1, 0, 0.95), rel=0.03, abs=0.03)


def test_the_other_way_round_is_the_negative():
    posterior = posterior_of(tree_of(2), 3)
    for attributes in asked_of(posterior):
        one, other = (averaged(posterior, attributes, pair, 0.9) for pair in ((2, 1), (1, 2)))
        assert_allclose(one.log_odds, -other.log_odds)
        assert_allclose((one.below, one.above), (other.above, other.below), atol=1e-12)


def test_bands_of_labels_hold_what_their_prior_draws():
    """Cells of the prior, labels by the exponential mechanism, and the averages that they have."""
    a, signal = 0.5, 4.0
    first, second = (Cut.of(i, np.arange(SIZES[i]) > 0) for i in (0, 1))
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
    posterior = posterior_of(tree_of(0))
    whole = posterior.partition.attributes
    with memory_cap(8), pytest.raises(MemoryCapError, match="an effect over all codes"):
        averaged(posterior, whole, (1, 0), 0.95)
    monkeypatch.setattr(averages, "MOST_PLACES", 3)
    with pytest.raises(ValueError, match="export_text"):
        averaged(posterior, whole, (1, 0), 0.95)


def test_many_rows_are_averaged_a_part_at_a_time(monkeypatch):
    posterior = posterior_of(tree_of(3))
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
