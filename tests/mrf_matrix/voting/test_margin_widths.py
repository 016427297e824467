"""Half-widths of margins under the lattice law of their noise, against sums by convolution."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse

from mrf_matrix import Domain, MatrixForestClassifier, load_dataset, load_model, save_model
from mrf_matrix.error.noise_sums import NoiseSum, NoiseTerm, answer_coefficients
from mrf_matrix.estimators import from_release
from mrf_matrix.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    PureDP,
    count_cells,
    measure,
    row_variances,
)
from mrf_matrix.voting import ensemble as redrawn_votes
from mrf_matrix.voting import intervals
from mrf_matrix.voting.ensemble import fresh_leaf_noise
from mrf_matrix.voting.intervals import (
    STEPS,
    SURE,
    is_fine,
    margin_quantile,
    missed_of,
    width_under,
)
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES
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
@example(kind=DiscreteLaplace, scale=0.1875, weights=[1, 1], level=0.999, classes=3)
@example(kind=DiscreteGaussian, scale=0.34375, weights=[1, 1, 1], level=0.999, classes=4)
def test_every_width_covers_and_the_exact_one_is_the_least(kind, scale, weights, level, classes):
    law = kind(Fraction(scale))
    noise = NoiseSum((NoiseTerm.of(np.array(weights, dtype=float), law),))
    values, chances = absolute_error_law(weights, law)
    deviation, missed = np.sqrt(2 * noise.variance), missed_of(level, classes)
    gaussian = kind is DiscreteGaussian
    continuous = margin_quantile(level, classes, gaussian=gaussian) * deviation
    step = noise.heaviest
    sure = continuous + (1 if is_fine(noise) else SURE) * step
    assert coverage(sure, values, chances) >= 1 - missed
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
    monkeypatch.setattr(intervals, limit, 0)
    wider = model.vote_intervals(CODES, LEVEL)[1]
    assert (wider > exact).all()
    assert (wider <= exact + SURE).all()


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
    monkeypatch.setattr(intervals, "AT_ONCE", 33 * 12)
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
    monkeypatch.setattr(intervals, "ENTRIES", 2 * 3)  # records by groups; cells do not count
    groups, sizes = np.repeat(np.arange(3), 4), (3, 4)
    counts = count_cells(np.zeros((5, 2), int), np.zeros(5, int), sizes, 1)
    release = measure(Scaled(0.7, Grouping(groups)), counts, PureDP(1), noise="research")
    queries = Sparse(sparse.csr_array(np.repeat(np.array([[1, 0, 0], [0, 1, 1]]), 4, axis=1)))
    found = intervals.vote_terms(lambda codes: queries, release, np.zeros((2, 2), np.int32))
    squares = [release.law.variance * term.repeats @ term.weights**2 for term in found]
    assert squares == pytest.approx(row_variances(release, queries))


def test_small_budgets_ask_for_no_coefficients(monkeypatch):
    model = one_tree(epsilon=0.05, noise="research", noise_state=0)
    monkeypatch.setattr(intervals, "NoiseTerm", None)
    width = model.vote_intervals(CODES, LEVEL)[1]
    continuous = margin_quantile(LEVEL, 2, gaussian=False) * np.sqrt(2)
    assert width == pytest.approx(continuous * model.expected_vote_error(CODES), rel=0.03)


# Coverage ----------------------------------------------------------------------------------------


CAR = load_dataset("car")
CAR_DOMAIN = Domain.from_sizes(CAR.domain.sizes, n_classes=4)


def fitted(**changes):
    settings = {
        "epsilon": 0.5, "n_trees": 8, "max_depth": 2, "strategy": "identity", "voting": "weight",
        "random_state": 0,
    }  # fmt: skip
    return MatrixForestClassifier(CAR_DOMAIN, **(settings | changes)).fit(CAR.codes, CAR.labels)


@pytest.mark.parametrize(
    ("budget", "kind"),
    [({"epsilon": 0.5}, "matrix"), ({"epsilon": None, "rho": 0.1}, "per_tree")],
)
def test_intervals_cover_the_margin_without_noise(budget, kind):
    strategy = {"strategy": "identity"} if kind == "matrix" else {"strategy": "auto"}
    true = fitted(epsilon=float("inf"), allocation=kind, **strategy)._votes(CAR.codes)
    covered, halved, level = [], [], 0.8
    for seed in range(3):
        model = fitted(noise="research", noise_state=seed, allocation=kind, **(strategy | budget))
        votes = model._votes(CAR.codes)
        first, second = np.argsort(-votes, axis=1, kind="stable")[:, :2].T
        rows = np.arange(len(votes))
        margin, half_width, above = model.vote_intervals(CAR.codes, level)
        np.testing.assert_array_equal(above, half_width)
        np.testing.assert_allclose(margin, votes[rows, first] - votes[rows, second])
        off = np.abs(margin - (true[rows, first] - true[rows, second]))
        covered.append((off <= half_width).mean())
        halved.append((off <= half_width / 4).mean())
    assert np.mean(covered) >= level - 0.02
    assert np.mean(halved) < level  # the negative control


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [3.0, 1.0, 1.0], np.ones(40)])
def test_the_wider_quantile_covers_sums_of_laplace_draws(level, weights):
    generator = np.random.default_rng(0)
    weights = np.asarray(weights)
    draws = generator.laplace(size=(40_000, 2 * len(weights))) @ np.concatenate([weights, -weights])
    deviation = np.sqrt(4 * (weights**2).sum())
    quantile = margin_quantile(level, 2, gaussian=False)
    assert (np.abs(draws) <= quantile * deviation).mean() > level - 0.01
    if level > 0.9 and len(weights) == 1:
        normal = margin_quantile(level, 2, gaussian=True)
        assert (np.abs(draws) <= normal * deviation).mean() < level - 0.001


def test_labels_are_withheld_where_noise_may_have_chosen():
    model = fitted(noise="research", noise_state=0)
    labels = model.predict_or_abstain(CAR.codes, level=0.95)
    margin, half_width, _ = model.vote_intervals(CAR.codes, level=0.95)
    np.testing.assert_array_equal(np.ma.getmaskarray(labels), margin <= half_width)
    np.testing.assert_array_equal(np.asarray(labels.data), model.predict(CAR.codes))
    stricter = model.predict_or_abstain(CAR.codes, level=0.999)
    assert np.ma.count_masked(stricter) >= np.ma.count_masked(labels) > 0
    kept = ~np.ma.getmaskarray(labels)
    right = CAR.labels == model.predict(CAR.codes)
    assert right[kept].mean() > right.mean()


def test_without_noise_only_ties_are_withheld():
    labels = fitted(epsilon=float("inf")).predict_or_abstain(CAR.codes)
    assert np.ma.count_masked(labels) == 0


def test_what_has_no_interval_says_so(tmp_path):
    model = fitted(voting="hard")
    with pytest.raises(ValueError, match=r"voting='hard'.*weight votes"):
        model.vote_intervals(CAR.codes)
    with pytest.raises(ValueError, match="shrinkage='votes'"):
        fitted(shrinkage="votes").vote_intervals(CAR.codes)
    for level in (0, 1, 95, "0.95", True):
        with pytest.raises(ValueError, match="level"):
            fitted().vote_intervals(CAR.codes, level)
    save_model(fitted(), tmp_path / "m")
    assert len(load_model(tmp_path / "m").vote_intervals(CAR.codes)) == 3  # its release is there


def test_forests_from_a_release_have_the_same_intervals():
    model = fitted(noise="research", noise_state=0)
    other = from_release(model.release_, CAR_DOMAIN, forest=model.forest_, voting="weight")
    for mine, theirs in zip(
        model.vote_intervals(CAR.codes), other.vote_intervals(CAR.codes), strict=True
    ):
        np.testing.assert_allclose(mine, theirs)
    np.testing.assert_allclose(
        model.expected_vote_error(CAR.codes), other.expected_vote_error(CAR.codes)
    )


# Redrawn noise -----------------------------------------------------------------------------------


INFINITE = float("inf")
ASKED = CAR.codes[::4]
RULES = [
    (voting, shrinkage)
    for voting in NOISE_AWARE_VOTINGS
    for shrinkage in SHRINKAGES
    if (voting, shrinkage) != ("weight", "none")
]


def fitted_to_car(**changes):
    settings = {
        "epsilon": 1.0, "n_trees": 12, "max_depth": 2, "strategy": "identity", "random_state": 0,
        "noise": "research", "noise_state": 0,
    }  # fmt: skip
    return MatrixForestClassifier(CAR_DOMAIN, **(settings | changes)).fit(CAR.codes, CAR.labels)


@pytest.fixture(scope="module")
def noisy():
    return fitted_to_car()


@pytest.fixture(scope="module")
def exact():
    return fitted_to_car(epsilon=INFINITE, noise="exact", noise_state=None)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"allocation": "per_tree", "strategy": "auto"},
        {"allocation": "disjoint", "strategy": "auto"},
        {"epsilon": None, "rho": 0.2},
        {"neighboring": "replace_one"},
    ],
    ids=str,
)
def test_redrawn_errors_have_the_variance_of_the_leaves(changes):
    model = fitted_to_car(**({"n_trees": 3} | changes))
    one = model.ensembles_[0]
    errors = one.redrawn_noise(200, np.random.default_rng(1))
    assert errors.shape == (*model.leaf_values_.shape, 200)
    squares = (errors**2).mean(axis=(1, 2)) / model.leaf_variances_
    assert abs(squares.mean() - 1) < 0.05
    assert abs(errors.mean()) < 0.1 * np.sqrt(model.leaf_variances_.mean())


@pytest.mark.parametrize(("voting", "shrinkage"), RULES)
def test_every_voting_can_abstain(noisy, exact, voting, shrinkage):
    noisy, exact = (one.voted_by(voting, shrinkage) for one in (noisy, exact))
    labels = noisy.predict_or_abstain(ASKED, 0.9, n_draws=40, random_state=0)
    np.testing.assert_array_equal(labels.data, noisy.predict(ASKED))
    again = noisy.predict_or_abstain(ASKED, 0.9, n_draws=40, random_state=0)
    np.testing.assert_array_equal(labels.mask, again.mask)
    kept = ~np.ma.getmaskarray(labels)
    assert kept.mean() > 0.1
    without = exact.predict(ASKED) == labels.data
    assert without[kept].mean() > 0.9
    assert without[kept].mean() >= without.mean()
    if voting in ("product", "posterior"):  # the others say the majority class almost everywhere
        assert without[kept].mean() > without.mean() + 0.02
    assert not np.ma.getmaskarray(exact.predict_or_abstain(CAR.codes[:50], 0.9, n_draws=9)).any()


def test_less_noise_than_there_is_withholds_too_little(noisy, exact, monkeypatch):
    """The negative control: with a tenth of the noise, kept labels are hardly better than all."""
    noisy, exact = (one.voted_by("posterior", "none") for one in (noisy, exact))

    def faint(*arguments):
        return 0.1 * fresh_leaf_noise(*arguments)

    wanted = noisy.predict_or_abstain(ASKED, 0.95, random_state=0)
    monkeypatch.setattr("mrf_matrix.voting.ensemble.fresh_leaf_noise", faint)
    worse = noisy.predict_or_abstain(ASKED, 0.95, random_state=0)
    without = exact.predict(ASKED)
    agree = [(without == labels.data)[~labels.mask].mean() for labels in (wanted, worse)]
    assert agree[0] > 0.95
    assert agree[1] < agree[0] - 0.03


def test_a_stricter_level_withholds_more_and_draws_must_suffice(noisy):
    noisy = noisy.voted_by("hard", "none")
    masked = [
        np.ma.count_masked(noisy.predict_or_abstain(ASKED, level, random_state=0))
        for level in (0.5, 0.8, 0.95)
    ]
    assert masked == sorted(masked)
    assert masked[0] < masked[-1]
    with pytest.raises(ValueError, match=r"n_draws=100: too few .* at least 999"):
        noisy.predict_or_abstain(ASKED, 0.999)
    for draws in (0, 1.5, "many"):
        with pytest.raises((ValueError, TypeError), match="n_draws"):
            noisy.predict_or_abstain(ASKED, 0.5, n_draws=draws)
    with pytest.raises(ValueError, match="level"):
        noisy.predict_or_abstain(ASKED, 1)


def test_batches_of_draws_are_the_same_votes(noisy, monkeypatch):
    noisy = noisy.voted_by("product", "none")
    one = noisy.predict_or_abstain(CAR.codes[:200], 0.6, n_draws=20, random_state=3)
    monkeypatch.setattr(redrawn_votes, "ENTRIES", 1)  # one draw at a time: other numbers
    other = noisy.predict_or_abstain(CAR.codes[:200], 0.6, n_draws=20, random_state=3)
    assert abs(one.mask.mean() - other.mask.mean()) < 0.15


def test_ensembles_can_abstain():
    settings = {"n_trees": 6, "strategy": "identity", "n_ensembles": 2, "max_features": 4}
    model = MatrixForestClassifier(
        CAR_DOMAIN, epsilon=2.0, noise="research", noise_state=0, random_state=0, **settings
    ).fit(CAR.codes, CAR.labels)
    labels = model.predict_or_abstain(CAR.codes[:300], 0.8, n_draws=20, random_state=0)
    np.testing.assert_array_equal(labels.data, model.predict(CAR.codes[:300]))


def test_forests_from_a_release_abstain_alike(noisy):
    other = from_release(noisy.release_, CAR_DOMAIN, forest=noisy.forest_)
    mine, theirs = (
        one.predict_or_abstain(ASKED, 0.8, n_draws=20, random_state=5)
        for one in (noisy.voted_by("posterior", "none"), other)
    )
    np.testing.assert_array_equal(mine.mask, theirs.mask)
