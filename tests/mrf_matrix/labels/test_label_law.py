"""What a label is worth: against quadrature, limits, and cells that are labelled."""

import tracemalloc
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

from mrf_matrix.forests.label_tree import Cut, LabelTree
from mrf_matrix.labels import posterior as law
from mrf_matrix.labels.plan import CONCENTRATIONS, MOST_CLASSES
from mrf_matrix.labels.posterior import MOST_NUMBERS
from mrf_matrix.mechanisms.selection import Bits, Rate, select
from mrf_matrix.posterior import CellShares, LabelPosterior
from mrf_matrix.posterior.effects import terms
from strategies.operators import MemoryCapError


def beforehand(generator, k, count, concentration=1.0):
    """Return shares of the prior: uniform unless it is said."""
    return generator.dirichlet(np.full(k, concentration), count)


def label_evidence(k, signal, concentration=1.0, **options):
    return law.label_evidence(k, signal, concentration, **options)


def right(found):
    """Return the expected share of the class that was said, the first."""
    return found.probabilities[0]


SIGNALS = [0.0, 0.3, 1.0, 4.0, 20.0, 300.0]
INFINITE = float("inf")


def says_first(share, signal):
    """Return the probability that the first of two classes is said, from the definitions."""
    return expit(signal * (2 * share - 1))


def by_quadrature(function, signal):
    def moment(of):
        # the bulk lies within a few widths of the noise around the middle, where it has a kink
        near = [0.5 + side * width / max(signal, 1) for side in (-1, 1) for width in (1, 5)]
        points = sorted({0.5, *(min(max(x, 0.0), 1.0) for x in near)})
        return quad(lambda p: of(p) * says_first(p, signal), 0, 1, points=points, limit=200)[0]

    return moment(function) / moment(lambda _: 1.0)


def is_within(ends, share):
    return float(ends[0] <= share <= ends[1])


@pytest.mark.parametrize("signal", SIGNALS)
def test_two_classes_agree_with_quadrature(signal):
    found = label_evidence(2, signal)
    assert right(found) == pytest.approx(by_quadrature(lambda p: p, signal), rel=1e-6)
    second = found.weights @ found.shares[:, 0] ** 2
    assert second == pytest.approx(by_quadrature(lambda p: p * p, signal), rel=1e-6)
    for level in (0.5, 0.8, 0.95):
        below, above = found.margin_widths(level)
        ends = expit(found.margin - below), expit(found.margin + above)
        for tail in ((0.0, ends[0]), (ends[1], 1.0)):
            outside = by_quadrature(partial(is_within, tail), signal)
            assert outside == pytest.approx((1 - level) / 2, abs=2e-3)


@pytest.mark.parametrize("concentration", sorted(CONCENTRATIONS.values()))
@pytest.mark.parametrize("signal", [1.0, 4.0, 20.0])
def test_any_prior_of_two_classes_agrees_with_quadrature(signal, concentration):
    def moment(of, a):
        def weighed(p):  # by the density of Beta(a, a), up to a constant
            return of(p) * says_first(p, signal) * (p * (1 - p)) ** (a - 1)

        return quad(weighed, 0, 1, points=[0.5], limit=200)[0]

    def expected(a):
        return moment(lambda p: p, a) / moment(lambda _: 1.0, a)

    found = right(label_evidence(2, signal, concentration))
    assert found == pytest.approx(expected(concentration), rel=1e-3)
    assert found != pytest.approx(expected(1.3 * concentration), rel=3e-3)  # the negative control


@pytest.mark.parametrize("k", [2, 3, 5, 12, 100])
def test_without_signal_a_label_tells_nothing(k):
    assert right(label_evidence(k, 0.0)) == pytest.approx(1 / k, rel=1e-9)


@pytest.mark.parametrize("k", [2, 3, 5, 12, 100])
@pytest.mark.parametrize("signal", [1e8, INFINITE])
def test_without_noise_it_has_the_share_of_the_largest(k, signal):
    largest = beforehand(np.random.default_rng(1), k, 40_000).max(axis=1).mean()
    found = right(label_evidence(k, signal))
    assert found == pytest.approx(3 / 4 if k == 2 else largest, rel=0.03)


@pytest.mark.parametrize("k", [2, 3, 7, 250])
def test_draws_are_weighted_shares(k):
    found = label_evidence(k, 3.0)
    assert found.shares.shape == (len(found.weights), k)
    assert found.shares.size <= MOST_NUMBERS
    np.testing.assert_allclose(found.shares.sum(axis=1), 1, rtol=1e-9)
    assert found.shares.min() >= 0
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1, rel=1e-12)
    others = found.weights @ found.shares[:, 1:]
    np.testing.assert_allclose(others, (1 - right(found)) / (k - 1), rtol=0.2)  # alike by symmetry


@pytest.mark.parametrize("signal", [0.0, 1e-9, 1e-3])
def test_of_many_classes_and_hardly_any_signal_the_class_that_is_said_leads(signal):
    found = label_evidence(MOST_CLASSES, signal)
    first, second, *_ = found.probabilities
    assert first >= second * (1 - 1e-9)
    assert found.leading_class == 0
    assert found.rotate(7).leading_class == 7


def test_draws_are_read_only_for_other_models_share_them():
    found = label_evidence(2, 3.0)
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 1


CELLS, RECORDS = 60_000, 100_000


def labelled(k, signal):
    """Return shares of cells of many records, that of their label first, by labelling each."""
    generator = np.random.default_rng(1)
    shares = beforehand(generator, k, CELLS)
    counts = np.rint(shares * RECORDS).astype(np.int64)
    gaps = (counts.max(axis=1, keepdims=True) - counts).T
    rate, bits = Rate.of(signal / RECORDS), Bits(np.random.default_rng(2))
    said = select(gaps, np.ones(gaps.shape, dtype=bool), rate, bits)
    order = (said[:, None] + np.arange(k)) % k
    return np.take_along_axis(shares, order, axis=1)


def away(seen, expected, found):
    """Return by how many standard errors a mean over cells is away: theirs, and of the draws."""
    values = found.shares[:, 0]
    spread = found.weights @ (values - expected) ** 2 * (found.weights**2).sum()
    return abs(seen.mean() - expected) / np.sqrt(seen.var() / len(seen) + spread)


@pytest.mark.parametrize(("k", "signal"), [(2, 3.0), (3, 6.0), (5, 12.0)])
def test_cells_that_are_labelled_have_these_shares(k, signal):
    seen, found = labelled(k, signal), label_evidence(k, signal)
    assert away(seen[:, 0], right(found), found) < 4
    other = label_evidence(k, 1.5 * signal)
    if k < 5:  # the negative control; of more classes there are fewer draws
        assert away(seen[:, 0], right(other), other) > 4.5
    for level in (0.5, 0.9):
        odds = np.log(seen[:, 0]) - np.log(seen[:, 1:].max(axis=1)) - found.margin
        below, above = found.margin_widths(level)
        tail = pytest.approx((1 - level) / 2, abs=0.012)
        assert (odds < -below).mean() == tail
        assert (odds > above).mean() == tail or above == 0  # extended to the margin, and beyond


def test_many_classes_stay_within_memory():
    law.label_evidence.cache_clear()
    tracemalloc.start()
    try:
        found = label_evidence(MOST_CLASSES, 50.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        law.label_evidence.cache_clear()
    assert peak < 200e6
    assert found.shares.size <= MOST_NUMBERS
    assert 1 / MOST_CLASSES < right(found) < 1
    assert np.isfinite([found.deviation(0, 1), found.deviation(1, 2)]).all()
    assert found.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize("k", [2, 3, 20])
@pytest.mark.parametrize("signal", [0.0, 2.0, 50.0])
def test_widths_rise_with_the_level_and_leave_out_equal_tails(k, signal):
    found = label_evidence(k, signal)
    odds = np.log(found.shares[:, 0]) - np.log(found.shares[:, 1:].max(axis=1)) - found.margin
    levels = np.linspace(0.02, 0.995, 40)
    widths = np.array([found.margin_widths(level) for level in levels])
    assert np.diff(widths, axis=0).min() >= 0
    assert widths.min() >= 0
    for level, sides in zip(levels, widths, strict=True):
        for width, beyond in zip(sides, (-odds, odds), strict=True):
            tail = (1 - level) / 2
            assert found.weights[beyond > width].sum() <= tail + 1e-9
            if width:  # and no wider than it must be
                assert found.weights[beyond >= width * (1 - 1e-9)].sum() >= tail - 1e-9


def test_shares_of_nothing_have_finite_odds():
    found = CellShares(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([0.25, 0.75]))
    assert found.probabilities.tolist() == [0.625, 0.375]
    assert found.log_odds(0, 1) == found.margin == pytest.approx(np.log(0.625 / 0.375))
    nothing = CellShares(np.array([[1.0, 0.0, 0.0]]), np.ones(1))
    for one in (found, nothing):
        figures = [one.margin, *one.margin_widths(1.0), one.deviation(0, 1), one.log_odds(1, 0)]
        assert np.isfinite(figures).all()
    assert nothing.log_odds(1, 2) == nothing.deviation(1, 2) == 0


DRAWN = CellShares(
    np.random.default_rng(3).dirichlet([0.4, 2.0, 0.9, 1.5], 500),
    np.random.default_rng(4).dirichlet(np.ones(500)),
)


def test_figures_of_a_cell_are_those_of_its_draws():
    shares, weights = DRAWN.shares, DRAWN.weights
    mean = (weights[:, None] * shares).sum(axis=0)
    np.testing.assert_allclose(DRAWN.probabilities, mean)
    second, first = np.argsort(mean)[-2:]
    assert DRAWN.leading_class == first
    assert DRAWN.margin == pytest.approx(np.log(mean[first] / mean[second]))
    for one, other in product(range(4), repeat=2):
        middle = np.log(mean[one] / mean[other])
        assert DRAWN.log_odds(one, other) == pytest.approx(middle)
        away = np.log(shares[:, one] / shares[:, other]) - middle
        assert DRAWN.deviation(one, other) == pytest.approx(np.sqrt(weights @ away**2))


@pytest.mark.parametrize("places", range(5))
def test_a_cell_of_another_label_is_the_same_of_other_classes(places):
    turned = DRAWN.rotate(places)
    assert turned.leading_class == (DRAWN.leading_class + places) % 4
    assert turned.margin == pytest.approx(DRAWN.margin)
    assert turned.margin_widths(0.9) == pytest.approx(DRAWN.margin_widths(0.9))
    for one, other in [(0, 1), (3, 1), (2, 0)]:
        here, there = (one + places) % 4, (other + places) % 4
        assert turned.probabilities[here] == pytest.approx(DRAWN.probabilities[one])
        assert turned.log_odds(here, there) == pytest.approx(DRAWN.log_odds(one, other))
        assert turned.deviation(here, there) == pytest.approx(DRAWN.deviation(one, other))
        widths = DRAWN.odds_widths(one, other, 0.8)
        assert turned.odds_widths(here, there, 0.8) == pytest.approx(widths)
        assert turned.odds_widths(there, here, 0.8) == pytest.approx(widths[::-1])
        assert widths[0] != pytest.approx(widths[1]), "the case tells the sides apart"
    if places % 4:  # the negative control
        assert turned.probabilities[0] != pytest.approx(DRAWN.probabilities[0])


SIDES = (np.array([False, True, True]), np.array([True, False, False, True]))
LABELS = np.array([[2, 0], [1, 2]])


def posterior(k=3, signal=5.0, attributes=(1, 3), sides=SIDES):
    """Return what a tree says that asks for two attributes, one after the other."""
    first, second = (Cut.of(i, side) for i, side in zip(attributes, sides, strict=True))
    tree = LabelTree((first, second, second), LABELS.ravel())
    evidence = label_evidence(k, signal)
    said = tuple(evidence.rotate(label) for label in tree.labels.tolist())
    return LabelPosterior(tree, said)


def test_deviations_are_those_of_the_draws():
    model, said = posterior(), label_evidence(3, 5.0)
    odds, deviations = model.log_odds(2, 0)
    middles = {2: said.margin, 0: -said.margin, 1: 0.0}
    for label, middle in middles.items():
        logs = np.log(np.roll(said.shares, label, axis=1))
        away = logs[:, 2] - logs[:, 0] - middle
        here = model.labels == label
        assert here.any()
        np.testing.assert_allclose(odds[here], middle, atol=1e-12)
        np.testing.assert_allclose(deviations[here], np.sqrt(said.weights @ away**2))


def test_a_class_is_not_weighed_against_itself():
    with pytest.raises(ValueError, match="expected two different ones"):
        terms(posterior(), 1, 1)


def test_terms_of_many_codes_take_no_memory_before_they_are_written_out():
    sides = (np.arange(60_000) > 30_000, np.arange(50_000) > 9)
    model = posterior(attributes=(0, 1), sides=sides)
    [term] = terms(model, 2, 0)
    assert term.size > 0
    assert term.at(np.array([[0, 0], [59_999, 49_999]])).shape == (2,)
    with pytest.raises(MemoryCapError, match="a term over all codes"):
        term.expand_codes()
    assert "cells of attributes [0, 1]" in repr(model)
