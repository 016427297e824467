"""Generalised least squares over releases, with and without public totals."""

import gc
from math import inf

import numpy as np
import pytest

from mrf_matrix.mechanisms import ZCDP, PureDP, calibrate, count_cells, measure, reconstruct
from mrf_matrix.reconstruction import combine, with_known_totals
from strategies.operators import (
    Dense,
    Gram,
    Grouping,
    Identity,
    Marginals,
    Product,
    RowKronecker,
    RowSpaceError,
    Stack,
)

SIZES = (2, 3)
RNG = np.random.default_rng(8)
CODES = np.stack([RNG.integers(0, size, 60) for size in SIZES], axis=1)
LABELS = RNG.integers(0, 2, 60)
COUNTS = count_cells(CODES, LABELS, SIZES, 2)
TABLE = np.zeros((6, 2))
np.add.at(TABLE, (CODES @ [3, 1], LABELS), 1)

IDENTITY = Identity(6, SIZES)
MARGINALS = Marginals(SIZES, [(0,), (1,)], [1, 2])
GROUPS = Product(Dense([[1.0, 2.0], [0.0, 3.0]]), Grouping([0, 1, 1, 0, 0, 1], SIZES))
MIXED = Dense(RNG.integers(-2, 3, (7, 6)))
# name -> [(strategy, budget)]
DESIGNS = {
    "one": [(MIXED, PureDP(1))],
    "same strategy twice": [(IDENTITY, PureDP(1)), (IDENTITY, PureDP(0.25))],
    "different": [(IDENTITY, PureDP(1)), (MARGINALS, PureDP(2)), (IDENTITY, PureDP(0.5))],
    "laplace and gaussian": [(IDENTITY, PureDP(1)), (MIXED, ZCDP(0.5))],
    "only together": [(Dense(np.eye(6)[:3]), PureDP(1)), (Dense(np.eye(6)[2:]), PureDP(0.5))],
    "deficient": [(MARGINALS, PureDP(1)), (GROUPS, ZCDP(1))],
    "merged": [(GROUPS, PureDP(1)), (Dense([[1, 2, 2, 1, 1, 2]]), PureDP(0.5))],
}


def mechanisms(name):
    return [calibrate(strategy, budget) for strategy, budget in DESIGNS[name]]


def draw(parts, seed=None, counts=COUNTS):
    generator = np.random.default_rng(seed)
    return [
        measure(part, counts, noise="research", random_state=generator.integers(2**60))
        for part in parts
    ]


def whitened(parts):
    """Return the brute-force pair: the stacked matrix over deviations, and the deviations."""
    deviations = [np.full(p.rounded.matrix.shape[0], np.sqrt(p.law.variance)) for p in parts]
    matrix = np.concatenate([p.rounded.recovery.to_dense() for p in parts])
    deviation = np.concatenate(deviations)
    return matrix / deviation[:, None], deviation


def determined(parts, rows=5):
    """Return queries in the row space of the strategies together."""
    matrix, _ = whitened(parts)
    mix = np.random.default_rng(3).normal(size=(rows, len(matrix)))
    return mix @ matrix


@pytest.mark.parametrize("name", DESIGNS)
def test_it_is_weighted_least_squares(name):
    parts = mechanisms(name)
    matrix, deviation = whitened(parts)
    releases = draw(parts, 0)
    workload = determined(parts)
    inverse = np.linalg.pinv(matrix, rcond=1e-10)
    answers = np.concatenate([release.answers for release in releases]) / deviation[:, None]
    found = combine(releases, workload)
    assert found.values == pytest.approx(workload @ inverse @ answers, rel=1e-7, abs=1e-7)
    assert found.variances == pytest.approx(((workload @ inverse) ** 2).sum(axis=1), rel=1e-7)


def draws(parts, seed=0, number=4000):
    """Return releases whose classes are as many independent draws, and the table they are of."""
    table = np.zeros((6, number))
    table[:, 0] = TABLE.sum(axis=1)
    counts = count_cells(CODES, np.zeros(60, dtype=int), SIZES, number)
    return draw(parts, seed, counts), table


@pytest.mark.parametrize("name", DESIGNS)
def test_variances_agree_with_simulation(name):
    parts = mechanisms(name)
    workload = determined(parts)
    releases, table = draws(parts)
    found = combine(releases, workload)
    errors = found.values - workload @ table
    measured = np.mean(errors**2, axis=1)
    assert measured.sum() == pytest.approx(found.variances.sum(), rel=0.03)
    assert np.all(np.abs(errors.mean(axis=1)) < 5 * np.sqrt(found.variances / 4000))
    assert measured.sum() != pytest.approx(1.1 * found.variances.sum(), rel=0.03)


def test_one_release_is_reconstruct():
    release = draw(mechanisms("one"), 1)[0]
    assert np.array_equal(combine(release, np.eye(6)).values, reconstruct(release, np.eye(6)))


@pytest.mark.parametrize("name", DESIGNS)
def test_without_noise_it_is_exact(name):
    releases = [measure(strategy, COUNTS, type(budget)(inf)) for strategy, budget in DESIGNS[name]]
    matrix = np.concatenate([release.matrix.to_dense() for release in releases])
    found = combine(releases, np.rint(matrix))
    assert np.array_equal(found.values, matrix @ TABLE)
    assert found.expected_error == 0


def test_domains_out_of_reach():
    """Row Grams combine two marginals of 25 attributes of ten codes; brute force on the two."""
    sizes = (10,) * 25
    codes = RNG.integers(0, 10, (100, 25))
    counts = count_cells(codes, np.zeros(100, dtype=int), sizes, 1)
    first = [np.eye(10, dtype=bool)] + [np.ones((10, 10), dtype=bool)] * 24
    tables = RowKronecker.from_masks(first), RowKronecker.from_masks(first[1:] + first[:1])
    releases = [
        measure(table, counts, PureDP(epsilon), noise="research", random_state=1)
        for table, epsilon in zip(tables, (1, 2), strict=True)
    ]
    found = combine(releases, tables[0])
    small = np.concatenate([np.kron(np.eye(10), np.ones(10)), np.kron(np.ones(10), np.eye(10))])
    deviation = np.sqrt(np.repeat([release.variance for release in releases], 10))[:, None]
    inverse = np.linalg.pinv(small / deviation, rcond=1e-10)
    answers = np.concatenate([release.answers for release in releases]) / deviation
    assert found.values == pytest.approx(small[:10] @ inverse @ answers, rel=1e-6)
    assert found.variances == pytest.approx(((small[:10] @ inverse) ** 2).sum(axis=1), rel=1e-6)
    known = with_known_totals(releases, tables[0], class_totals=[100])
    assert known.values.sum() == pytest.approx(100)
    assert known.expected_error < found.expected_error


def test_rows_outside_are_refused():
    with pytest.raises(RowSpaceError):
        combine(draw(mechanisms("deficient"), 0), np.eye(6))


@pytest.mark.parametrize(
    ("releases", "error", "match"),
    [
        ([], ValueError, "empty"),
        ([1], TypeError, "expected a Release"),
        (
            [
                measure(IDENTITY, COUNTS, PureDP(1), noise="research"),
                measure(Identity(6), count_cells([[0]], [0], (6,), 2), PureDP(1), noise="research"),
            ],
            ValueError,
            "different domains",
        ),
        (
            [
                measure(IDENTITY, COUNTS, PureDP(1), noise="research"),
                measure(IDENTITY, COUNTS, PureDP(inf)),
            ],
            ValueError,
            "some have noise",
        ),
    ],
)
def test_bad_releases(releases, error, match):
    with pytest.raises(error, match=match):
        combine(releases, np.eye(6))


def test_a_gram_has_no_answers():
    with pytest.raises(TypeError, match="Gram"):
        combine(draw(mechanisms("one"), 0), Gram(np.eye(6)))


def constrained(parts, releases, workload, total_row, known):
    """Return the oracle: least squares under ``1ᵀx = N`` from its KKT system, per class."""
    matrix, deviation = whitened(parts)
    answers = np.concatenate([release.answers for release in releases]) / deviation[:, None]
    n = matrix.shape[1]
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = matrix.T @ matrix
    system[n, :n] = system[:n, n] = total_row
    solved = np.linalg.lstsq(
        system, np.vstack([matrix.T @ answers, np.broadcast_to(known, answers.shape[1])]), None
    )[0]
    map_to = workload @ (np.linalg.pinv(system, rcond=1e-10)[:n, :n] @ matrix.T)
    return workload @ solved[:n], (map_to**2).sum(axis=1)


@pytest.mark.parametrize("name", DESIGNS)
def test_class_totals_are_constrained_least_squares(name):
    parts = mechanisms(name)
    releases = draw(parts, 4)
    workload = determined(parts)
    found = with_known_totals(releases, workload, class_totals=TABLE.sum(axis=0))
    values, variances = constrained(parts, releases, workload, np.ones(6), TABLE.sum(axis=0))
    assert found.values == pytest.approx(values, rel=1e-6, abs=1e-6)
    assert found.variances == pytest.approx(variances, rel=1e-6, abs=1e-8)
    whole = with_known_totals(releases, np.ones((1, 6)), class_totals=TABLE.sum(axis=0))
    assert whole.values == pytest.approx(TABLE.sum(axis=0)[None], rel=1e-9)
    assert whole.variances == pytest.approx([0], abs=1e-8)


@pytest.mark.parametrize("name", ["one", "different", "deficient"])
def test_one_total_over_all_classes(name):
    """The oracle stacks the classes into one vector of cells."""
    parts = mechanisms(name)
    releases = draw(parts, 5)
    workload = determined(parts)
    matrix, deviation = whitened(parts)
    answers = np.concatenate([release.answers for release in releases]) / deviation[:, None]
    n, k = 6, 2
    big = np.kron(np.eye(k), matrix)
    system = np.zeros((n * k + 1, n * k + 1))
    system[:-1, :-1] = big.T @ big
    system[-1, :-1] = system[:-1, -1] = 1
    inverse = np.linalg.pinv(system, rcond=1e-10)
    solved = inverse @ np.append(big.T @ answers.T.ravel(), 60)
    lifted = np.kron(np.eye(k), workload)
    found = with_known_totals(releases, workload, total=60)
    assert found.values.T.ravel() == pytest.approx(lifted @ solved[:-1], rel=1e-6, abs=1e-6)
    spread = lifted @ inverse[:-1, :-1] @ big.T
    assert np.tile(found.variances, k) == pytest.approx((spread**2).sum(axis=1), rel=1e-6)
    whole = with_known_totals(releases, np.ones((1, 6)), total=60)
    assert whole.values.sum() == pytest.approx(60, rel=1e-9)


def test_a_wrong_total_is_biased():
    """Negative control: the constraint is used, not looked up."""
    release = measure(IDENTITY, COUNTS, PureDP(inf))
    found = with_known_totals(release, np.eye(6), class_totals=TABLE.sum(axis=0) + 6)
    assert found.values == pytest.approx(TABLE + 1)


def test_totals_that_are_not_determined_change_nothing():
    releases = draw([calibrate(Dense(np.eye(6)[:3]), PureDP(1))], 0)
    found = with_known_totals(releases, np.eye(6)[:3], total=60)
    assert np.array_equal(found.values, combine(releases, np.eye(6)[:3]).values)
    assert "changes nothing" in found.note


@pytest.mark.parametrize(
    "asked",
    [{}, {"total": 1, "class_totals": [1, 2]}, {"total": -1}, {"class_totals": [1]},
     {"class_totals": [np.nan, 1]}],
)  # fmt: skip
def test_bad_totals(asked):
    with pytest.raises(ValueError, match="total"):
        with_known_totals(draw(mechanisms("one"), 0), np.eye(6), **asked)


def test_stacked_structures_of_one_release():
    strategy = Stack([IDENTITY, MARGINALS])
    release = measure(strategy, COUNTS, PureDP(1), noise="research", random_state=0)
    found = with_known_totals(release, np.eye(6), class_totals=TABLE.sum(axis=0))
    assert found.values.sum(axis=0) == pytest.approx(TABLE.sum(axis=0))


def test_what_is_kept_of_dead_strategies_answers_for_no_other():
    """Partitions come and go beside one lasting release, so that addresses are used again."""
    generator = np.random.default_rng(4)
    codes = np.stack([generator.integers(0, size, 200) for size in (4, 6)], axis=1)
    counts = count_cells(codes, generator.integers(0, 2, 200), (4, 6), 2)
    total = RowKronecker.from_masks([np.ones((1, 4)), np.ones((1, 6))])
    lasting = calibrate(total, PureDP(1))
    for seed in range(4):
        partition = Grouping(generator.permutation(np.arange(24) % 4), (4, 6))
        parts, workload = [lasting, calibrate(partition, PureDP(1))], partition.to_dense()
        releases = draw(parts, seed, counts)
        matrix, deviation = whitened(parts)
        answers = np.concatenate([release.answers for release in releases]) / deviation[:, None]
        found = combine(releases, workload)
        assert found.values == pytest.approx(workload @ np.linalg.pinv(matrix) @ answers)
        known = with_known_totals(releases, workload, class_totals=[100, 100])
        assert known.values.sum(axis=0) == pytest.approx([100, 100])
        del partition, parts, releases
        gc.collect()


@pytest.mark.parametrize("sharp", [20, 45, 300, 1e4])
@pytest.mark.parametrize("other", [IDENTITY, MIXED])
def test_a_release_nearly_without_noise_hides_no_other(sharp, other):
    """The limit of generalised least squares: the sharp answers hold, the rest is fitted."""
    rows = np.kron(np.eye(2), np.ones(3))
    releases = draw([calibrate(Dense(rows), PureDP(sharp)), calibrate(other, PureDP(0.1))], 0)
    found = combine(releases, np.vstack([rows, np.eye(6)]))
    assert found.values[:2] == pytest.approx(releases[0].answers.astype(float), rel=1e-6, abs=1e-6)
    inner, y = other.to_dense(), releases[1].answers
    system = np.block([[inner.T @ inner, rows.T], [rows, np.zeros((2, 2))]])
    wanted = np.linalg.solve(system, np.vstack([inner.T @ y, releases[0].answers]))[:6]
    assert found.values[2:] == pytest.approx(wanted, rel=1e-5, abs=1e-5)
    bare = np.linalg.inv(system)[:6, :6]
    assert found.variances[2:] == pytest.approx(releases[1].variance * np.diag(bare), rel=1e-5)
    assert found.variances[:2].max() < 1e-5 * releases[1].variance


def test_releases_of_one_matrix_without_measurable_noise():
    releases = draw([calibrate(IDENTITY, PureDP(1e4)), calibrate(IDENTITY, PureDP(1))], 0)
    found = combine(releases, np.eye(6))
    assert np.array_equal(found.values, TABLE)
    assert not found.variances.any()


@pytest.mark.parametrize("name", DESIGNS)
def test_true_totals_leave_exact_counts_exact(name):
    releases = [measure(strategy, COUNTS, type(budget)(inf)) for strategy, budget in DESIGNS[name]]
    matrix = np.rint(np.concatenate([release.matrix.to_dense() for release in releases]))
    for known in ({"class_totals": TABLE.sum(axis=0)}, {"total": 60}):
        assert np.array_equal(with_known_totals(releases, matrix, **known).values, matrix @ TABLE)
