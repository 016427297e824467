"""Scores from the release alone: unbiased where naive ones flatter, and refusals by name."""

import numpy as np
import pytest

from mrf_matrix import Domain, PureDP, RandomTrees, load_dataset, measure
from mrf_matrix.choosing import ForestChoice, choose_forest
from mrf_matrix.choosing.cell_race import CellRace
from mrf_matrix.choosing.cell_recovery import CellRecovery
from mrf_matrix.choosing.cell_scores import PickedSums, picks
from mrf_matrix.choosing.choose_forest import RULES
from mrf_matrix.choosing.coupled_bootstrap import noisy_cells
from mrf_matrix.estimators import from_release
from mrf_matrix.forests import concatenate
from mrf_matrix.mechanisms import CellCounts, count_cells
from strategies.operators import Identity, Marginals, MemoryCapError, RowSpaceError, memory_cap

SIZES = (3, 4, 3)
N = 36
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
CODES = np.stack(np.unravel_index(np.arange(N), SIZES), axis=1)
CELLS = Identity(N, SIZES)
WITH_TOTALS = Marginals(SIZES, [(), (0, 1, 2)], [0.2, 0.8])
INFINITE = PureDP(float("inf"))


def expected_counts(seed=0):
    """Two attributes tell the class apart."""
    generator = np.random.default_rng(seed)
    share = 1 / (1 + np.exp(-1.5 * (CODES[:, 0] - 1) - (CODES[:, 1] > 1)))
    weight = generator.gamma(2.0, 5.0, size=N)
    return np.stack([weight * share, weight * (1 - share)], axis=1)


def released(mean, budget, seed, matrix=CELLS):
    counts = np.random.default_rng([seed, 7]).poisson(mean)
    noise = {"noise": "research", "random_state": seed}
    return measure(matrix, CellCounts(CODES, counts, SIZES), budget, **noise)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize("matrix", [CELLS, WITH_TOTALS], ids=["cells", "with totals"])
def test_train_and_test_tables_have_unrelated_errors(matrix, gamma):
    """Unbiased, and uncorrelated also in sums; the release itself is the negative control."""
    mean, generator = expected_counts(), np.random.default_rng(0)
    errors = []
    for seed in range(300):
        cells = noisy_cells(released(mean, PureDP(0.5), seed, matrix))
        train, test = cells.split(gamma, generator)
        parts = [table - mean for table in (train, test, cells.values)]
        errors.append([(part[0, 0], part[:12].sum()) for part in parts])
    train, test, given = np.moveaxis(np.array(errors), 1, 0)
    for i in range(2):
        assert abs(np.corrcoef(train[:, i], test[:, i])[0, 1]) < 0.2
        assert np.corrcoef(train[:, i], given[:, i])[0, 1] > 0.6
        for table in (train, test):
            assert abs(table[:, i].mean()) < 4 * table[:, i].std() / np.sqrt(300)


@pytest.mark.parametrize("budget", [PureDP(0.3), PureDP(2), INFINITE], ids=repr)
def test_scores_are_unbiased_and_naive_ones_flatter(budget):
    """Against the accuracy on fresh records of the very labels that were learned."""
    mean, generator, gamma = expected_counts(), np.random.default_rng(0), 1.0
    forest = RandomTrees(8, 3).grow(DOMAIN, random_state=0)
    corrected, naive = [], []
    for seed in range(80):
        cells = noisy_cells(released(mean, budget, seed))
        race, rows = CellRace.of(forest, cells.recovery), np.arange(N)
        train, test = cells.split(gamma, generator)
        learned = race.labels(train, 1 + gamma, RULES)
        corrected.append([(test - mean)[rows, labels].sum() for labels in learned])
        own = race.labels(cells.values, 1.0, RULES)
        naive.append([(cells.values - mean)[rows, labels].sum() for labels in own])
    for i, rule in enumerate(RULES):
        off, flattered = np.array(corrected)[:, i], np.array(naive)[:, i]
        slack = 0.01 * mean.sum()  # sampling variances are estimated
        assert abs(off.mean()) < 3.5 * off.std() / np.sqrt(80) + slack, rule
        assert flattered.mean() > 3.5 * flattered.std() / np.sqrt(80), rule


@pytest.mark.parametrize("public", [False, True], ids=["own N", "public N"])
@pytest.mark.parametrize("matrix", [CELLS, WITH_TOTALS], ids=["cells", "with totals"])
def test_standard_errors_are_those_of_scores(matrix, public):
    """Against the accuracy of the labels themselves on fresh records.

    Cells taken for independent, and N for known, are the negative control.
    """
    mean, forest = expected_counts(), RandomTrees(4, 2).grow(DOMAIN, random_state=0)
    off, claimed, apart = [], [], []
    for seed in range(150):
        cells = noisy_cells(released(mean, PureDP(0.5), seed, matrix))
        race, generator = CellRace.of(forest, cells.recovery), np.random.default_rng(seed)
        sums, picked = PickedSums(cells, 1.0), np.zeros(mean.shape)
        for _ in range(5):
            train, test = cells.split(1.0, generator)
            mine = picks(race.labels(train, 2.0, [("weight", "none")])[0], 2)
            sums.add(mine, test)
            picked += mine / 5
        known = np.random.default_rng([seed, 7]).poisson(mean).sum()  # as `released` draws them
        number = known if public else cells.n_records()[0]
        share = sums.mean / number
        off.append(share - (picked * mean).sum() / mean.sum())
        error = sums.error(noise_centre=0.0 if public else share, centre=share)
        claimed.append(error / number)
        variances = cells.recovery.noise[:, None] + cells.sampling
        apart.append(np.sqrt(((picked**2 + picked / 5) * variances).sum()) / number)
    assert 0.85 < np.mean(claimed) / np.std(off) < 1.15
    assert public or np.mean(apart) / np.std(off) > (1.4 if matrix is WITH_TOTALS else 1.05)


@pytest.mark.parametrize(
    "matrix",
    [
        CELLS, WITH_TOTALS, Marginals(SIZES, [(0,), (0, 1, 2), (1, 2)], [0.3, 0.5, 0.2]),
        np.vstack([np.eye(N), np.ones((1, N)), np.tri(3, N)]),
    ],
    ids=["cells", "with totals", "marginals", "explicit"],
)  # fmt: skip
def test_noise_of_sums_is_that_of_the_recovery(matrix):
    """Against the dense pseudo-inverse; independent cells are the negative control."""
    release = released(expected_counts(), PureDP(1), 0, matrix)
    recovery = CellRecovery.of(release.mechanism, SIZES, 2)
    weights = np.random.default_rng(0).normal(2, 0.3, size=(N, 3))
    inverse = np.linalg.pinv(release.matrix.to_dense())
    expected = release.variance * ((inverse.T @ weights) ** 2).sum(axis=0)
    np.testing.assert_allclose(recovery.noise_of_sums(weights), expected, rtol=1e-8)
    apart = (weights**2 * recovery.noise[:, None]).sum(axis=0)
    assert matrix is CELLS or (apart > 1.5 * expected).all()
    total = release.variance * 2 * (inverse.sum(axis=0) ** 2).sum()
    assert recovery.noise_of_total == pytest.approx(total)


def test_scores_have_no_scale_where_the_release_does_not_tell_the_number_of_records():
    """Dividing by max(1, N) once gave scores of hundreds."""
    release = released(expected_counts() * 0.1, PureDP(0.005), 0)
    choice = choose_forest(release, DOMAIN, n_trees=4, n_draws=3)
    for row in choice.table:
        assert np.isnan([row.score, row.std_error, row.lead, row.lead_error]).all()
        assert "no score" in repr(row)
    assert "does not tell the number of records" in repr(choice)
    assert len(choice.to_rows()) == len(choice.table)
    public = choose_forest(release, DOMAIN, n_trees=4, n_draws=3, n_records=40)
    assert public.n_records == 40
    assert np.isfinite([row.score for row in public.table]).all()
    assert public.chosen == choice.chosen  # the number divides all alike


@pytest.mark.parametrize(
    ("budget", "noise", "words"),
    [
        (PureDP(1), "research", "NOT A PRIVATE RELEASE: research noise"),
        (INFINITE, "research", "NOT PRIVATE: no noise"),
        (PureDP(1), "exact", None),
    ],
)
def test_displays_say_when_the_release_is_not_private(budget, noise, words):
    counts = CellCounts(CODES, np.rint(expected_counts()).astype(np.int64), SIZES)
    choice = choose_forest(measure(CELLS, counts, budget, noise=noise), DOMAIN, n_trees=2)
    for text in (repr(choice), repr(choice.best)):
        assert "NOT" not in text if words is None else words in text
    assert choice.to_rows()[0]["noise"] == choice.noise


def test_what_scoring_needs_is_checked_by_name_before_it_is_made():
    """Labels of all draws and candidates were once kept, unchecked."""
    release = released(expected_counts(), PureDP(1), 0)
    forests = [RandomTrees(1, 1).grow(DOMAIN)]
    with memory_cap(2 * N * 2 * 8 * 20):
        choose_forest(release, DOMAIN, forests, n_draws=20)
        with pytest.raises(MemoryCapError, match="noisy tables of all draws"):
            choose_forest(release, DOMAIN, forests, n_draws=21)


def test_the_best_depth_is_found_where_it_is_clear():
    """Exclusive or: no forest of depth 1 can tell."""
    mean = np.full((N, 2), 0.5)
    differ = (CODES[:, 0] > 0) != (CODES[:, 2] > 0)
    mean[np.arange(N), differ.astype(int)] = 25
    choice = choose_forest(released(mean, PureDP(2), 0), DOMAIN, n_trees=24)
    assert choice.depth > 1
    assert choice.best.score > 0.9
    model = from_release(released(mean, PureDP(2), 0), DOMAIN, forest=choice)
    wanted = mean.argmax(axis=1)
    assert (model.predict(CODES) == np.asarray(DOMAIN.classes)[wanted]).mean() > 0.9


def test_the_fallback_is_kept_where_scores_are_noise():
    releases = [released(expected_counts() / 20, PureDP(0.01), seed) for seed in range(12)]
    kept = [choose_forest(one, DOMAIN, n_trees=4, n_draws=3) for one in releases]
    assert np.mean([choice.chosen == choice.fallback for choice in kept]) > 0.5
    fallback = kept[0].table[kept[0].fallback]
    assert (fallback.depth, fallback.voting, fallback.shrinkage) == (2, "shares", "leaves")
    bold = choose_forest(releases[0], DOMAIN, n_trees=4, caution=0, n_records=18)
    assert bold.best.score == max(row.score for row in bold.table)


def test_the_table_tells_all_and_is_reproducible():
    release = released(expected_counts(), PureDP(1), 0)
    first, second = (choose_forest(release, DOMAIN, n_trees=8, n_draws=3) for _ in range(2))
    assert isinstance(first, ForestChoice)
    assert first.table == second.table
    rows = first.to_rows()
    assert len(rows) == 3 * len(RULES)
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
    assert sum(row["chosen"] for row in rows) == 1
    assert f"depth={first.depth}" in repr(first)
    assert rows[0].keys() >= {"depth", "n_trees", "voting", "shrinkage", "std_error", "lead"}


def test_forests_of_several_depths_and_merged_cells_are_scored():
    """Cells that no path tells apart were measured together: forests over them have scores."""
    import strategies
    from mrf_matrix import path_matrix

    forests = [RandomTrees(3, depth, attributes=[0, 1]).grow(DOMAIN, random_state=1)
               for depth in (1, 2)]  # fmt: skip
    mixed = concatenate(forests)
    strategy = strategies.select(path_matrix(mixed), method="identity")
    mean = expected_counts()
    release = measure(
        strategy, CellCounts(CODES, np.rint(mean).astype(int), SIZES), PureDP(2), noise="research",
        random_state=0,
    )  # fmt: skip
    cells = noisy_cells(release)
    assert len(cells.values) < N
    choice = choose_forest(release, DOMAIN, [*forests, mixed])
    assert len(choice.table) == 3 * len(RULES)
    with pytest.raises(RowSpaceError):
        choose_forest(release, DOMAIN, [RandomTrees(3, 3).grow(DOMAIN, random_state=1)])


def test_what_cannot_be_scored_is_refused_by_name():
    release = released(expected_counts(), PureDP(1), 0)
    stumps = Marginals(SIZES, [(0,), (1,), (2,)], [1, 1, 1])
    with pytest.raises(RowSpaceError, match="single cells"):
        choose_forest(released(expected_counts(), PureDP(1), 0, stumps), DOMAIN)
    with pytest.raises(TypeError, match="Release"):
        choose_forest(DOMAIN, DOMAIN)
    with pytest.raises(ValueError, match="domain=None"):
        choose_forest(release)
    with pytest.raises(MemoryCapError), memory_cap(500):
        choose_forest(release, DOMAIN)
    for name, value in {
        "gamma": 0, "caution": -1, "n_draws": 0, "n_records": 0, "votings": ["loud"],
        "shrinkages": ["all"], "forests": [], "depths": [-1],
    }.items():  # fmt: skip
        with pytest.raises(
            ValueError, match=r"gamma|caution|n_draws|n_records|voting|shrink|forest|depth"
        ):
            choose_forest(release, DOMAIN, n_trees=2, **{name: value})
    other = RandomTrees(1, 1).grow(Domain.from_sizes([2, 2]), random_state=0)
    with pytest.raises(ValueError, match=r"forests\[0\] is over"):
        choose_forest(release, DOMAIN, [other])
    with pytest.raises(TypeError, match=r"forests\[0\]"):
        choose_forest(release, DOMAIN, [RandomTrees(1, 1)])


def test_scores_agree_with_fresh_records_on_car():
    """The corrected score is within three errors of the truth; the naive one far above it."""
    car = load_dataset("car")
    order = np.random.default_rng(0).permutation(len(car.codes))
    train, test = order[:1300], order[1300:]
    domain = Domain.from_sizes(car.domain.sizes, n_classes=4)
    counts = count_cells(car.codes[train], car.labels[train], domain.sizes, 4)
    release = measure(
        Identity(domain.size, domain.sizes), counts, PureDP(1), noise="research", random_state=0
    )
    choice = choose_forest(release, domain, depths=[2, 4], n_trees=32, n_draws=4)
    for row in choice.table:
        model = from_release(
            release, domain, forest=choice.forests[row.forest], voting=row.voting,
            shrinkage=row.shrinkage,
        )  # fmt: skip
        truth = (model.predict(car.codes[test]) == car.labels[test]).mean()
        assert abs(row.score - truth) < 3 * row.std_error + 0.03
    flattered = [row.naive_score - row.score for row in choice.table if row.depth == 4]
    assert max(flattered) > 0.2
