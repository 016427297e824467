"""Half-widths of margins under the lattice law of their noise, against sums by convolution."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mrf_matrix import Domain, MatrixForestClassifier
from mrf_matrix.error.coefficients import answer_coefficients
from mrf_matrix.error.noise_sums import NoiseSum, NoiseTerm
from mrf_matrix.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    PureDP,
    count_cells,
    measure,
    row_variances,
)
from mrf_matrix.voting import margin_widths
from mrf_matrix.voting import margin_widths as vote_draws
from mrf_matrix.voting.margin_widths import STEPS, is_fine, margin_quantile, missed_of, width_under
from strategies.operators import Grouping, Identity, Scaled, Sparse

LEVEL = 0.95
LEAVES = 100
DOMAIN = Domain.from_sizes([LEAVES], n_classes=2)
CODES = np.arange(LEAVES)[:, None]
RECORDS = np.repeat(CODES, 5, axis=0)
CLASSES = np.arange(len(RECORDS)) % 5 % 2


def one_tree(**parameters):
    settings = {"n_trees": 1, "max_depth": 1, "strategy": "identity", "voting": "weight"}
    return MatrixForestClassifier(DOMAIN, **(settings | parameters)).fit(RECORDS, CLASSES)


def errors_and_widths(draws=24, **parameters):
    """Return the errors of margins, by 1 in truth, and their half-widths: alike in all draws."""
    errors = []
    for seed in range(draws):
        model = one_tree(noise="research", noise_state=seed, **parameters)
        votes = model._votes(CODES)
        margin = np.abs(votes[:, 0] - votes[:, 1])
        errors.append(np.abs(margin - np.where(votes[:, 0] >= votes[:, 1], 1.0, -1.0)))
    found, width, _ = model.vote_intervals(CODES, LEVEL)
    np.testing.assert_allclose(found, margin)
    return np.concatenate(errors), np.tile(width, draws)


def absolute_error_law(weights, law):
    """Return the absolute values of a margin's error, ``Σ w (Z_a - Z_b)``, and their chances."""
    reach = int(40 * float(law.scale)) + 12
    single = law.pmf(np.arange(-reach, reach + 1))
    pair, chances = np.convolve(single, single), np.ones(1)
    for weight in weights:
        spaced = np.zeros(weight * (len(pair) - 1) + 1)
        spaced[::weight] = pair
        chances = np.convolve(chances, spaced)
    return np.abs(np.arange(len(chances)) - len(chances) // 2), chances


def coverage(width, values, chances):
    return chances[values <= width + 1e-9].sum()


@pytest.mark.parametrize("allocation", ["matrix", "per_tree"])
@pytest.mark.parametrize("budget", [1, 2, 3, 4])
def test_one_tree_is_covered_at_ample_budgets(budget, allocation):
    kind = {"allocation": allocation, "strategy": "identity" if allocation == "matrix" else "auto"}
    errors, widths = errors_and_widths(epsilon=budget, **kind)
    error = np.sqrt(LEVEL * (1 - LEVEL) / len(errors))
    assert (errors <= widths).mean() >= LEVEL - 3 * error
    values, chances = absolute_error_law([1], DiscreteLaplace(Fraction(1 / budget)))
    needed = min(v for v in set(values) if coverage(v, values, chances) >= LEVEL)
    continuous = margin_quantile(LEVEL, 2, gaussian=False) * np.sqrt(values**2 @ chances)
    assert widths.max() <= max(needed + 0.05, continuous + 1e-9)
    if budget == 3:  # the negative control: what was done before
        assert (errors <= continuous).mean() < 0.9


def test_gaussian_noise_is_covered_too():
    errors, widths = errors_and_widths(epsilon=None, rho=3)
    error = np.sqrt(LEVEL * (1 - LEVEL) / len(errors))
    assert (errors <= widths).mean() >= LEVEL - 3 * error
    assert widths.max() <= 1.1


@given(
    kind=st.sampled_from([DiscreteLaplace, DiscreteGaussian]),
    scale=st.floats(0.08, 4),
    weights=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    level=st.sampled_from([0.5, 0.8, 0.95, 0.99, 0.999]),
    classes=st.integers(2, 4),
)
def test_every_width_covers_and_the_exact_one_is_the_least(kind, scale, weights, level, classes):
    law = kind(Fraction(scale))
    noise = NoiseSum((NoiseTerm.of(np.array(weights, dtype=float), law),))
    values, chances = absolute_error_law(weights, law)
    deviation, missed = np.sqrt(2 * noise.variance), missed_of(level, classes)
    gaussian = kind is DiscreteGaussian
    continuous = margin_quantile(level, classes, gaussian=gaussian) * deviation
    step = noise.heaviest
    assert coverage(continuous + step, values, chances) >= 1 - missed
    exact = width_under(noise, continuous, missed)
    assert continuous <= exact <= continuous + STEPS * step
    tolerance = 1e-3 * missed if not is_fine(noise) else 5e-4  # Edgeworth's correction
    assert coverage(exact, values, chances) >= 1 - missed - tolerance
    least = exact - step / 50
    if exact > continuous:
        assert coverage(least, values, chances) <= 1 - missed + tolerance


@pytest.mark.parametrize("limit", ["ENTRIES", "LAWS"])
def test_what_is_too_much_gets_a_wider_interval(monkeypatch, limit):
    given = {"n_trees": 1, "epsilon": 3, "noise": "research", "noise_state": 0}
    model = one_tree(**given)
    exact = model.vote_intervals(CODES, LEVEL)[1]
    monkeypatch.setattr(vote_draws if limit == "ENTRIES" else margin_widths, limit, 0)
    wider = model.vote_intervals(CODES, LEVEL)[1]
    assert (wider > exact).all()
    assert (wider <= exact + 1).all()


@pytest.mark.parametrize("strategy", ["identity", "p_identity", "scaled", "dense"])
def test_coefficients_in_blocks_are_those_of_the_plan(monkeypatch, strategy):
    domain = Domain.from_sizes([3, 4], n_classes=2)
    codes = np.array(list(np.ndindex(3, 4)), dtype=np.int32)
    chosen = {"scaled": Scaled(0.7, Identity(12)), "dense": np.eye(12) / 3}.get(strategy, strategy)
    model = MatrixForestClassifier(
        domain, n_trees=5, max_depth=1, strategy=chosen, random_state=0, noise="research"
    ).fit(codes, codes[:, 0] % 2)
    one = model.ensembles_[0]
    recovery = one.release.mechanism.rounded.recovery
    rows = answer_coefficients(one._votes_asked(codes), recovery, np.arange(12))
    monkeypatch.setattr(vote_draws, "AT_ONCE", 33 * 12)
    for codes_again, wanted in ((codes, rows), (np.tile(codes, (6, 1)), np.tile(rows, (6, 1)))):
        terms = one.vote_terms(codes_again)
        if terms is None:  # too many, and not in blocks
            assert strategy in ("p_identity", "dense")
            assert len(wanted) > 12
            continue
        for found, row in zip(terms, wanted, strict=True):
            expected = NoiseTerm.of(row, one.release.law)
            np.testing.assert_allclose(found.weights, expected.weights)
            np.testing.assert_array_equal(found.repeats, expected.repeats)


def test_draws_behind_groups_of_cells_have_the_variance_of_the_answers(monkeypatch):
    monkeypatch.setattr(vote_draws, "ENTRIES", 2 * 3)  # records by groups; cells do not count
    groups, sizes = np.repeat(np.arange(3), 4), (3, 4)
    counts = count_cells(np.zeros((5, 2), int), np.zeros(5, int), sizes, 1)
    release = measure(Scaled(0.7, Grouping(groups)), counts, PureDP(1), noise="research")
    queries = Sparse(sparse.csr_array(np.repeat(np.array([[1, 0, 0], [0, 1, 1]]), 4, axis=1)))
    found = vote_draws.vote_terms(lambda codes: queries, release, np.zeros((2, 2), np.int32))
    squares = [release.law.variance * term.repeats @ term.weights**2 for term in found]
    assert squares == pytest.approx(row_variances(release, queries))


def test_small_budgets_ask_for_no_coefficients(monkeypatch):
    model = one_tree(epsilon=0.05, noise="research", noise_state=0)
    monkeypatch.setattr(vote_draws, "NoiseTerm", None)
    width = model.vote_intervals(CODES, LEVEL)[1]
    continuous = margin_quantile(LEVEL, 2, gaussian=False) * np.sqrt(2)
    assert width == pytest.approx(continuous * model.expected_vote_error(CODES), rel=0.03)
