"""Votes against a loop, ties, once a cell, what a leaf may say, and half-widths of margins."""

from fractions import Fraction

import numpy as np
import pytest
from car_forests import ASKED, CAR, stumps
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse

from mrf_matrix import Domain, MatrixForestClassifier, RandomTrees
from mrf_matrix.error.noise_sums import NoiseSum, NoiseTerm
from mrf_matrix.forests import concatenate
from mrf_matrix.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    PureDP,
    count_cells,
    measure,
    row_variances,
)
from mrf_matrix.mechanisms.measurement.least_squares import answer_coefficients
from mrf_matrix.voting import NoisyLeaves, intervals, leaf_evidence, vote_shares, voting
from mrf_matrix.voting.evidence import evidence_scale, odds_logs
from mrf_matrix.voting.intervals import (
    STEPS,
    SURE,
    is_fine,
    margin_quantile,
    miss_probability,
    smallest_width,
)
from mrf_matrix.voting.voting import (
    FEW_RECORDS,
    ensemble_votes,
    fresh_leaf_noise,
    independent_noise,
    per_distinct_row,
)
from strategies.operators import Grouping, Identity, Scaled, Sparse


def slow_votes(forest, codes, table):
    leaves = forest.apply(codes)
    return np.array([sum(table[leaf] for leaf in row) for row in leaves])


@pytest.mark.parametrize("rule", voting.VOTINGS)
def test_votes_equal_a_loop_over_records(rule, monkeypatch):
    monkeypatch.setattr(voting, "ROUTED_AT_ONCE", 50)  # several blocks
    domain = Domain.from_sizes([3, 2, 4], n_classes=3)
    forest = RandomTrees(n_trees=7, max_depth=2).grow(domain, random_state=1)
    generator = np.random.default_rng(0)
    codes = np.stack([generator.integers(size, size=40) for size in domain.sizes], axis=1)
    values = generator.normal(size=(forest.n_leaves, 3))
    table = voting.leaf_votes(values, rule)
    votes = voting.forest_votes(forest, codes.astype(np.int32), table)
    np.testing.assert_allclose(votes, slow_votes(forest, codes, table))


def test_a_tied_leaf_shares_its_vote():
    table = voting.leaf_votes(np.array([[2.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 3.0, 2.0]]), "hard")
    np.testing.assert_allclose(table, [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1, 0]])


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_shares_are_a_distribution_that_keeps_the_order(seed, n_classes):
    votes = np.random.default_rng(seed).normal(scale=3, size=(20, n_classes))
    shares = vote_shares(votes)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(shares.argmax(axis=1), votes.argmax(axis=1))


def test_no_preference_is_uniform():
    np.testing.assert_allclose(vote_shares(np.full((2, 4), -3.0)), 0.25)


@pytest.mark.parametrize(("n_trees", "step"), [(1, 12), (5, 2), (12, 1), (100, 1)])
def test_blocks_are_as_large_as_they_may_be(n_trees, step, monkeypatch):
    monkeypatch.setattr(voting, "ROUTED_AT_ONCE", 12)
    blocks = list(voting.record_blocks(13, n_trees))
    assert [i for block in blocks for i in range(13)[block]] == list(range(13))
    assert {len(range(13)[block]) for block in blocks[:-1]} == {step}


# What one leaf may say ---------------------------------------------------------------------------


PRIORS = (np.array([0.5, 0.5]), np.array([0.9, 0.1]), np.array([0.2, 0.3, 0.5]))


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_a_leaf_that_is_certain_of_a_class_is_taken_for_a_21st_prior(prior):
    """p(c | l) is ``20/21 share + 1/21 prior``: by hand, not through the constant."""
    for sure in range(len(prior)):
        share = np.eye(len(prior))[[sure]]
        mixed = (20 * share + prior) / 21
        assert odds_logs(share, prior) == pytest.approx(np.log(mixed / prior))
        others = np.arange(len(prior)) != sure
        assert np.exp(odds_logs(share, prior)[0, others]) == pytest.approx(1 / 21)


def test_a_silent_leaf_says_nothing():
    for prior in PRIORS:
        assert odds_logs(prior[None], prior) == pytest.approx(0)


# Once for each cell -------------------------------------------------------------------------------


def table_of(rows):
    """Votes that tell every cell of a (3, 4) domain apart."""
    return np.stack([rows[:, 0] * 4.0 + rows[:, 1], rows[:, 1] - 1.0], axis=1)


@pytest.mark.parametrize("n_records", [0, 5, FEW_RECORDS, 3 * FEW_RECORDS])
@pytest.mark.parametrize("expensive", [True, False])
def test_equal_to_one_by_one(n_records, expensive):
    rng = np.random.default_rng(0)
    codes = rng.integers([3, 4], size=(n_records, 2)).astype(np.int32)
    got = per_distinct_row(table_of, codes, (3, 4), expensive=expensive)
    np.testing.assert_array_equal(got, table_of(codes))


def test_each_cell_once():
    """A count of rows that were voted on, not of seconds."""
    seen = []

    def counted(rows):
        seen.append(len(rows))
        return table_of(rows)

    codes = np.random.default_rng(1).integers([3, 4], size=(2 * FEW_RECORDS, 2)).astype(np.int32)
    per_distinct_row(counted, codes, (3, 4), expensive=False)
    assert seen == [12]


@pytest.mark.parametrize(
    ("sizes", "expensive"), [((2**32, 2**32), True), ((2**20, 2**20), False)], ids=["huge", "cheap"]
)
def test_cells_too_many_to_sort_are_voted_on_one_by_one(sizes, expensive):
    codes = np.random.default_rng(2).integers(5, size=(2 * FEW_RECORDS, 2)).astype(np.int32)
    np.testing.assert_array_equal(
        per_distinct_row(table_of, codes, sizes, expensive=expensive), table_of(codes)
    )


# Product, posterior and odds votes ----------------------------------------------------------------


def test_attributes_that_are_asked_again_and_again_count_once(car):
    """Ten copies of every stump say the same as one of each."""
    once = stumps(car.domain)
    often = concatenate([once] * 10)
    values = np.random.default_rng(0).uniform(0, 50, size=(once.n_leaves, 4))
    for rule in ("product", "posterior"):
        votes = [
            ensemble_votes(
                [(tuple(range(6)), NoisyLeaves(forest, np.tile(values, (copies, 1)), 4.0))],
                car.codes.astype(np.int32),
                rule,
                "leaves",
            )
            for forest, copies in ((once, 1), (often, 10))
        ]
        np.testing.assert_allclose(votes[0], votes[1], rtol=1e-7)
    assert evidence_scale([(tuple(range(6)), once)]) == 1.0


@pytest.mark.parametrize("rule", ["shares", "posterior"])
def test_leaves_of_noise_alone_add_nothing(rule):
    """One root with signal, leaves that differ by noise only: all leaves say the same."""
    domain = Domain.from_sizes([20, 20], n_classes=2)
    forest = RandomTrees(n_trees=8, max_depth=1).grow(domain, random_state=0)
    noise = np.random.default_rng(0).normal(scale=4.0, size=(forest.n_leaves, 2))
    leaves = NoisyLeaves(forest, np.array([30.0, 10.0]) + noise, 16.0)
    table, _ = leaf_evidence(leaves, rule, "leaves")
    spread = max(np.ptp(table[forest.leaf_tree == t], axis=0).max() for t in range(8))
    assert spread < (0.06 if rule == "posterior" else 0.02)
    if rule == "posterior":
        np.testing.assert_allclose(table, 0, atol=0.3)  # trees differ in what their roots say
    first = np.where(np.arange(forest.n_leaves) % 2, 35.0, 5.0)
    told = NoisyLeaves(forest, np.stack([first, 40 - first], axis=1) + noise, 16.0)
    # the negative control: leaves that do differ
    assert np.ptp(leaf_evidence(told, rule, "leaves")[0], axis=0).max() > 0.5


def test_several_ensembles_have_one_prior(car):
    """Votes of an ensemble and its copy are the votes of one."""
    forest = stumps(car.domain)
    values = np.random.default_rng(1).uniform(1, 50, size=(forest.n_leaves, 4))
    part = (tuple(range(6)), NoisyLeaves(forest, values, independent_noise(forest, 0.0)))
    codes = car.codes.astype(np.int32)
    one = ensemble_votes([part], codes, "product")
    np.testing.assert_allclose(ensemble_votes([part, part], codes, "product"), one, rtol=1e-9)


def test_leaves_with_noise_of_their_own(car):
    """Votes of a mean over trees have 1/τ of a leaf's variance; without noise there is none."""
    forest = RandomTrees(n_trees=5, max_depth=2).grow(car.domain, random_state=0)
    values = np.zeros((forest.n_leaves, 2))
    noisy = NoisyLeaves(forest, values, 2.0)
    assert noisy.is_noisy is True
    assert np.array_equal(noisy.variances, np.full(forest.n_leaves, 2.0))
    draws = np.random.default_rng(0).normal(size=(4000, 5)) * np.sqrt(2.0)
    assert draws.mean(axis=1).var() == pytest.approx(2.0 * noisy.noise.vote_share, rel=0.1)
    assert NoisyLeaves(forest, values, 0.0).is_noisy is False


# Half-widths of margins ---------------------------------------------------------------------------


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
@pytest.mark.parametrize("budget", [1, 3])
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
    deviation, missed = np.sqrt(2 * noise.variance), miss_probability(level, classes)
    gaussian = kind is DiscreteGaussian
    continuous = margin_quantile(level, classes, gaussian=gaussian) * deviation
    step = noise.largest_weight
    sure = continuous + (1 if is_fine(noise) else SURE) * step
    assert coverage(sure, values, chances) >= 1 - missed
    exact = smallest_width(noise, continuous, missed)
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
    rows = answer_coefficients(one._vote_workload(codes), recovery, np.arange(12))
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


def test_less_noise_than_there_is_withholds_too_little(noisy, exact, monkeypatch):
    """The negative control: with a tenth of the noise, kept labels are hardly better than all."""
    noisy, exact = (one.voted_by("posterior", "none") for one in (noisy, exact))

    def faint(*arguments):
        return 0.1 * fresh_leaf_noise(*arguments)

    wanted = noisy.predict_or_abstain(ASKED, 0.95, random_state=0)
    monkeypatch.setattr("mrf_matrix.voting.voting.fresh_leaf_noise", faint)
    worse = noisy.predict_or_abstain(ASKED, 0.95, random_state=0)
    without = exact.predict(ASKED)
    agree = [(without == labels.data)[~labels.mask].mean() for labels in (wanted, worse)]
    assert agree[0] > 0.95
    assert agree[1] < agree[0] - 0.03


def test_batches_of_draws_are_the_same_votes(noisy, monkeypatch):
    noisy = noisy.voted_by("product", "none")
    one = noisy.predict_or_abstain(CAR.codes[:200], 0.6, n_draws=20, random_state=3)
    monkeypatch.setattr(voting, "ENTRIES", 1)  # one draw at a time: other numbers
    other = noisy.predict_or_abstain(CAR.codes[:200], 0.6, n_draws=20, random_state=3)
    assert abs(one.mask.mean() - other.mask.mean()) < 0.15
