"""Maximum likelihood under the discrete noise: medians under Laplace, means under Gaussian."""

from itertools import combinations
from math import inf

import numpy as np
import pytest

from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure
from mrf_matrix.reconstruction import additive_model, combine, maximum_likelihood
from mrf_matrix.reconstruction import likelihood as likelihood_module
from mrf_matrix.reconstruction.absolute_deviations import least_absolute_deviations
from strategies.operators import Dense, Identity, RowSpaceError

RNG = np.random.default_rng(6)
SIZES = (3, 4)
CODES = np.stack([RNG.integers(0, size, 80) for size in SIZES], axis=1)
COUNTS = count_cells(CODES, RNG.integers(0, 2, 80), SIZES, 2)
ADDITIVE = additive_model(SIZES)


def located(m, draws, budget, seed=0):
    """Return a location measured m times, with as many classes as independent draws."""
    counts = count_cells(np.zeros((30, 1), int), np.zeros(30, int), (1,), draws)
    release = measure(np.ones((m, 1)), counts, budget, noise="research", random_state=seed)
    truth = np.zeros((1, draws))
    truth[0, 0] = 30
    return release, truth


def mean_squares(m, draws, budget):
    release, truth = located(m, draws, budget)
    found = maximum_likelihood(release, [[1]])
    plain = combine(release, [[1]])
    return np.mean((found.values - truth) ** 2), np.mean((plain.values - truth) ** 2), found, plain


def test_a_location_under_laplace_noise_has_half_the_variance():
    likely, plain, found, _ = mean_squares(301, 300, PureDP(1))
    assert likely / plain < 0.62  # 1/2 in the limit, and the median's 1 + O(1/√m) above it
    assert likely == pytest.approx(found.approximate_variances[0], rel=0.25)
    assert found.expected_error is None
    assert "No exact expected error" in found.note
    few, more, _, _ = mean_squares(9, 300, PureDP(1))  # negative control: few answers
    assert likely / plain < few / more
    assert few / more > 0.6


def test_under_gaussian_noise_it_is_least_squares():
    likely, plain, found, other = mean_squares(301, 300, ZCDP(1))
    assert likely == pytest.approx(plain, rel=1e-9)
    assert found.expected_error == pytest.approx(other.expected_error, rel=1e-5)
    assert plain == pytest.approx(found.variances[0], rel=0.3)


def test_variances_of_several_gaussian_releases_agree_with_simulation():
    """Below σ = 1 the variance of the discrete law is far below σ², by a part that σ decides."""
    draws = 4000
    counts = count_cells(np.zeros((30, 2), int), np.zeros(30, int), (1, 3), draws)
    truth = np.zeros((3, draws))
    truth[0, 0] = 30
    rows = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [1, -1, 0]])
    releases = [
        measure(part, counts, ZCDP(rho), noise="research", random_state=seed)
        for seed, (part, rho) in enumerate([(rows, 12), (rows[::-1], 0.3), (rows[1:4], 2.5)])
    ]
    ratios = [r.variance / float(r.noise_scale) ** 2 for r in releases]
    assert max(ratios) > 1.3 * min(ratios)
    workload = np.array([[1, 0, 0], [1, 1, 1], [0, 2, -1]])
    found = maximum_likelihood(releases, workload)
    errors = found.values - workload @ truth
    measured = np.mean(errors**2, axis=1)
    assert measured == pytest.approx(found.variances, rel=0.12)
    assert measured.sum() == pytest.approx(found.variances.sum(), rel=0.06)
    scales = np.repeat([float(r.noise_scale) for r in releases], [5, 5, 3])
    stacked = np.concatenate([r.matrix.to_dense() for r in releases]) / scales[:, None]
    gains = workload @ np.linalg.pinv(stacked) / scales
    variances = np.repeat([r.variance for r in releases], [5, 5, 3])
    assert found.variances == pytest.approx(gains**2 @ variances, rel=1e-9)
    assert found.variances != pytest.approx(gains**2 @ scales**2, rel=0.12)  # negative control


def test_the_location_is_the_median():
    release, _ = located(21, 7, PureDP(1), seed=3)
    found = maximum_likelihood(release, [[2]])
    assert found.values == pytest.approx(2 * np.median(release.answers, axis=0)[None])
    assert found.coefficients == pytest.approx(np.median(release.answers, axis=0)[None])


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.2)])
def test_nothing_is_likelier(budget):
    matrix = RNG.integers(0, 3, (30, 12))
    releases = [
        measure(matrix, COUNTS, budget, noise="research", random_state=0),
        measure(Identity(12, SIZES), COUNTS, budget, noise="research", random_state=1),
    ]
    design = ADDITIVE.to_dense()
    found = maximum_likelihood(releases, design[:2] @ np.linalg.pinv(design) @ np.eye(12),
                               model=ADDITIVE)  # fmt: skip

    def log_likelihood(beta):
        return sum(
            release.law.log_pmf(release.answers - release.matrix.to_dense() @ design @ beta).sum()
            for release in releases
        )

    best = log_likelihood(found.coefficients)
    assert best == pytest.approx(found.log_likelihood, rel=1e-9)
    generator = np.random.default_rng(1)
    for scale in (0.01, 0.1, 1.0):
        for _ in range(20):
            moved = found.coefficients + generator.normal(scale=scale, size=(7, 2))
            assert log_likelihood(moved) <= best + 1e-7 * abs(best)
    pseudo = np.linalg.pinv(np.concatenate([r.matrix.to_dense() for r in releases]) @ design)
    plain = pseudo @ np.concatenate([r.answers for r in releases])
    assert log_likelihood(plain) < best


def every_vertex(matrix, answers, nonnegative):
    """Return the least sum of deviations over all points where three planes meet."""
    planes, levels = matrix, answers
    if nonnegative:
        planes, levels = np.vstack([matrix, np.eye(3)]), np.append(answers, np.zeros(3))
    chosen = np.array(list(combinations(range(len(planes)), 3)))
    points = np.linalg.solve(planes[chosen], levels[chosen][:, :, None])[:, :, 0]
    if nonnegative:
        points = points[points.min(axis=1) >= -1e-12]
    return np.abs(answers - points @ matrix.T).sum(axis=1).min()


@pytest.mark.parametrize("nonnegative", [True, False])
def test_least_absolute_deviations_against_every_vertex(nonnegative):
    for seed in range(5):
        generator = np.random.default_rng(seed)
        matrix, answers = generator.normal(size=(15, 3)), generator.normal(size=(15, 1)) * 10
        found = least_absolute_deviations(matrix, answers, nonnegative=nonnegative)[:, 0]
        reached = np.abs(answers[:, 0] - matrix @ found).sum()
        assert reached == pytest.approx(every_vertex(matrix, answers[:, 0], nonnegative))
        if nonnegative:
            assert found.min() >= 0


def test_as_many_answers_as_cells_are_least_squares():
    release = measure(Identity(12, SIZES), COUNTS, PureDP(1), noise="research", random_state=0)
    found = maximum_likelihood(release, np.eye(12))
    assert found.values == pytest.approx(release.answers.astype(float), abs=1e-6)
    assert found.approximate_variances is None
    assert "too few" in found.note


@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.05)])
def test_counts_that_are_not_negative(budget):
    release = measure(Identity(12, SIZES), COUNTS, budget, noise="research", random_state=0)
    found = maximum_likelihood(release, np.eye(12), nonnegative=True)
    assert found.values == pytest.approx(np.maximum(release.answers, 0), abs=1e-3)
    assert found.expected_error is None
    assert "Biased" in found.note


def additive_counts(number):
    """Return counts that follow the additive model, with many classes as draws."""
    codes = np.stack(np.unravel_index(np.arange(12), SIZES), axis=1)
    repeats = 2 * codes[:, 0] + 3 * codes[:, 1]
    codes = np.repeat(codes, repeats, axis=0)
    table = np.zeros((12, number))
    table[:, 0] = repeats
    return count_cells(codes, np.zeros(len(codes), int), SIZES, number), table


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5)])
def test_a_true_model_helps_and_its_variances_hold(budget):
    counts, table = additive_counts(300)
    strategy = Dense(np.tile(np.eye(12), (8, 1)))
    release = measure(strategy, counts, budget, noise="research", random_state=2)
    found = maximum_likelihood(release, np.eye(12), model=ADDITIVE)
    error = np.mean((found.values - table) ** 2, axis=1).sum()
    plain = combine(release, np.eye(12)).variances.sum()
    assert error < 0.7 * plain
    if found.variances is not None:
        assert error == pytest.approx(found.variances.sum(), rel=0.1)
        assert found.variances.sum() == pytest.approx(plain * 6 / 12, rel=1e-6)  # rank over cells
    else:
        assert error == pytest.approx(found.approximate_variances.sum(), rel=0.5)


def test_a_false_model_is_biased():
    """Negative control: variances hold only if the counts follow the model."""
    codes = np.stack([np.arange(3), np.arange(3)], axis=1).repeat(200, axis=0)
    counts = count_cells(codes, np.zeros(600, int), SIZES, 1)
    release = measure(Identity(12, SIZES), counts, ZCDP(1), noise="research", random_state=0)
    found = maximum_likelihood(release, np.eye(12), model=ADDITIVE)
    truth = counts.answers(Identity(12, SIZES))
    assert np.square(found.values - truth).sum() > 100 * found.expected_error


def test_several_releases_are_weighted_by_scale():
    counts = count_cells(np.zeros((30, 1), int), np.zeros(30, int), (1,), 1)
    sharp = measure(np.ones((3, 1)), counts, PureDP(30), noise="research", random_state=0)
    blunt = measure(np.ones((9, 1)), counts, PureDP(0.3), noise="research", random_state=1)
    found = maximum_likelihood([sharp, blunt], [[1]])
    assert found.values.item() == np.median(sharp.answers)


def test_additive_models_of_pairs():
    model = additive_model(SIZES, [(0, 1)])
    assert np.array_equal(model.to_dense(), np.eye(12))
    assert np.linalg.matrix_rank(additive_model((2, 3, 4)).to_dense()) == 7


def test_refusals(monkeypatch):
    noisy = measure(Identity(12, SIZES), COUNTS, PureDP(1), noise="research", random_state=0)
    gaussian = measure(Identity(12, SIZES), COUNTS, ZCDP(1), noise="research", random_state=0)
    with pytest.raises(ValueError, match="both kinds"):
        maximum_likelihood([noisy, gaussian], np.eye(12))
    with pytest.raises(ValueError, match="no noise"):
        maximum_likelihood(measure(Identity(12, SIZES), COUNTS, PureDP(inf)), np.eye(12))
    with pytest.raises(ValueError, match="model has 3 rows"):
        maximum_likelihood(noisy, np.eye(12), model=np.ones((3, 1)))
    with pytest.raises(ValueError, match="workload has 3 columns"):
        maximum_likelihood(noisy, np.eye(3))
    half = measure(np.eye(12)[:6], COUNTS, PureDP(1), noise="research", random_state=0)
    with pytest.raises(RowSpaceError):
        maximum_likelihood(half, np.eye(12))
    with pytest.raises(RowSpaceError):
        maximum_likelihood(half, np.eye(12), model=additive_model(SIZES, [(0, 1)]))
    monkeypatch.setattr(likelihood_module, "LARGEST_PROGRAMME", 100)
    with pytest.raises(ValueError, match="12 coefficients for 12 answers"):
        maximum_likelihood(noisy, np.eye(12))
