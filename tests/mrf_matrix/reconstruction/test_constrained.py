"""Least squares under a user's constraints, against closed forms and other estimators."""

from inspect import isfunction, signature
from math import inf

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression, nnls

from mrf_matrix import Domain, RandomTrees, reconstruction
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure
from mrf_matrix.reconstruction import (
    Estimate,
    combine,
    equal_to,
    least_squares,
    nearest_on_simplex,
    nonnegative_least_squares,
    project_to_simplex,
    rising,
    shrink_leaves,
    with_known_totals,
)
from strategies.operators import (
    Dense,
    Grouping,
    Identity,
    Marginals,
    MemoryCapError,
    Product,
    RowKronecker,
    RowSpaceError,
    Stack,
    memory_cap,
)

N = 9
RNG = np.random.default_rng(4)
CODES = RNG.integers(0, N, (60, 1))
LABELS = RNG.integers(0, 2, 60)
COUNTS = count_cells(CODES, LABELS, (N,), 2)
TABLE = np.zeros((N, 2))
np.add.at(TABLE, (CODES[:, 0], LABELS), 1)
PREFIXES = np.tril(np.ones((N, N)))
TREE = np.vstack([np.eye(N), np.kron(np.eye(3), np.ones((1, 3)))])
TOTALS = TABLE.sum(axis=0)


def draw(strategy, seed, budget=None):
    budget = PureDP(1) if budget is None else budget
    return measure(strategy, COUNTS, budget, noise="research", random_state=seed)


@given(st.integers(0, 10**6))
@example(8192)  # the solver's longest steps run in a circle
def test_rising_cells_are_isotonic_regression(seed):
    release = draw(np.eye(N), seed)
    found = least_squares(release, np.eye(N), rising(np.eye(N))).values
    for column, noisy in zip(found.T, release.values.T, strict=True):
        np.testing.assert_allclose(column, isotonic_regression(noisy).x, atol=2e-3)


@given(st.integers(0, 10**6))
def test_equalities_are_projections(seed):
    """In the metric AᵀA, the nearest table with ``E X = b``, written out."""
    rng = np.random.default_rng(seed)
    E, b = rng.integers(-1, 2, (2, N)) + np.eye(2, N), rng.normal(size=(2, 2))
    release = draw(TREE, seed)
    found = least_squares(release, TREE, equal_to(E, b)).values
    free = np.linalg.pinv(TREE) @ release.values
    inverse = np.linalg.inv(TREE.T @ TREE)
    moved = inverse @ E.T @ np.linalg.pinv(E @ inverse @ E.T) @ (b - E @ free)
    np.testing.assert_allclose(found, TREE @ (free + moved), atol=1e-6)


@pytest.mark.parametrize(
    ("plain", "known"),
    [
        (combine, {}),
        (with_known_totals, {"class_totals": TOTALS}),
        (with_known_totals, {"total": 60.0}),
        (nonnegative_least_squares, {}),
        (nonnegative_least_squares, {"class_totals": TOTALS}),
        (nonnegative_least_squares, {"total": 60.0}),
    ],
)
def test_the_plain_estimators_are_the_same(plain, known):
    """By themselves, and beside a constraint that says nothing."""
    releases = [draw(TREE, 1), draw(np.eye(N), 2, ZCDP(0.5))]
    nonnegative = plain is nonnegative_least_squares
    expected = plain(releases, TREE, **known)
    same = least_squares(releases, TREE, nonnegative=nonnegative, **known)
    asked = least_squares(
        releases, TREE, lambda counts: [counts <= 1e4], nonnegative=nonnegative, **known
    )
    np.testing.assert_array_equal(same.values, expected.values)
    np.testing.assert_allclose(asked.values, expected.values, atol=2e-4)
    assert same.method == expected.method
    assert asked.expected_error is None


def test_all_constraints_are_met_at_once():
    published = draw(np.kron(np.eye(3), np.ones((1, 3))), 5).values
    thirds = np.kron(np.eye(3), np.ones((1, 3)))
    found = least_squares(
        draw(TREE, 6),
        np.eye(N),
        [equal_to(thirds, np.maximum(published, 0)), rising(np.eye(N)[:3])],
        nonnegative=True,
    )
    assert found.values.min() >= 0
    np.testing.assert_allclose(thirds @ found.values, np.maximum(published, 0), atol=1e-6)
    assert np.diff(found.values[:3], axis=0).min() >= -1e-6


def test_true_constraints_lower_the_error_and_false_ones_raise_it():
    order = np.argsort(TABLE[:, 0] + TABLE[:, 1])
    rows = np.eye(N)[order]
    both = TABLE.sum(axis=1, keepdims=True)
    counts = count_cells(CODES, np.zeros(60, int), (N,), 1)
    free = right = wrong = 0.0
    for seed in range(6):
        release = measure(np.eye(N), counts, PureDP(0.3), noise="research", random_state=seed)
        free += np.sum((release.values - both) ** 2)
        right += np.sum((least_squares(release, np.eye(N), rising(rows)).values - both) ** 2)
        wrong += np.sum(
            (least_squares(release, np.eye(N), equal_to(rows[:1], [[60.0]])).values - both) ** 2
        )
    assert right < 0.8 * free < free < wrong


def test_without_noise_counts_come_back():
    exact = measure(TREE, COUNTS, PureDP(inf), noise="exact")
    found = least_squares(exact, np.eye(N), equal_to(np.ones((1, N)), [TOTALS]))
    np.testing.assert_array_equal(found.values, TABLE)


def test_nonsense_is_refused_by_name():
    release = draw(PREFIXES, 0)
    with pytest.raises(ValueError, match="nothing meets all"):
        least_squares(release, PREFIXES, equal_to(np.ones((1, N)), [[-1, 1]]), nonnegative=True)
    with pytest.raises(TypeError, match="affine cvxpy"):
        least_squares(release, PREFIXES, lambda counts: [counts**2 <= 1])
    with pytest.raises(ValueError, match="values has shape"):
        equal_to(np.eye(N), np.ones(N))
    with pytest.raises(ValueError, match="exactly one"):
        least_squares(release, PREFIXES, rising(PREFIXES), class_totals=TOTALS, total=60)
    with pytest.raises(RowSpaceError):
        least_squares(draw(np.ones((1, N)), 0), PREFIXES, rising(PREFIXES))
    with memory_cap(100), pytest.raises(MemoryCapError):
        least_squares(release, PREFIXES, rising(PREFIXES))


# Displays ----------------------------------------------------------------------------------------


FEW_COUNTS = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
ASKED = np.eye(3)
ONE = PureDP(1)
STUMP = RandomTrees(n_trees=1, max_depth=1).grow(Domain.from_sizes([3]))

# name -> releases to an Estimate
ESTIMATORS = {
    "combine": lambda releases: combine(releases, ASKED),
    "nonnegative_least_squares": lambda releases: nonnegative_least_squares(releases, ASKED),
    "nearest_on_simplex": lambda releases: nearest_on_simplex(releases, ASKED),
    "with_known_totals": lambda releases: with_known_totals(releases, ASKED, class_totals=[3]),
    "with_known_totals, faint": lambda releases: with_known_totals(
        [releases], [[1, 0, 0]], total=3
    ),
    "least_squares": lambda releases: least_squares(releases, ASKED, rising(ASKED)),
    "shrink_leaves": lambda releases: shrink_leaves(STUMP, releases),
}


def release(noise, budget=ONE):
    return measure(np.eye(3), FEW_COUNTS, budget, noise=noise)


def test_every_function_that_returns_an_estimate_is_in_the_table():
    functions = [
        name for name in reconstruction.__all__ if isfunction(getattr(reconstruction, name))
    ]
    kinds = {name: signature(getattr(reconstruction, name)).return_annotation for name in functions}
    classes = {name: kind for name, kind in kinds.items() if isinstance(kind, type)}
    returning = {name for name, kind in classes.items() if issubclass(kind, Estimate)}
    assert returning == {name.split(",")[0] for name in ESTIMATORS}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("budget", [ONE, ZCDP(1)])
def test_research_noise_is_named(name, budget):
    shown = repr(ESTIMATORS[name](release("research", budget)))
    assert "NOT A PRIVATE RELEASE" in shown
    assert "(research noise)" in shown
    assert "NOT A PRIVATE" not in repr(ESTIMATORS[name](release("exact", budget)))


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_missing_noise_is_named(name):
    shown = repr(ESTIMATORS[name](release("exact", PureDP(inf))))
    assert "NOT A PRIVATE RELEASE: no noise was added" in shown


@pytest.mark.parametrize("name", ["combine", "nonnegative_least_squares"])
def test_one_release_of_research_noise_among_private_ones_is_enough(name):
    both = [release("exact"), release("research")]
    shown = repr(ESTIMATORS[name](both))
    assert "NOT A PRIVATE RELEASE" in shown
    assert "(research noise)" in shown
    assert "NOT A PRIVATE" not in repr(ESTIMATORS[name](both[:1] * 2))


def test_an_estimate_of_unknown_origin_claims_nothing():
    shown = repr(Estimate(values=np.ones((2, 1)), variances=None, method="a rule", note="Rough."))
    assert shown == "Estimate(2 x 1, a rule, no expected error. Rough)"


# Tables without negative counts -------------------------------------------------------------------

SIZES = (4, 5)
POSITIVE_RNG = np.random.default_rng(2)
POSITIVE_CODES = np.stack(
    [POSITIVE_RNG.integers(0, 2, 40), POSITIVE_RNG.integers(0, 3, 40)], axis=1
)  # sparse: 6 of 20 cells
POSITIVE_LABELS = (POSITIVE_CODES[:, 0] + POSITIVE_RNG.integers(0, 2, 40)) % 2
POSITIVE_COUNTS = count_cells(POSITIVE_CODES, POSITIVE_LABELS, SIZES, 2)
POSITIVE_TABLE = np.zeros((20, 2))
np.add.at(POSITIVE_TABLE, (POSITIVE_CODES @ [5, 1], POSITIVE_LABELS), 1)

IDENTITY = Identity(20, SIZES)
STRATEGIES = {
    "identity": IDENTITY,
    "stack": Stack([IDENTITY, Marginals(SIZES, [(0,), (1,)], [1, 2])]),
    "dense": Dense(POSITIVE_RNG.integers(-1, 3, (25, 20))),
    "deficient": Marginals(SIZES, [(0,), (1,)], [1, 2]),
    "merged": Product(
        Dense([[1.0, 2.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 1.0]]),
        Grouping([0, 1, 2, 1] * 5, SIZES),
    ),
}


HALF = PureDP(0.5)


def positive_draw(strategy, seed=0, budget=HALF, counts=POSITIVE_COUNTS):
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
    table = POSITIVE_RNG.normal(size=(7, 3))
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
    release = positive_draw(strategy, 3, budget)
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
    release = positive_draw(STRATEGIES[name], 5)
    asked = {"total": 40} if shared else {"class_totals": POSITIVE_TABLE.sum(axis=0)}
    found = nonnegative_least_squares(release, np.eye(20), **asked).values
    assert found.min() >= -1e-9
    if shared:
        assert found.sum() == pytest.approx(40)
    else:
        assert found.sum(axis=0) == pytest.approx(POSITIVE_TABLE.sum(axis=0))

    def loss(table):
        return 0.5 * np.square(release.answers - release.matrix.matmat(table)).sum()

    generator = np.random.default_rng(1)
    for _ in range(30):  # no feasible neighbour is better
        other = np.maximum(found + generator.normal(scale=0.5, size=found.shape), 0)
        other *= 40 / other.sum() if shared else POSITIVE_TABLE.sum(axis=0) / other.sum(axis=0)
        assert loss(other) >= loss(found) - 1e-6 * abs(loss(found))


@pytest.mark.parametrize("sharp", [10, 45, 1e4])
def test_a_release_nearly_without_noise_is_met(sharp):
    """The oracle meets its answers by heavy rows, and fits the noisier ones beside them."""
    rows = Marginals(SIZES, [(0,)], [1])
    releases = [positive_draw(rows, 0, PureDP(sharp)), positive_draw(IDENTITY, 1, PureDP(0.1))]
    found = nonnegative_least_squares(releases, np.eye(20)).values
    matrix = np.vstack([1e5 * rows.to_dense(), np.eye(20)])
    answers = np.vstack([1e5 * releases[0].answers, releases[1].answers])
    cells = np.stack([nnls(matrix, column)[0] for column in answers.T], axis=1)
    assert found == pytest.approx(cells, abs=1e-2 * np.sqrt(releases[1].variance))
    assert found.min() >= 0


def mean_error(estimator, strategy, counts, table, draws=1, epsilon=0.5):
    errors = [
        np.square(
            estimator(positive_draw(strategy, seed, PureDP(epsilon), counts)).values - table
        ).mean()
        for seed in range(draws)
    ]
    return float(np.mean(errors))


@pytest.mark.parametrize("name", ["identity", "stack"])
def test_on_sparse_data_the_error_is_below_least_squares(name):
    strategy, workload = STRATEGIES[name], np.eye(20)
    totals = POSITIVE_TABLE.sum(axis=0)
    estimators = [
        lambda r: combine(r, workload),
        lambda r: nonnegative_least_squares(r, workload),
        lambda r: nonnegative_least_squares(r, workload, class_totals=totals),
        lambda r: nearest_on_simplex(r, workload),
        lambda r: nearest_on_simplex(r, workload, class_totals=totals),
        lambda r: nearest_on_simplex(r, workload, per="cell"),
    ]
    plain, *others = (
        mean_error(e, strategy, POSITIVE_COUNTS, POSITIVE_TABLE, draws=30) for e in estimators
    )
    assert max(others) < 0.8 * plain
    assert others[1] < others[0]  # knowing the totals helps further


def test_sums_of_many_cells_need_totals():
    """Negative control: biases of cells that were measured one by one add up."""
    rows, truth = np.ones((1, 20)), POSITIVE_TABLE.sum(axis=0, keepdims=True)
    half = np.repeat([[1.0, 0.0]], 10, axis=1)
    plain = mean_error(lambda r: combine(r, rows), IDENTITY, POSITIVE_COUNTS, truth, 60)
    other = mean_error(
        lambda r: nonnegative_least_squares(r, rows), IDENTITY, POSITIVE_COUNTS, truth, 60
    )
    assert other > 1.5 * plain
    totals = POSITIVE_TABLE.sum(axis=0)
    plain = mean_error(
        lambda r: combine(r, half), IDENTITY, POSITIVE_COUNTS, half @ POSITIVE_TABLE, 60
    )
    other = mean_error(
        lambda r: nonnegative_least_squares(r, half, class_totals=totals),
        IDENTITY,
        POSITIVE_COUNTS,
        half @ POSITIVE_TABLE,
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
    counts = count_cells(POSITIVE_CODES[:1], POSITIVE_LABELS[:1], SIZES, 2)
    releases = [positive_draw(IDENTITY, seed, counts=counts) for seed in range(20)]
    found = [nonnegative_least_squares(one, np.eye(20)).values.mean() for one in releases]
    assert np.mean(found) > 0.3


def test_projection_per_class_on_the_identity_is_constrained_least_squares():
    release = positive_draw(IDENTITY, 9)
    totals = POSITIVE_TABLE.sum(axis=0)
    ours = nearest_on_simplex(release, np.eye(20), class_totals=totals)
    other = nonnegative_least_squares(release, np.eye(20), class_totals=totals)
    assert ours.values == pytest.approx(other.values, abs=1e-4)
    cells = nearest_on_simplex(release, np.eye(20), per="cell").values
    sums = np.maximum(release.answers.sum(axis=1), 0)
    assert cells == pytest.approx(project_to_simplex(release.answers, sums, axis=1))


def test_refusals():
    release = positive_draw(STRATEGIES["deficient"])
    with pytest.raises(RowSpaceError):
        nonnegative_least_squares(release, np.eye(20))
    with pytest.raises(RowSpaceError):
        nearest_on_simplex(release, release.matrix.to_dense())
    with pytest.raises(ValueError, match="per="):
        nearest_on_simplex(release, release.matrix.to_dense(), per="row")
    with pytest.raises(ValueError, match="class_totals"):
        nearest_on_simplex(positive_draw(IDENTITY), np.eye(20), per="cell", class_totals=[20, 20])
    with memory_cap(500), pytest.raises(ValueError, match="memory cap"):
        nonnegative_least_squares(positive_draw(IDENTITY), np.eye(20))


def test_domains_out_of_reach_are_refused_by_name():
    sizes = (10,) * 25
    counts = count_cells(POSITIVE_RNG.integers(0, 10, (20, 25)), np.zeros(20, dtype=int), sizes, 1)
    masks = [np.eye(10, dtype=bool)] + [np.ones((10, 10), dtype=bool)] * 24
    table = RowKronecker.from_masks(masks)
    release = measure(table, counts, PureDP(1), noise="research")
    with pytest.raises(ValueError, match="too many to estimate one by one"):
        nonnegative_least_squares(release, table)


@pytest.mark.parametrize("name", STRATEGIES)
def test_without_noise_all_give_the_counts_themselves(name):
    """At no noise a constraint that holds changes nothing, not even the last digit."""
    release = measure(STRATEGIES[name], POSITIVE_COUNTS, PureDP(inf))
    rows = np.rint(release.matrix.to_dense())
    sums = POSITIVE_TABLE.sum(axis=0)
    for known in ({}, {"class_totals": sums}, {"total": 40}):
        found = nonnegative_least_squares(release, rows, **known)
        assert np.array_equal(found.values, rows @ POSITIVE_TABLE)
        assert found.expected_error == 0
    if name != "deficient":
        for asked in ({}, {"per": "cell"}, {"class_totals": sums}):
            found = nearest_on_simplex(release, rows, **asked)
            assert np.array_equal(found.values, rows @ POSITIVE_TABLE)


def test_a_false_total_is_used_without_noise_too():
    """Negative control: the counts are exact only if what is known agrees with them."""
    release = measure(IDENTITY, POSITIVE_COUNTS, PureDP(inf))
    found = nonnegative_least_squares(release, np.eye(20), total=80)
    assert found.values.sum() == pytest.approx(80)
    assert found.expected_error is None
    near = nearest_on_simplex(release, np.eye(20), class_totals=POSITIVE_TABLE.sum(axis=0) + 20)
    assert near.values == pytest.approx(POSITIVE_TABLE + 1)
