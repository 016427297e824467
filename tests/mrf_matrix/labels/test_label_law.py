"""What a label is worth: against quadrature, limits, and cells that are labelled."""

import tracemalloc
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.growth.private.permute_and_flip import flip_probabilities, permute_and_flip
from mrf_matrix.forests.growth.private.selection import Rate, probabilities, select
from mrf_matrix.labels.law import MOST_NUMBERS, label_evidence, label_law
from mrf_matrix.labels.plan import MOST_CLASSES
from mrf_matrix.posterior import LabelEvidence, LabelPosterior
from mrf_matrix.posterior.effects import constant, contributions, terms
from strategies.operators import MemoryCapError


def beforehand(generator, k, count):
    """Return shares of the prior: uniform of two classes."""
    return generator.dirichlet(np.full(k, np.sqrt(2 / k)), count)


SIGNALS = [0.0, 0.3, 1.0, 4.0, 20.0, 300.0]
LAWS = [True, False]
INFINITE = float("inf")


def says_first(share, signal, flips):
    """Return the probability that the first of two classes is said, from the definitions."""
    ahead = signal * (2 * share - 1)
    if not flips:
        return expit(ahead)
    return 1 - np.exp(-ahead) / 2 if ahead > 0 else np.exp(ahead) / 2


def by_quadrature(function, signal, flips):
    def moment(of):
        # the bulk lies within a few widths of the noise around the middle, where it has a kink
        near = [0.5 + side * width / max(signal, 1) for side in (-1, 1) for width in (1, 5)]
        points = sorted({0.5, *(min(max(x, 0.0), 1.0) for x in near)})
        return quad(lambda p: of(p) * says_first(p, signal, flips), 0, 1, points=points, limit=200)[
            0
        ]

    return moment(function) / moment(lambda _: 1.0)


def is_within(ends, share):
    return float(ends[0] <= share <= ends[1])


@pytest.mark.parametrize("flips", LAWS)
@pytest.mark.parametrize("signal", SIGNALS)
def test_two_classes_agree_with_quadrature(signal, flips):
    found = label_evidence(2, signal, flips=flips)
    assert found.right == pytest.approx(by_quadrature(lambda p: p, signal, flips), rel=1e-6)
    second = found.weights @ found.shares[:, 0] ** 2
    assert second == pytest.approx(by_quadrature(lambda p: p * p, signal, flips), rel=1e-6)
    for level in (0.5, 0.8, 0.95):
        width, middle = found.half_width(level), found.log_odds
        ends = expit(middle - width), expit(middle + width)
        within = by_quadrature(partial(is_within, ends), signal, flips)
        assert within == pytest.approx(level, abs=2e-3)


@pytest.mark.parametrize("flips", LAWS)
def test_the_quadrature_tells_the_laws_apart(flips):
    """The negative control: the other law's number is not within the tolerance."""
    found = label_evidence(2, 2.0, flips=flips).right
    assert found != pytest.approx(by_quadrature(lambda p: p, 2.0, not flips), rel=1e-2)


@pytest.mark.parametrize("flips", LAWS)
@pytest.mark.parametrize("k", [2, 3, 5, 12, 100])
def test_without_signal_a_label_tells_nothing(k, flips):
    assert label_evidence(k, 0.0, flips=flips).right == pytest.approx(1 / k, rel=1e-9)


@pytest.mark.parametrize("flips", LAWS)
@pytest.mark.parametrize("k", [2, 3, 5, 12, 100])
@pytest.mark.parametrize("signal", [1e8, INFINITE])
def test_without_noise_it_has_the_share_of_the_largest(k, signal, flips):
    largest = beforehand(np.random.default_rng(1), k, 40_000).max(axis=1).mean()
    found = label_evidence(k, signal, flips=flips).right
    assert found == pytest.approx(3 / 4 if k == 2 else largest, rel=0.03)


@pytest.mark.parametrize("flips", LAWS)
@pytest.mark.parametrize("k", [2, 3, 7, 40])
def test_more_signal_makes_a_label_worth_more(k, flips):
    found = [
        label_evidence(k, signal, flips=flips).right for signal in (0, 0.5, 2, 8, 30, 200, 1e4)
    ]
    assert np.diff(found).min() > 0


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("signal", [0.5, 3.0, 12.0])
def test_permute_and_flip_is_worth_more(k, signal):
    assert (
        label_evidence(k, signal, flips=True).right > label_evidence(k, signal, flips=False).right
    )


@pytest.mark.parametrize("flips", LAWS)
@pytest.mark.parametrize("k", [2, 3, 7, 250])
def test_draws_are_weighted_shares(k, flips):
    found = label_evidence(k, 3.0, flips=flips)
    assert found.shares.shape == (len(found.weights), k)
    assert found.shares.size <= MOST_NUMBERS
    np.testing.assert_allclose(found.shares.sum(axis=1), 1, rtol=1e-9)
    assert found.shares.min() >= 0
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1, rel=1e-12)
    others = found.weights @ found.shares[:, 1:]
    np.testing.assert_allclose(others, (1 - found.right) / (k - 1), rtol=0.2)  # alike by symmetry


@pytest.mark.parametrize("signal", [0.0, 1e-9, 1e-3])
def test_of_many_classes_and_hardly_any_signal_the_class_that_is_said_leads(signal):
    found = label_evidence(MOST_CLASSES, signal, flips=True)
    first, second, *_ = found.probabilities
    assert first >= second * (1 - 1e-9)


def test_draws_are_read_only_for_other_models_share_them():
    found = label_evidence(2, 3.0, flips=True)
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 1


def test_it_is_always_the_same():
    one = label_evidence(3, 2.0, flips=True)
    label_evidence.cache_clear()
    other = label_evidence(3, 2.0, flips=True)
    assert (one.shares == other.shares).all()
    assert (one.weights == other.weights).all()


@pytest.mark.parametrize("flips", LAWS)
def test_the_law_is_that_of_the_choice(flips):
    gaps, rate = np.array([[0, 2], [3, 0], [1, 1]]), Rate.below(0.7)
    found = label_law(gaps, float(rate.value), flips=flips)
    expected = (
        flip_probabilities(gaps, float(rate.value))
        if flips
        else probabilities(gaps, np.ones(gaps.shape, dtype=bool), rate)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


CELLS, RECORDS = 60_000, 100_000


def labelled(k, signal, flips):
    """Return shares of cells of many records, that of their label first, by labelling each."""
    generator = np.random.default_rng(1)
    shares = beforehand(generator, k, CELLS)
    counts = np.rint(shares * RECORDS).astype(np.int64)
    gaps = (counts.max(axis=1, keepdims=True) - counts).T
    rate, bits = Rate.below(signal / RECORDS), Bits(np.random.default_rng(2))
    if flips:
        said = permute_and_flip(gaps, rate, bits)
    else:
        said = select(gaps, np.ones(gaps.shape, dtype=bool), rate, bits)
    order = (said[:, None] + np.arange(k)) % k
    return np.take_along_axis(shares, order, axis=1)


def away(seen, expected, found):
    """Return by how many standard errors a mean over cells is away: theirs, and of the draws."""
    values = found.shares[:, 0]
    spread = found.weights @ (values - expected) ** 2 * (found.weights**2).sum()
    return abs(seen.mean() - expected) / np.sqrt(seen.var() / len(seen) + spread)


@pytest.mark.parametrize("flips", LAWS)
@pytest.mark.parametrize(("k", "signal"), [(2, 3.0), (3, 6.0), (5, 12.0)])
def test_cells_that_are_labelled_have_these_shares(k, signal, flips):
    seen, found = labelled(k, signal, flips), label_evidence(k, signal, flips=flips)
    assert away(seen[:, 0], found.right, found) < 4
    other = label_evidence(k, signal, flips=not flips)
    if k < 5:  # the negative control; of more classes there are fewer draws
        assert away(seen[:, 0], other.right, other) > 4.5
    for level in (0.5, 0.9):
        odds = np.log(seen[:, 0]) - np.log(seen[:, 1:].max(axis=1))
        within = np.abs(odds - found.log_odds) <= found.half_width(level)
        assert within.mean() == pytest.approx(level, abs=0.02)


def test_many_classes_stay_within_memory():
    label_evidence.cache_clear()
    tracemalloc.start()
    try:
        found = label_evidence(MOST_CLASSES, 50.0, flips=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        label_evidence.cache_clear()
    assert peak < 200e6
    assert found.shares.size <= MOST_NUMBERS
    assert 1 / MOST_CLASSES < found.right < 1
    assert np.isfinite(found.deviations).all()
    assert found.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize("k", [2, 3, 20])
@pytest.mark.parametrize("signal", [0.0, 2.0, 50.0])
def test_half_widths_rise_with_the_level_and_cover(k, signal):
    found = label_evidence(k, signal, flips=True)
    odds = np.log(found.shares[:, 0]) - np.log(found.shares[:, 1:].max(axis=1)) - found.log_odds
    levels = np.linspace(0.02, 0.995, 40)
    widths = [found.half_width(level) for level in levels]
    assert np.diff(widths).min() >= 0
    for level, width in zip(levels, widths, strict=True):
        covered = found.weights[np.abs(odds) <= width].sum()
        below = found.weights[np.abs(odds) < width].sum()
        assert covered >= level - 1e-9
        assert below <= level + 1e-9  # and no wider than it must be


def test_shares_of_nothing_have_finite_odds():
    found = LabelEvidence(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0.25, 0.75]))
    assert found.right == 0.625
    assert found.log_odds == pytest.approx(np.log(0.625 / 0.375))
    assert np.isfinite(found.deviations).all()
    assert np.isfinite(found.half_width(1.0))


SIDES = (np.array([False, True, True]), np.array([True, False, False, True]))
LABELS = np.array([[2, 0], [1, 2]])


def posterior(k=3, signal=5.0):
    return LabelPosterior((1, 3), SIDES, LABELS, label_evidence(k, signal, flips=True))


CODES = np.array([(i, a, 0, b) for i, a, b in product(range(2), range(3), range(4))])


def test_records_have_the_label_of_their_cell():
    model = posterior()
    expected = [LABELS[int(SIDES[0][a]), int(SIDES[1][b])] for _, a, _, b in CODES]
    assert model.labels_at(CODES).tolist() == expected


@pytest.mark.parametrize("k", [3, 6])
def test_probabilities_are_that_of_the_label_and_of_all_others(k):
    model = posterior(k)
    found, said = model.probabilities(CODES), model.labels_at(CODES)
    assert found.shape == (len(CODES), k) == (len(CODES), model.n_classes)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    assert (found.argmax(axis=1) == said).all()
    np.testing.assert_allclose(found[np.arange(len(CODES)), said], model.evidence.right)
    others = np.ones(found.shape, dtype=bool)
    others[np.arange(len(CODES)), said] = False
    np.testing.assert_allclose(found[others], (1 - model.evidence.right) / (k - 1))


@pytest.mark.parametrize(("one", "other"), [(0, 1), (1, 0), (0, 2), (2, 1), (0, 3), (3, 4)])
def test_the_only_term_explains_the_log_odds_of_the_probabilities(one, other):
    model = posterior(k=5)
    [term] = terms(model, one, other)
    assert term.attributes == (1, 3)
    whole = term.over_codes()
    assert whole.log_odds.shape == whole.deviations.shape == whole.shares.shape == (3, 4)
    np.testing.assert_allclose(whole.shares, 1 / 12)  # codes count alike, for labels tell no shares
    assert whole.size == pytest.approx(term.size)
    assert (whole.at(CODES) == term.at(CODES)).all()
    assert term.log_odds.shape == term.shares.shape == (2, 2)
    assert term.shares.sum() == pytest.approx(1)
    found = model.probabilities(CODES)
    odds = np.log(found[:, one]) - np.log(found[:, other])
    added = contributions([term], CODES).sum(axis=1) + constant(model, one, other)
    np.testing.assert_allclose(added, odds, atol=1e-12)
    [turned] = terms(model, other, one)
    np.testing.assert_allclose(turned.log_odds, -term.log_odds, atol=1e-12)
    np.testing.assert_allclose(turned.deviations, term.deviations)


def test_deviations_are_those_of_the_draws():
    model = posterior()
    said, weights = model.evidence, model.evidence.weights
    logs = np.log(said.shares)
    odds, _ = model.log_odds(2, 0)
    _, deviations = model.log_odds(2, 0)
    own = np.sqrt(weights @ (logs[:, 0] - logs[:, 1] - said.log_odds) ** 2)
    neither = np.sqrt(weights @ (logs[:, 1] - logs[:, 2]) ** 2)
    expected = {2: (said.log_odds, own), 0: (-said.log_odds, own), 1: (0.0, neither)}
    for label, (middle, deviation) in expected.items():
        here = model.labels == label
        assert here.any()
        np.testing.assert_allclose(odds[here], middle)
        np.testing.assert_allclose(deviations[here], deviation)


def test_a_class_is_not_weighed_against_itself():
    with pytest.raises(ValueError, match="expected two different ones"):
        terms(posterior(), 1, 1)


def test_terms_of_many_codes_take_no_memory_before_they_are_written_out():
    sides = (np.arange(60_000) > 30_000, np.arange(50_000) > 9)
    model = LabelPosterior((0, 1), sides, LABELS, label_evidence(3, 5.0, flips=True))
    [term] = terms(model, 2, 0)
    assert term.size > 0
    assert term.at(np.array([[0, 0], [59_999, 49_999]])).shape == (2,)
    with pytest.raises(MemoryCapError, match="a term over all codes"):
        term.over_codes()
    assert "4 cells of attributes [0, 1]" in repr(model)
