"""What noisy counts beside a label are worth: against quadrature over the true counts, limits."""

import tracemalloc
from fractions import Fraction
from functools import reduce
from itertools import permutations, product
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from mrf_matrix.labels.plan import MOST_CLASSES
from mrf_matrix.labels.posterior import MOST_DRAWN, counted_evidence
from mrf_matrix.mechanisms import DiscreteGaussian, DiscreteLaplace, NoNoise

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
    assert evidence(counts, 0, law=NoNoise(), rate=1e9).leading == int(np.argmax(counts))


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


def test_it_is_always_the_same_and_asks_no_global_generator():
    np.random.seed(0)  # noqa: NPY002
    state = np.random.get_state()[1].tolist()  # noqa: NPY002
    one = evidence([5, -3, 20], 2)
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    other = evidence([5, -3, 20], 2)
    assert (one.shares == other.shares).all()
    assert (one.weights == other.weights).all()
    assert not np.array_equal(one.shares, evidence([5, -3, 21], 2).shares)


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
    for said, rate in product((0, 1), (0.0, 0.3, 1e9)):
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


@pytest.mark.parametrize(("said", "other"), [*product(range(2), repeat=2)])
def test_what_is_said_counts_for_its_class(said, other):
    """Log odds of even counts are those of the label alone, and turn with it."""
    found = evidence([20, 20], said)
    assert (found.leading == other) == (said == other)
    assert abs(found.log_odds(said, 1 - said)) > log(1.2)
    assert evidence([20, 20], said, rate=0.0).log_odds(0, 1) == pytest.approx(0, abs=0.1)
