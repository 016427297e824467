"""What noisy counts beside a label are worth: against quadrature over the true counts, limits."""

import tracemalloc
from fractions import Fraction
from functools import cache, reduce
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, softmax
from scipy.stats import norm

from mrf_matrix.forests.label_tree import CellTable
from mrf_matrix.labels.plan import MOST_CLASSES
from mrf_matrix.labels.posterior import MOST_DRAWN, counted_evidence
from mrf_matrix.mechanisms import DiscreteGaussian, DiscreteLaplace, NoNoise
from mrf_matrix.posterior import LabelPosterior, PooledPosterior
from mrf_matrix.posterior.label_posterior import WEIGHTS_BESIDE_TABLES

LAWS = {
    "Laplace": DiscreteLaplace(Fraction(8)),
    "Gaussian": DiscreteGaussian(Fraction(6)),
    "little": DiscreteGaussian(Fraction(1)),
}
TERMS = {"rate": 0.15, "records": 30.0, "concentration": 0.45}


def evidence(noisy, said=0, *, law=LAWS["Laplace"], **changes):
    return counted_evidence(np.array(noisy, dtype=np.int64), said, law=law, **TERMS | changes)


def by_quadrature(noisy, said, law, *, rate, records, concentration):
    """Return means of all shares and of their squares, by sums over all true counts at once.

    Bins of a count are narrow near 0, where its density has a pole, of which they have the mass.
    """
    k, a = len(noisy), concentration
    most = (max(0, *noisy) + 25 * law.variance**0.5) ** 0.45
    edges = np.linspace(0, most, {2: 800, 3: 150}[k] + 1) ** (1 / 0.45)
    counts = (edges[1:] + edges[:-1]) / 2
    prior = np.log(np.diff(edges**a)) - a * k * counts / records
    logs = sum(np.ix_(*[prior + law.log_pmf(one - counts) for one in noisy]))
    grids = np.ix_(*[counts] * k)
    says = rate * grids[said] - reduce(np.logaddexp, [rate * grid for grid in grids])
    weights = softmax(logs + says)
    whole = sum(grids) + k * a
    means = [(weights * (grid + a) / whole).sum() for grid in grids]
    squares = [(weights * (grid + a) * (grid + a + 1) / (whole * (whole + 1))).sum()
               for grid in grids]  # fmt: skip
    return np.array(means), np.array(squares)


def errors(found, means, squares):
    """Return by how many standard errors of its draws means and mean squares are away."""
    away = []
    for values, expected in ((found.shares, means), (found.shares**2, squares)):
        spread = found.weights**2 @ (values - expected) ** 2
        away += list(np.abs(found.weights @ values - expected) / np.sqrt(spread))
    return max(away)


CASES = [
    ([30, 12], 0), ([30, 12], 1), ([-9, 4], 0), ([-25, -31], 1), ([3, -20], 1), ([70, 64], 1),
    ([0, 0], 0), ([9, 2, -6], 0), ([9, 2, -6], 2), ([25, 24, 26], 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("noisy", "said", "name"), [(*case, name) for case, name in product(CASES, LAWS)][::2], ids=str
)
def test_shares_are_those_of_quadrature_over_all_true_counts(noisy, said, name):
    if name == "little" and min(noisy) < -10:
        noisy = np.maximum(noisy, -6)  # no such noise takes counts further below 0
    law = LAWS[name]
    found = evidence(noisy, said, law=law)
    means, squares = by_quadrature(noisy, said, law, **TERMS)
    assert errors(found, means, squares) < 4
    np.testing.assert_allclose(found.probabilities, means, atol=0.03)


@pytest.mark.parametrize("name", ["Laplace", "Gaussian"])
def test_counts_far_above_zero_are_weighed_by_the_prior_too(name):
    noisy, terms = [300, 150], {"rate": 0.01, "records": 300.0}
    found = evidence(noisy, 0, law=LAWS[name], concentration=20.0, **terms)
    assert errors(found, *by_quadrature(noisy, 0, LAWS[name], concentration=20.0, **terms)) < 4
    other = by_quadrature(noisy, 0, LAWS[name], concentration=10.0, **terms)
    assert errors(found, *other) > 6  # the negative control


@pytest.mark.parametrize(
    "changes", [{"rate": 0.6}, {"records": 8.0}, {"concentration": 0.8}, {"said": 1}, {"law": None}]
)
def test_the_quadrature_tells_other_terms_apart(changes):
    """The negative control: each of what the posterior rests on changes it."""
    noisy, others = [14, 8], dict(changes)
    found = evidence(noisy)
    said = others.pop("said", 0)
    law = DiscreteLaplace(Fraction(3)) if "law" in others else LAWS["Laplace"]
    others.pop("law", None)
    assert errors(found, *by_quadrature(noisy, 0, LAWS["Laplace"], **TERMS)) < 4
    assert errors(found, *by_quadrature(noisy, said, law, **TERMS | others)) > 6


@given(
    noisy=st.lists(st.integers(-40, 90), min_size=2, max_size=2),
    said=st.integers(0, 1),
    name=st.sampled_from(["Laplace", "Gaussian"]),
    rate=st.sampled_from([0.0, 0.02, 0.4]),
    records=st.sampled_from([4.0, 25.0, 300.0]),
    concentration=st.sampled_from([0.45, 0.8, 2.0]),
)
def test_any_cell_of_two_classes_agrees_with_quadrature(
    noisy, said, name, rate, records, concentration
):
    """Where the label contradicts the counts few draws weigh much, and errors are larger."""
    law, terms = LAWS[name], {"rate": rate, "records": records, "concentration": concentration}
    found = evidence(noisy, said, law=law, **terms)
    means, squares = by_quadrature(noisy, said, law, **terms)
    if 1 / (found.weights**2).sum() > 200:
        assert errors(found, means, squares) < 5
    assert found.probabilities[said] > 0


@pytest.mark.parametrize("a", [0.45, 0.8])
@pytest.mark.parametrize("counts", [[6, 3], [0, 0], [40, 41, 2], [1, 0, 0, 0, 9]], ids=str)
def test_without_noise_it_is_the_mean_of_the_dirichlet_law(counts, a):
    k, n = len(counts), sum(counts)
    found = evidence(counts, int(np.argmax(counts)), law=NoNoise(), rate=1e9, concentration=a)
    mean = (np.array(counts) + a) / (n + k * a)
    squares = (np.array(counts) + a + 1) * mean / (n + k * a + 1)
    assert errors(found, mean, squares) < 4
    other = (np.array(counts) + 2 * a) / (n + 2 * k * a)
    if len({*counts}) > 1:  # the negative control
        assert np.abs(found.probabilities - mean).max() < np.abs(found.probabilities - other).max()


@pytest.mark.parametrize("counts", [[500, 499], [20_000, 20_001], [2**40, 2**40 - 1], [7, 7]])
def test_without_noise_the_class_of_more_records_leads(counts):
    assert evidence(counts, 0, law=NoNoise(), rate=1e9).leading_class == int(np.argmax(counts))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("noisy", [[14, 3, 8], [-4, 6, 60]], ids=str)
def test_classes_may_be_exchanged(noisy, name):
    """Within the error of the draws, which are not the same."""
    first = evidence(noisy, 1, law=LAWS[name])
    for order in permutations(range(3)):
        other = evidence([noisy[c] for c in order], order.index(1), law=LAWS[name])
        for place, c in enumerate(order):
            one, two = first.shares[:, c], other.shares[:, place]
            expected = first.weights @ one
            spread = sum(
                found.weights**2 @ (values - expected) ** 2
                for found, values in ((first, one), (other, two))
            )
            assert abs(other.weights @ two - expected) < 4 * spread**0.5
    swapped = evidence([noisy[1], noisy[0], noisy[2]], 1, law=LAWS[name])
    assert errors(swapped, first.probabilities, first.weights @ first.shares**2) > 6  # the control


FAR = 2**62
EXTREME = [
    [FAR, 0], [0, FAR], [-FAR, -FAR], [FAR, FAR], [-FAR, FAR], [0, 0], [5000, 0], [0, 5000],
    [FAR, *[0] * 8], [*[-FAR] * 6, 3], [0, 90, *[-FAR] * 998],
]  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["Laplace", "little", "none", "much"])
@pytest.mark.parametrize("noisy", EXTREME, ids=lambda noisy: str(noisy[:3]))
def test_whatever_is_read_shares_are_finite_and_sum_to_one(noisy, name):
    """Labels that contradict the counts too, which a file may say."""
    law = (LAWS | {"none": NoNoise(), "much": DiscreteLaplace(Fraction(2**40))})[name]
    for said, rate in ((0, 0.0), (1, 0.3), (0, 1e9), (1, 1e9)):
        found = evidence(noisy, said, law=law, rate=rate)
        assert found.shares.shape == (len(found.weights), len(noisy))
        assert np.isfinite(found.shares).all()
        assert np.isfinite(found.weights).all()
        assert found.weights.sum() == pytest.approx(1)
        assert found.probabilities.sum() == pytest.approx(1)
        assert found.probabilities.min() >= 0
        figures = [found.margin, *found.margin_widths(0.95), *map(found.deviation, (0, 1), (1, 0))]
        assert np.isfinite([*figures, found.log_odds(1, 0)]).all()
        assert min(figures) >= 0


def test_a_thousand_classes_take_little_memory():
    noisy = np.random.default_rng(0).integers(-9, 30, MOST_CLASSES)
    evidence(noisy[:2])  # what is loaded once
    tracemalloc.start()
    try:
        found = evidence(noisy, 3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.shares.size <= MOST_DRAWN
    assert peak < 8 * 8 * MOST_DRAWN


def label_alone(k, *, rate, records, concentration):
    """Return what a label alone says of cells of any size, those of the prior, by drawing them."""
    counts = np.random.default_rng(5).gamma(
        concentration, records / k / concentration, size=(200_000, k)
    )
    weights = softmax(rate * counts, axis=1)[:, 0]
    known = counts + concentration
    return weights @ (known / known.sum(axis=1, keepdims=True)) / weights.sum()


@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
def test_exact_counts_are_believed_and_noise_leaves_the_label(kind):
    """The share of the class that counts say goes from that of the label alone to its own."""
    terms = {"rate": 0.02, "records": 400.0, "concentration": 0.8}
    scales = [Fraction(one) for one in (1, 10, 40, 200, 2000)]
    shares, against = (
        [evidence([390, 10], said, law=kind(scale), **terms).probabilities[0] for scale in scales]
        for said in (0, 1)
    )
    own, (alone, _) = 390.8 / 401.6, label_alone(2, **terms)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(own, abs=5e-3)
    assert shares[-1] == pytest.approx(alone, abs=0.04)
    assert own - alone > 0.1, "the two limits differ"
    assert against == sorted(against, reverse=True)
    assert against[0] > 0.9, "exact counts outweigh a label"
    assert against[-1] == pytest.approx(1 - alone, abs=0.04), "and noisy ones do not"


# Intervals of log odds ---------------------------------------------------------------------------


CELLS = 800
DRAWN_TERMS = {"rate": 0.375, "records": 75.0, "concentration": 0.45}
"""Of the cells of 600 records at ε = .5."""

SCALE = 8.0  # of the noise on counts


@cache
def drawn(k, believed=SCALE):
    """Return true shares of cells, and what is made of their label and noisy counts.

    `believed`: the scale that noise is taken to have.
    """
    generator, law = np.random.default_rng(k), DiscreteLaplace(Fraction(believed))
    a, stays = DRAWN_TERMS["concentration"], np.exp(-1 / SCALE)
    counts = generator.gamma(a, DRAWN_TERMS["records"] / k / a, size=(CELLS, k))
    noise = [generator.geometric(1 - stays, size=counts.shape) for _ in range(2)]
    noisy = np.rint(counts).astype(np.int64) + noise[0] - noise[1]
    said = [generator.choice(k, p=softmax(DRAWN_TERMS["rate"] * one)) for one in counts]
    evidence = [
        counted_evidence(one, c, law=law, **DRAWN_TERMS) for one, c in zip(noisy, said, strict=True)
    ]
    return np.array([generator.dirichlet(a + one) for one in counts]), evidence


CLASSES = [2, pytest.param(3, marks=pytest.mark.slow)]

WEIGHT = WEIGHTS_BESIDE_TABLES[0]


def ahead(shares, leading):
    """Return log odds of a class against the largest of all others."""
    logs = np.log(np.maximum(shares, np.finfo(float).tiny))
    return logs[..., leading] - np.delete(logs, leading, axis=-1).max(axis=-1)


@cache
def widths_of(k, level, believed=SCALE):
    """Return how far intervals are below margins, and above, (2, cells)."""
    return np.transpose([one.margin_widths(level) for one in drawn(k, believed)[1]])


def one_width(k, level):
    """Return the widths that hold as many log odds and are the same on both sides."""
    found = []
    for cell in drawn(k)[1]:
        away = np.abs(ahead(cell.shares, cell.leading_class) - cell.margin)
        found.append(np.quantile(away, level, weights=cell.weights, method="inverted_cdf"))
    return np.array([found, found])


def tails(k, level, widths, believed=SCALE):
    """Return how many truths are below and above, by standard errors more than they should be."""
    shares, evidence = drawn(k, believed)
    truths = np.array([ahead(*both) for both in zip(shares, leaders(evidence), strict=True)])
    off = truths - margins(evidence)
    tail = (1 - level) / 2
    outside = (np.stack([-off, off]) > widths).mean(axis=1)
    return (outside - tail) / np.sqrt(tail * (1 - tail) / CELLS)


def margins(evidence):
    return np.array([one.margin for one in evidence])


def leaders(evidence):
    return [one.leading_class for one in evidence]


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("k", CLASSES)
def test_as_many_truths_are_below_and_above_as_the_level_says(k, level):
    widths = widths_of(k, level)
    assert np.abs(tails(k, level, widths)).max() < 3
    assert tails(k, level, widths / 2).min() > 6, "the negative control"


@pytest.mark.slow
def test_one_width_for_both_sides_or_less_noise_than_there_is_fails():
    """The negative controls: too few below, so that sure labels are withheld, or too many."""
    below, above = tails(2, 0.8, one_width(2, 0.8))
    assert below < -4
    assert above > 4
    assert tails(2, 0.95, widths_of(2, 0.95, 2.0), believed=2.0).min() > 10


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("k", CLASSES)
def test_labels_that_are_given_lead_as_often_as_the_level_says_or_more(k, level):
    shares, evidence = drawn(k)
    given = margins(evidence) > widths_of(k, level)[0]
    right = shares.argmax(axis=1) == leaders(evidence)
    assert 0.3 < given.mean() < 0.95
    assert right[given].mean() > (1 + level) / 2
    assert right[~given].mean() < (1 + level) / 2, "what is withheld is not sure"


class NormalTables:
    """Tables whose log odds have one deviation."""

    def __init__(self, deviation):
        self.deviation = deviation

    def margin_widths(self, codes, first, second, level):
        del first, second
        return (np.full(len(codes), norm.ppf((1 + level) / 2) * self.deviation),) * 2


PLACES = np.arange(300)  # of cells in pools: of the first one class is asked, of the next another
FIRST = PLACES % 2


def pooled_widths(level, deviation):
    """Return the widths of pools with tables that have this deviation, (2, cells)."""
    tree = LabelPosterior(CellTable((0,), (PLACES,), PLACES), tuple(drawn(2)[1][: len(PLACES)]))
    pool = PooledPosterior(tree, NormalTables(deviation))
    return np.array(pool.margin_widths(PLACES[:, None], FIRST, 1 - FIRST, level))


def pooled_tails(sides, deviation):
    """Return the probabilities of log odds beyond widths, by the tree's draws and a normal."""
    found = []
    for cell, one, ends in zip(drawn(2)[1], FIRST, sides.T, strict=False):
        logs = np.log(cell.shares)
        off = WEIGHT * (logs[:, one] - logs[:, 1 - one] - cell.log_odds(one, 1 - one))
        beyond = np.stack([-off, off]) - ends[:, None]
        found.append(ndtr(beyond / (WEIGHT * deviation)) @ cell.weights)
    return np.transpose(found)


@pytest.mark.parametrize("deviation", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_of_pools_leave_out_equal_tails(level, deviation):
    """Whichever part is wider; the tails are those of the sum of both, without drawing."""
    tail, sides = (1 - level) / 2, pooled_widths(level, deviation)
    found = pooled_tails(sides, deviation)
    np.testing.assert_allclose(found.mean(axis=1), tail, rtol=0.1)
    assert found.min() > 0.5 * tail
    assert found.max() < 1.5 * tail
    assert pooled_tails(sides / 2, deviation).mean() > 2 * tail, "the first negative control"
    alike = [cell.deviation(0, 1) for cell in drawn(2)[1][: len(PLACES)]]
    both = WEIGHT * norm.ppf(1 - tail) * np.hypot(alike, deviation)
    found = pooled_tails(np.stack([both, both]), deviation)
    if deviation < 5:  # the second; where tables are much wider, there is nothing to tell
        assert found.min() < 0.5 * tail
        assert found.max() > 1.3 * tail
