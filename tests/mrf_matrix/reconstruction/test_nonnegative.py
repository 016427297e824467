"""Projections onto simplices, and estimators of tables without negative counts."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure, row_variances
from mrf_matrix.reconstruction import (
    combine,
    nearest_on_simplex,
    nonnegative_least_squares,
    project_to_simplex,
)
from mrf_matrix.reconstruction import feasible_tables as active_cells
from mrf_matrix.reconstruction import feasible_tables as projected_descent
from mrf_matrix.reconstruction.feasible_tables import (
    FeasibleTables,
    constrained_least_squares,
    minimise_by_exchange,
)
from strategies.operators import (
    Dense,
    Grouping,
    Identity,
    Marginals,
    Product,
    RowKronecker,
    RowSpaceError,
    Stack,
    memory_cap,
)

SIZES = (4, 5)
RNG = np.random.default_rng(2)
CODES = np.stack([RNG.integers(0, 2, 40), RNG.integers(0, 3, 40)], axis=1)  # sparse: 6 of 20 cells
LABELS = (CODES[:, 0] + RNG.integers(0, 2, 40)) % 2
COUNTS = count_cells(CODES, LABELS, SIZES, 2)
TABLE = np.zeros((20, 2))
np.add.at(TABLE, (CODES @ [5, 1], LABELS), 1)

IDENTITY = Identity(20, SIZES)
STRATEGIES = {
    "identity": IDENTITY,
    "stack": Stack([IDENTITY, Marginals(SIZES, [(0,), (1,)], [1, 2])]),
    "dense": Dense(RNG.integers(-1, 3, (25, 20))),
    "deficient": Marginals(SIZES, [(0,), (1,)], [1, 2]),
    "merged": Product(
        Dense([[1.0, 2.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 1.0]]),
        Grouping([0, 1, 2, 1] * 5, SIZES),
    ),
}


HALF = PureDP(0.5)


def draw(strategy, seed=0, budget=HALF, counts=COUNTS):
    return measure(strategy, counts, budget, noise="research", random_state=seed)


def brute_projection(vector, total, weights):
    """Minimise over the simplex by trying every support."""
    best, found = inf, None
    n = len(vector)
    for mask in range(1, 2**n):
        on = np.array([mask >> i & 1 for i in range(n)], dtype=bool)
        shift = (vector[on].sum() - total) / (1 / weights[on]).sum()
        point = np.zeros(n)
        point[on] = vector[on] - shift / weights[on]
        if point.min() < -1e-12:
            continue
        distance = float((weights * (point - vector) ** 2).sum())
        if distance < best:
            best, found = distance, point
    return found


@given(
    st.lists(st.floats(-9, 9), min_size=1, max_size=6),
    st.floats(0, 20),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_projection_is_the_nearest_point(values, total, seed, weighted):
    vector = np.array(values)
    weights = np.random.default_rng(seed).uniform(0.2, 5, len(vector))
    metric = weights if weighted else np.ones(len(vector))
    found = project_to_simplex(vector, total, weights=metric if weighted else None)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, abs=1e-9)
    if total > 0:
        assert found == pytest.approx(brute_projection(vector, total, metric), abs=1e-7)


def test_projection_of_tables_is_by_column_or_row():
    table = RNG.normal(size=(7, 3))
    by_column = project_to_simplex(table, [1, 2, 3])
    assert by_column.sum(axis=0) == pytest.approx([1, 2, 3])
    for c in range(3):
        assert by_column[:, c] == pytest.approx(project_to_simplex(table[:, c], c + 1))
    by_row = project_to_simplex(table, 2.0, axis=1, weights=[1, 2, 3])
    assert by_row.sum(axis=1) == pytest.approx(np.full(7, 2))
    assert by_row[0] == pytest.approx(project_to_simplex(table[0], 2.0, weights=[1, 2, 3]))
    inside = project_to_simplex(table, 1.0)
    assert project_to_simplex(inside, 1.0) == pytest.approx(inside, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([],), "values"),
        (([np.nan],), "values"),
        (([1.0], -1), "total"),
        (([1.0, 2.0], [1, 2]), "total"),
        ((np.ones((2, 2, 2)),), "values"),
    ],
)
def test_bad_projections(arguments, match):
    with pytest.raises(ValueError, match=match):
        project_to_simplex(*arguments)
    with pytest.raises(ValueError, match="axis"):
        project_to_simplex([1.0], axis=1)
    with pytest.raises(ValueError, match="weights"):
        project_to_simplex([1.0], weights=[0])


@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.05)])
@pytest.mark.parametrize("name", STRATEGIES)
def test_it_is_the_active_set_solution(name, budget):
    """Against Lawson and Hanson's algorithm over all cells."""
    strategy = STRATEGIES[name]
    release = draw(strategy, 3, budget)
    matrix = release.matrix.to_dense()
    workload = np.random.default_rng(0).integers(0, 3, (6, len(matrix))) @ matrix
    found = nonnegative_least_squares(release, workload)
    cells = np.stack([nnls(matrix, column)[0] for column in release.answers.T], axis=1)
    scale = np.sqrt(release.variance) * np.abs(workload).max()
    assert found.values == pytest.approx(workload @ cells, abs=1e-3 * scale)
    assert found.expected_error is None
    assert "Biased" in found.note


@pytest.mark.parametrize("name", ["identity", "stack", "dense"])
@pytest.mark.parametrize("shared", [True, False])
def test_totals_are_met(name, shared):
    release = draw(STRATEGIES[name], 5)
    asked = {"total": 40} if shared else {"class_totals": TABLE.sum(axis=0)}
    found = nonnegative_least_squares(release, np.eye(20), **asked).values
    assert found.min() >= -1e-9
    if shared:
        assert found.sum() == pytest.approx(40)
    else:
        assert found.sum(axis=0) == pytest.approx(TABLE.sum(axis=0))

    def loss(table):
        return 0.5 * np.square(release.answers - release.matrix.matmat(table)).sum()

    generator = np.random.default_rng(1)
    for _ in range(30):  # no feasible neighbour is better
        other = np.maximum(found + generator.normal(scale=0.5, size=found.shape), 0)
        other *= 40 / other.sum() if shared else TABLE.sum(axis=0) / other.sum(axis=0)
        assert loss(other) >= loss(found) - 1e-6 * abs(loss(found))


def test_descent_agrees_with_a_general_solver():
    matrix, answers = RNG.normal(size=(9, 4)), RNG.normal(size=(9, 1)) * 3
    found = constrained_least_squares(Dense(matrix), answers, FeasibleTables(np.array([2.0])), 1e-3)
    other = minimize(
        lambda x: np.square(matrix @ x - answers[:, 0]).sum(),
        np.full(4, 0.5),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 2},
        options={"ftol": 1e-14},
    )
    assert found[:, 0] == pytest.approx(other.x, abs=1e-5)


def badly_conditioned(seed):
    """Return an integer strategy that hardly measures what most cells differ by."""
    generator = np.random.default_rng(seed)
    return np.vstack([10_000 * generator.integers(0, 2, (12, 20)), np.eye(20, dtype=int)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("known", [{}, {"class_totals": TABLE.sum(axis=0)}, {"total": 40}])
def test_badly_conditioned_strategies_are_exact_too(seed, known, monkeypatch):
    """Where the descent is slow cells are exchanged; the oracle pins totals by a heavy row."""
    matrix = badly_conditioned(seed)
    monkeypatch.setattr(projected_descent, "STEPS", projected_descent.FEW_STEPS)
    release = draw(matrix, seed)
    found = nonnegative_least_squares(release, np.eye(20), **known).values
    if "total" in known:
        rows, answers = np.kron(matrix, np.eye(2)), release.answers.reshape(-1, 1)
    else:
        rows, answers = matrix, release.answers
    heavy = 1e9 * np.ones((1, rows.shape[1]))
    sums = 1e9 * np.atleast_2d(next(iter(known.values()), 0.0))
    if known:
        rows, answers = np.vstack([rows, heavy]), np.vstack([answers, sums])
    cells = np.stack([nnls(rows, column)[0] for column in answers.T], axis=1).reshape(20, 2)
    allowed = 2e-3 * np.sqrt(row_variances(release, np.eye(20)))[:, None] + 1e-6
    assert (np.abs(found - cells) < allowed).all()
    assert np.linalg.cond(matrix / np.linalg.norm(matrix, axis=0)) > 1e4


@pytest.mark.parametrize("sharp", [10, 45, 1e4])
def test_a_release_nearly_without_noise_is_met(sharp):
    """The oracle meets its answers by heavy rows, and fits the noisier ones beside them."""
    rows = Marginals(SIZES, [(0,)], [1])
    releases = [draw(rows, 0, PureDP(sharp)), draw(IDENTITY, 1, PureDP(0.1))]
    found = nonnegative_least_squares(releases, np.eye(20)).values
    matrix = np.vstack([1e5 * rows.to_dense(), np.eye(20)])
    answers = np.vstack([1e5 * releases[0].answers, releases[1].answers])
    cells = np.stack([nnls(matrix, column)[0] for column in answers.T], axis=1)
    assert found == pytest.approx(cells, abs=1e-2 * np.sqrt(releases[1].variance))
    assert found.min() >= 0


def test_exchanges_find_the_best_of_all_supports():
    for seed in range(20):
        generator = np.random.default_rng(seed)
        matrix, answers = generator.normal(size=(6, 4)), generator.normal(size=(6, 2)) * 3
        gram, right = matrix.T @ matrix, matrix.T @ answers
        for tables in (
            FeasibleTables(),
            FeasibleTables(np.array([2.0, 0.0])),
            FeasibleTables(np.array([3.0]), shared=True),
        ):
            start = tables.project(generator.normal(size=(4, 2)), np.ones(4))
            found = minimise_by_exchange(gram, right, tables, start, 0.0)
            assert found.min() >= 0
            assert found == pytest.approx(tables.met(found))
            slope = gram @ found - right
            assert tables.gap(found, slope) == pytest.approx(0, abs=1e-9)
            worse = tables.gap(start, gram @ start - right)  # negative control
            assert worse > 1e-3
            if tables.sums is not None or (found.sum(axis=0) <= 2 * start.sum(axis=0)).all():
                assert np.square(matrix @ (start - found)).sum() / 2 <= worse + 1e-9


def test_exchanges_end_after_the_work_they_may_take(monkeypatch):
    monkeypatch.setattr(active_cells, "MOST_WORK", 0)
    start = np.ones((4, 1))
    found = minimise_by_exchange(np.eye(4), -np.ones((4, 1)), FeasibleTables(), start, 0.0)
    assert np.array_equal(found, start)


def mean_error(estimator, strategy, counts, table, draws=1, epsilon=0.5):
    errors = [
        np.square(estimator(draw(strategy, seed, PureDP(epsilon), counts)).values - table).mean()
        for seed in range(draws)
    ]
    return float(np.mean(errors))


@pytest.mark.parametrize("name", ["identity", "stack"])
def test_on_sparse_data_the_error_is_below_least_squares(name):
    strategy, workload = STRATEGIES[name], np.eye(20)
    totals = TABLE.sum(axis=0)
    estimators = [
        lambda r: combine(r, workload),
        lambda r: nonnegative_least_squares(r, workload),
        lambda r: nonnegative_least_squares(r, workload, class_totals=totals),
        lambda r: nearest_on_simplex(r, workload),
        lambda r: nearest_on_simplex(r, workload, class_totals=totals),
        lambda r: nearest_on_simplex(r, workload, per="cell"),
    ]
    plain, *others = (mean_error(e, strategy, COUNTS, TABLE, draws=60) for e in estimators)
    assert max(others) < 0.8 * plain
    assert others[1] < others[0]  # knowing the totals helps further


def test_sums_of_many_cells_need_totals():
    """Negative control: biases of cells that were measured one by one add up."""
    rows, truth = np.ones((1, 20)), TABLE.sum(axis=0, keepdims=True)
    half = np.repeat([[1.0, 0.0]], 10, axis=1)
    plain = mean_error(lambda r: combine(r, rows), IDENTITY, COUNTS, truth, 60)
    other = mean_error(lambda r: nonnegative_least_squares(r, rows), IDENTITY, COUNTS, truth, 60)
    assert other > 1.5 * plain
    totals = TABLE.sum(axis=0)
    plain = mean_error(lambda r: combine(r, half), IDENTITY, COUNTS, half @ TABLE, 60)
    other = mean_error(
        lambda r: nonnegative_least_squares(r, half, class_totals=totals),
        IDENTITY,
        COUNTS,
        half @ TABLE,
        60,
    )
    assert other < 0.8 * plain


def test_on_dense_data_little_is_gained():
    """Negative control: with 50 records in every cell no estimate is negative."""
    codes = np.stack(np.unravel_index(np.repeat(np.arange(20), 50), SIZES), axis=1)
    counts = count_cells(codes, np.zeros(1000, dtype=int), SIZES, 1)
    table = np.full((20, 1), 50.0)
    plain = mean_error(lambda r: combine(r, np.eye(20)), IDENTITY, counts, table, 60, 2)
    other = mean_error(
        lambda r: nonnegative_least_squares(r, np.eye(20)), IDENTITY, counts, table, 60, 2
    )
    assert other == pytest.approx(plain, rel=1e-6)


def test_bias_is_real():
    """It is why there is no expected error: empty cells are estimated above 0 on average."""
    counts = count_cells(CODES[:1], LABELS[:1], SIZES, 2)
    values = np.mean(
        [nonnegative_least_squares(draw(IDENTITY, s, counts=counts), np.eye(20)).values.mean()
         for s in range(20)]
    )  # fmt: skip
    assert values > 0.3


def test_projection_per_class_on_the_identity_is_constrained_least_squares():
    release = draw(IDENTITY, 9)
    totals = TABLE.sum(axis=0)
    ours = nearest_on_simplex(release, np.eye(20), class_totals=totals)
    other = nonnegative_least_squares(release, np.eye(20), class_totals=totals)
    assert ours.values == pytest.approx(other.values, abs=1e-4)
    cells = nearest_on_simplex(release, np.eye(20), per="cell").values
    sums = np.maximum(release.answers.sum(axis=1), 0)
    assert cells == pytest.approx(project_to_simplex(release.answers, sums, axis=1))


@pytest.mark.parametrize("name", STRATEGIES)
def test_without_noise_the_counts_come_back(name):
    release = measure(STRATEGIES[name], COUNTS, PureDP(inf))
    matrix = release.matrix.to_dense()
    truth = matrix @ TABLE
    found = nonnegative_least_squares(release, matrix).values
    assert found == pytest.approx(truth, abs=1e-4 * truth.max())


def test_refusals():
    release = draw(STRATEGIES["deficient"])
    with pytest.raises(RowSpaceError):
        nonnegative_least_squares(release, np.eye(20))
    with pytest.raises(RowSpaceError):
        nearest_on_simplex(release, release.matrix.to_dense())
    with pytest.raises(ValueError, match="per="):
        nearest_on_simplex(release, release.matrix.to_dense(), per="row")
    with pytest.raises(ValueError, match="class_totals"):
        nearest_on_simplex(draw(IDENTITY), np.eye(20), per="cell", class_totals=[20, 20])
    with memory_cap(500), pytest.raises(ValueError, match="memory cap"):
        nonnegative_least_squares(draw(IDENTITY), np.eye(20))


def test_domains_out_of_reach_are_refused_by_name():
    sizes = (10,) * 25
    counts = count_cells(RNG.integers(0, 10, (20, 25)), np.zeros(20, dtype=int), sizes, 1)
    masks = [np.eye(10, dtype=bool)] + [np.ones((10, 10), dtype=bool)] * 24
    table = RowKronecker.from_masks(masks)
    release = measure(table, counts, PureDP(1), noise="research")
    with pytest.raises(ValueError, match="too many to estimate one by one"):
        nonnegative_least_squares(release, table)


@pytest.mark.parametrize("name", STRATEGIES)
def test_without_noise_all_give_the_counts_themselves(name):
    """At no noise a constraint that holds changes nothing, not even the last digit."""
    release = measure(STRATEGIES[name], COUNTS, PureDP(inf))
    rows = np.rint(release.matrix.to_dense())
    sums = TABLE.sum(axis=0)
    for known in ({}, {"class_totals": sums}, {"total": 40}):
        found = nonnegative_least_squares(release, rows, **known)
        assert np.array_equal(found.values, rows @ TABLE)
        assert found.expected_error == 0
    if name != "deficient":
        for asked in ({}, {"per": "cell"}, {"class_totals": sums}):
            found = nearest_on_simplex(release, rows, **asked)
            assert np.array_equal(found.values, rows @ TABLE)


def test_a_false_total_is_used_without_noise_too():
    """Negative control: the counts are exact only if what is known agrees with them."""
    release = measure(IDENTITY, COUNTS, PureDP(inf))
    found = nonnegative_least_squares(release, np.eye(20), total=80)
    assert found.values.sum() == pytest.approx(80)
    assert found.expected_error is None
    near = nearest_on_simplex(release, np.eye(20), class_totals=TABLE.sum(axis=0) + 20)
    assert near.values == pytest.approx(TABLE + 1)
