"""Reconstruction: least squares over what was measured, exact for every structure."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from math import inf
from typing import NamedTuple

import numpy as np
import pytest
from scipy import io, sparse, stats

import strategies
from mrf_matrix import (
    Domain,
    RandomTrees,
    expected_error,
    from_release,
    load_dataset,
    path_matrix,
    save_release,
)
from mrf_matrix.files import ReleaseFileError
from mrf_matrix.mechanisms import (
    NEIGHBORING,
    ZCDP,
    CellCounts,
    PureDP,
    calibrate,
    claimed_release,
    count_cells,
    measure,
    reconstruct,
    round_strategy,
    row_variances,
)
from mrf_matrix.reconstruction import combine
from strategies import Strategy, examples, select
from strategies.operators import (
    AllRanges,
    Dense,
    Gram,
    Grouping,
    Identity,
    JointMarginals,
    Kronecker,
    Marginals,
    ObliqueResiduals,
    Operator,
    PIdentity,
    PrefixSums,
    Product,
    ProductMarginals,
    RowKronecker,
    RowScaled,
    RowSpaceError,
    Scaled,
    Semiseparable,
    Sparse,
    Stack,
    TableStack,
    Toeplitz,
    error_trace,
    memory_cap,
)

SIZES = (2, 3)
RNG = np.random.default_rng(4)
GROUPS = Grouping([0, 1, 0, 2, 3, 2], SIZES)
PATHS = RowKronecker.from_masks([RNG.random((7, 2)) < 0.7, RNG.random((7, 3)) < 0.7])

STRATEGIES = {
    "identity": Identity(6, SIZES),
    "grouping": GROUPS,
    "dense": Dense(RNG.normal(size=(8, 6))),
    "badly conditioned": Dense(RNG.normal(size=(8, 6)) * np.logspace(0, -4, 6)),
    "deficient": Dense(RNG.integers(-2, 3, (8, 3)) @ RNG.integers(-2, 3, (3, 6))),
    "deficient reals": Dense(RNG.normal(size=(8, 3)) @ RNG.integers(-2, 3, (3, 6))),
    "wide": Dense(RNG.normal(size=(3, 6))),
    "sparse": Sparse(sparse.csr_array(np.tri(6))),
    "paths": PATHS,
    "weighted paths": RowScaled(RNG.random(7) + 0.1, PATHS),
    "marginals": Marginals(SIZES, [(0,), (1,)], [0.3, 0.7]),
    "kronecker": Kronecker([Dense(RNG.random((3, 2))), Dense(RNG.random((4, 3)))]),
    "lifted": Product(Dense(RNG.normal(size=(5, 4))), GROUPS),
    "lifted deficient": Product(Dense(RNG.normal(size=(5, 2)) @ RNG.normal(size=(2, 4))), GROUPS),
    "scaled lifted": Scaled(0.25, Product(Dense(RNG.normal(size=(5, 4))), GROUPS)),
    "stack": Stack([Scaled(0.4, Identity(6, SIZES)), Scaled(0.6, PATHS)]),
}


def counts(n=300, k=2):
    codes = np.stack([RNG.integers(0, size, n) for size in SIZES], axis=1)
    return count_cells(codes, RNG.integers(0, k, n), SIZES, k)


@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.1)])
@pytest.mark.parametrize("name", STRATEGIES)
def test_estimates_are_least_squares(name, budget):
    strategy = STRATEGIES[name]
    release = measure(strategy, counts(), budget, noise="research", random_state=1)
    rows = np.random.default_rng(len(name)).integers(-2, 3, (9, strategy.shape[0]))
    workload = rows @ strategy.to_dense()
    solved = release.mechanism.rounded.recovery.to_dense()
    expected = workload @ (np.linalg.pinv(solved, rcond=1e-9) @ release.answers)
    scale = np.abs(expected).max()
    assert reconstruct(release, workload) == pytest.approx(expected, rel=1e-4, abs=1e-4 * scale)
    squares = ((workload @ np.linalg.pinv(solved, rcond=1e-9)) ** 2).sum(axis=1)
    assert row_variances(release, workload) == pytest.approx(release.variance * squares, rel=1e-5)
    for form in (sparse.csr_array(workload), Dense(workload), workload.tolist()):
        assert np.allclose(reconstruct(release, form), reconstruct(release, workload))


NO_INTEGERS = {"deficient reals", "wide", "lifted deficient", "weighted paths", "marginals"}
"""Row spaces of which no workload of integers is known."""


@pytest.mark.parametrize("name", [one for one in STRATEGIES if one not in NO_INTEGERS])
def test_without_noise_integer_workloads_are_exact(name):
    strategy = STRATEGIES[name]
    data = counts()
    release = measure(strategy, data, PureDP(inf))
    matrix = strategy.to_dense()
    if np.linalg.matrix_rank(matrix, tol=1e-9) == 6:
        workload = RNG.integers(0, 3, (9, 6))
    elif "lifted" in name and "deficient" not in name:
        workload = RNG.integers(0, 3, (9, 4)) @ GROUPS.to_dense().astype(int)
    else:
        assert np.array_equal(matrix, np.rint(matrix))
        workload = RNG.integers(0, 3, (9, len(matrix))) @ matrix.astype(int)
    table = data.answers(Identity(6, SIZES))
    assert np.array_equal(reconstruct(release, workload), workload @ table)


DETERMINED_NOT = [
    name
    for name, strategy in STRATEGIES.items()
    if np.linalg.matrix_rank(strategy.to_dense(), tol=1e-9) < 6
]


@pytest.mark.parametrize("name", DETERMINED_NOT)
def test_rows_outside_the_row_space_are_named(name):
    strategy = STRATEGIES[name]
    release = measure(strategy, counts(), PureDP(1), noise="research", random_state=0)
    workload = RNG.integers(1, 3, (5, strategy.shape[0])) @ strategy.to_dense()
    outside = np.linalg.svd(strategy.to_dense())[2][-1]
    workload[3] += 0.01 * np.abs(workload[3]).max() * outside
    for question in (reconstruct, row_variances):
        with pytest.raises(RowSpaceError, match=r"1 of the workload's 5 rows \(rows 3\)"):
            question(release, workload)


def test_domains_out_of_reach_are_answered_by_rule():
    sizes = (10,) * 25
    codes = RNG.integers(0, 10, (100, 25))
    data = count_cells(codes, np.zeros(100, dtype=int), sizes, 1)
    pair = Marginals(sizes, [(0, 1)], [1])
    release = measure(pair, data, PureDP(inf))
    masks = [np.eye(10, dtype=bool)] + [np.ones((10, 10), dtype=bool)] * 24
    one = RowKronecker.from_masks(masks)
    assert np.array_equal(reconstruct(release, one)[:, 0], np.bincount(codes[:, 0], minlength=10))
    other = RowKronecker.from_masks(masks[1:] + masks[:1])
    with pytest.raises(RowSpaceError):
        reconstruct(release, other)


def test_memory_is_checked_first():
    release = measure(Identity(6, SIZES), counts(), PureDP(1), noise="research")
    with memory_cap(1000), pytest.raises(ValueError, match="memory cap"):
        reconstruct(release, np.ones((200, 6)))


@pytest.mark.parametrize(
    ("workload", "error"),
    [
        (np.ones((2, 5)), ValueError),
        (np.ones(6), ValueError),
        (np.full((1, 6), np.nan), ValueError),
        ("paths", (TypeError, ValueError)),
        (None, (TypeError, ValueError)),
        (np.ones((0, 6)), ValueError),
        (np.ones((2, 6)) * 1j, TypeError),
    ],
)
def test_bad_workloads(workload, error):
    release = measure(Identity(6, SIZES), counts(), PureDP(1), noise="research")
    with pytest.raises(error):
        reconstruct(release, workload)


def test_a_gram_is_no_workload_to_answer():
    release = measure(Identity(6, SIZES), counts(), PureDP(1), noise="research")
    with pytest.raises((TypeError, ValueError)):
        reconstruct(release, Gram(np.eye(6)))


def test_only_releases_are_reconstructed():
    with pytest.raises(TypeError, match="expected a Release"):
        reconstruct(np.ones((6, 2)), np.eye(6))


# Structures, from selection to answers -----------------------------------------------------------


X, Y = np.divmod(np.arange(16), 4)
HALVES = Dense(np.kron(np.eye(3), np.ones((1, 2))))
LATE = Dense(np.kron([[0.0, 1.0]], np.ones((1, 4))))
FEW = Dense([[0, 1, 2, 3, 4, 5], [1, 0, 2, 0, 1, 1]])
WEIGHED = Dense([[5, 3, 1, 2, 0, 4]])


def total(n: int) -> Operator:
    return Grouping(np.zeros(n, dtype=np.int64))


def rows(*blocks: list[Operator]) -> Stack:
    return Stack([Kronecker(factors) for factors in blocks])


def ways(factors: list[Operator], k: int) -> Stack:
    """Return the tables of every k of the attributes."""
    sums = [total(factor.shape[1]) for factor in factors]
    chosen = combinations(range(len(factors)), k)
    return rows(*[[f if i in s else sums[i] for i, f in enumerate(factors)] for s in chosen])


class Case(NamedTuple):
    """A workload, what selects its strategy, and how near the rounded one comes to the loss."""

    form: type[Operator]
    family: object
    norm: str
    sizes: tuple[int, ...]
    workload: Operator
    near: float = 1e-4


PAIRS = Marginals((3, 2, 5), [(0, 1), (1, 2), (2,)], [1.0, 1.0, 1.0])
SUMS = Kronecker([PrefixSums(30), Identity(3)])
OVERLAPPING = TableStack(
    (4, 3, 4),
    [(0, 2), (0, 1), (1, 2)],
    [[t >= X + Y for t in range(7)], np.tri(12), np.random.default_rng(0).integers(0, 3, (2, 12))],
)
CASES = {
    "residuals, l1": Case(ObliqueResiduals, "residual_marginals", "l1", (3, 2, 5), PAIRS),
    "residuals, l2": Case(ObliqueResiduals, "residual_marginals", "l2", (3, 2, 5), PAIRS),
    "oblique": Case(
        ObliqueResiduals,
        "oblique_residuals",
        "l2",
        (6, 4, 3),
        ways([PrefixSums(6), PrefixSums(4), Identity(3)], 2),
    ),
    "oblique, fewer rows than codes": Case(
        ObliqueResiduals,
        "oblique_residuals",
        "l2",
        (6, 4, 3),
        rows([FEW, PrefixSums(4), Identity(3)], [WEIGHED, Identity(4), Dense(np.ones((1, 3)))]),
        3e-3,  # faint rows keep the frames' span
    ),
    "product marginals": Case(
        ProductMarginals,
        "product_marginals",
        "l1",
        (6, 8),
        rows([PrefixSums(6), Identity(8)], [PrefixSums(6), total(8)]),
        1e-3,
    ),
    "joint marginals": Case(
        JointMarginals,
        "product_marginals",
        "l1",
        (6, 8),
        rows([HALVES, PrefixSums(8)], [Identity(6), LATE], [Identity(6), total(8)]),
        1e-3,
    ),
    "bands": Case(Toeplitz, strategies.toeplitz(bands=5), "l2", (30, 3), SUMS),
    "factorisation": Case(
        Semiseparable, strategies.prefix_factorisation(bands=6), "l2", (30, 3), SUMS
    ),
    "overlapping tables": Case(TableStack, "joint_tables", "l2", (4, 3, 4), OVERLAPPING),
    "ordered sums": Case(PIdentity, "ordered_cells", "l1", (80,), examples.prefix_sums(80), 1e-3),
    "ordered ranges": Case(PIdentity, "ordered_cells", "l1", (40,), examples.all_ranges(40), 1e-3),
}
ROUNDED_BY_ENTRIES = {PIdentity, Semiseparable}
BUDGETS: dict[str, Callable[[float], PureDP | ZCDP]] = {"l1": PureDP, "l2": ZCDP}
UNIT = {"l1": 2.0, "l2": 0.5}
"""Variance of a row's noise at a budget of one, in squared sensitivities."""


@cache
def selected(name: str) -> Strategy:
    case = CASES[name]
    return select(case.workload, case.norm, case.family, random_state=0, time_limit=1)


def drawn_counts(sizes: tuple[int, ...]) -> CellCounts:
    codes = np.random.default_rng(0).integers(0, sizes, size=(400, len(sizes)))
    return count_cells(codes, np.zeros(400, dtype=int), sizes, 1)


def leading(matrix: Operator) -> Operator:
    return matrix.factors[0] if isinstance(matrix, Kronecker) else matrix


def truth(case: Case) -> np.ndarray:
    table = drawn_counts(case.sizes).answers(Identity(int(np.prod(case.sizes)), case.sizes))
    return (case.workload.to_dense() @ table).ravel()


@pytest.mark.parametrize("name", CASES)
def test_integers_sensitivity_and_errors(name: str) -> None:
    """The rounded matrix is of integers, its sensitivity exact, its error the loss."""
    case, strategy = CASES[name], selected(name)
    mechanism = calibrate(strategy, BUDGETS[case.norm](1), workload=case.workload)
    dense = mechanism.rounded.matrix.to_dense()
    assert isinstance(leading(strategy.matrix), case.form)
    kept = (Dense, Sparse) if case.form in ROUNDED_BY_ENTRIES else case.form
    assert isinstance(leading(mechanism.rounded.matrix), kept)
    assert np.array_equal(dense, np.rint(dense))
    power = 1 if case.norm == "l1" else 2
    columns = [sum(abs(int(v)) ** power for v in column) for column in dense.T]
    assert mechanism.rounded.column_sum == max(columns)
    assert mechanism.rounded.is_unbiased
    release = measure(mechanism, drawn_counts(case.sizes), noise="research", random_state=0)
    variances = row_variances(release, case.workload)
    assert variances.sum() == pytest.approx(UNIT[case.norm] * strategy.loss, rel=case.near)


def squares(name: str, budget: float) -> np.ndarray:
    """Return the squared error of 300 releases: columns of classes have noise of their own."""
    case, own = CASES[name], drawn_counts(CASES[name].sizes)
    mechanism = calibrate(selected(name), BUDGETS[case.norm](budget), workload=case.workload)
    many = replace(own, counts=np.tile(own.counts, 300))
    answers = reconstruct(measure(mechanism, many, noise="research", random_state=0), case.workload)
    return ((answers.T - truth(case)) ** 2).sum(axis=1)


@pytest.mark.parametrize("name", CASES)
def test_noise_is_as_expected(name: str) -> None:
    """The mean squared error is the promise within five deviations; at half the budget not."""
    promised = UNIT[CASES[name].norm] * selected(name).loss
    errors, control = squares(name, 1), squares(name, 0.5)
    deviation = np.std(errors) / np.sqrt(len(errors))
    assert deviation < 0.1 * promised
    assert abs(np.mean(errors) - promised) < 5 * deviation
    assert abs(np.mean(control) - promised) > 5 * deviation


@pytest.mark.parametrize("name", ["product marginals", "joint marginals"])
def test_released_noise_has_the_exact_law(name: str) -> None:
    """Noise is Laplace of the exact sensitivity over epsilon; another scale is told apart."""
    case, own = CASES[name], drawn_counts(CASES[name].sizes)
    noise = []
    for _ in range(20):
        release = measure(selected(name), own, PureDP(0.5), workload=case.workload)
        whole = release.values * float(release.scale)
        assert np.array_equal(whole, np.rint(whole))
        noise.append((whole - own.answers(release.matrix)).ravel())
    drawn = np.concatenate(noise) / (2.0 * release.mechanism.rounded.column_sum)
    assert stats.kstest(drawn, stats.laplace().cdf).pvalue > 1e-4
    assert stats.kstest(drawn / 2.0, stats.laplace().cdf).pvalue < 1e-6


def test_exact_noise_over_a_domain_that_nobody_lists() -> None:
    sizes = (4,) * 40
    pairs = list(product(range(4), range(4, 8)))
    workload = Marginals(sizes, pairs, [1.0] * len(pairs))
    codes = np.random.default_rng(1).integers(0, 4, size=(50, 40))
    records = count_cells(codes, np.zeros(50, dtype=int), sizes, 1)
    release = measure(select(workload, "l2"), records, ZCDP(1000), workload=workload)
    answers = reconstruct(release, workload).ravel()
    cells = np.array([codes[:, i] * 4 + codes[:, j] for i, j in pairs])
    expected = np.concatenate([np.bincount(row, minlength=16) for row in cells])
    assert np.abs(answers - expected).max() < 3


@pytest.mark.parametrize("k", [1, 2, 3])
def test_bits_are_shared_by_the_factors_of_the_largest_tables(k: int) -> None:
    """Entries stay below 2**41 however many factors a table has, and the loss is kept."""
    workload = ways([PrefixSums(50), AllRanges(40), Identity(7), Identity(4), Identity(2)], k)
    strategy = select(workload, "l2", method="oblique_residuals", random_state=0)
    rounded = round_strategy(strategy.matrix, "l2")
    assert isinstance(rounded.matrix, ObliqueResiduals)
    assert rounded.matrix.largest_entry() < 2**41
    loss = rounded.column_sum * error_trace(workload, rounded.matrix)
    assert loss == pytest.approx(strategy.loss, rel=1e-3)


def test_sets_without_those_below_are_rounded_entry_by_entry() -> None:
    matrix = ObliqueResiduals([np.array([[0.3, 0.7, 0.1]]), np.array([[0.9, 0.2]])], [(0, 1)], [1])
    rounded = round_strategy(matrix, "l2")
    dense = rounded.matrix.to_dense()
    assert np.array_equal(dense, np.rint(dense))
    assert rounded.column_sum == int((dense.astype(int) ** 2).sum(axis=0).max())


# Answers of other tools ---------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
MATRICES = {
    "prefix sums": np.tri(6),
    "reals": RANDOM.normal(size=(9, 6)),
    "large": 1e6 * RANDOM.normal(size=(7, 6)),
    "tiny": 1e-6 * np.tri(6),
    "sparse": sparse.csr_array(np.eye(6)[:4]),
    "few rows": RANDOM.normal(size=(3, 6)),
}
CLAIMED_BUDGETS = [PureDP(0.5), PureDP(40), ZCDP(0.1), PureDP(float("inf"))]


@pytest.mark.parametrize("budget", CLAIMED_BUDGETS, ids=repr)
@pytest.mark.parametrize("name", MATRICES)
def test_least_squares_and_its_errors_are_those_of_numpy(name, budget):
    given = MATRICES[name]
    A = given.toarray() if sparse.issparse(given) else given
    y = A @ RANDOM.integers(0, 1000, size=(6, 2)) + np.abs(A).max() * RANDOM.normal(
        size=(len(A), 2)
    )
    taken = claimed_release(given, y, budget)
    W = RANDOM.normal(size=(4, len(A))) @ A
    back = W @ np.linalg.pinv(A)
    np.testing.assert_allclose(reconstruct(taken, W), back @ y, rtol=1e-5, atol=1e-6 * abs(y).max())
    scale = 0.0
    if not budget.is_infinite:
        norm = (
            np.abs(A).sum(axis=0).max() if budget.norm == "l1" else np.linalg.norm(A, axis=0).max()
        )
        amount = float(budget.amount)
        scale = 2 * norm**2 / amount**2 if budget.norm == "l1" else norm**2 / (2 * amount)
    expected = scale * (back**2).sum(axis=1)
    np.testing.assert_allclose(row_variances(taken, W), expected, rtol=1e-4)


@pytest.mark.parametrize("relation", NEIGHBORING)
def test_our_own_answers_come_back_as_the_claim_of_another(relation):
    counts = count_cells(np.array([[0], [2], [2]]), np.array([0, 1, 1]), sizes=(3,), n_classes=2)
    A, W = np.tri(3), np.eye(3)
    own = measure(A, counts, PureDP(1), neighboring=relation)
    taken = claimed_release(A, own.values, PureDP(1), neighboring=relation)
    np.testing.assert_allclose(reconstruct(taken, W), reconstruct(own, W), atol=1e-6)
    # continuous noise has a little more variance than what was drawn of integers
    np.testing.assert_allclose(row_variances(taken, W), row_variances(own, W), rtol=0.01)
    assert own.is_private
    assert not taken.is_private


def test_it_is_never_private_and_says_who_made_it():
    taken = claimed_release(np.tri(3), [1.0, 2.5, 4.0], PureDP(1), made_by="HDMM 1.0")
    assert taken.noise == "claimed"
    assert not taken.claim.is_private
    for text in (str(taken), repr(taken), taken._repr_html_(), taken.statement):
        assert "HDMM 1.0" in text
        assert "unverified" in text
        assert "Private release" not in text
    assert taken.measured is None
    assert "HDMM 1.0" in repr(combine(taken, np.eye(3)))
    exact = claimed_release(np.tri(3), [1, 2, 4], PureDP(float("inf")))
    assert exact.statement.startswith("NOT A PRIVATE RELEASE")


def test_it_is_not_written_as_a_release_of_ours(tmp_path):
    domain = Domain.from_sizes([3], n_classes=1)
    taken = claimed_release(np.eye(3), [1.0, 2.0, 3.0], PureDP(1), domain=domain)
    with pytest.raises((ReleaseFileError, ValueError), match="Laplace noise"):
        save_release(taken, tmp_path / "a.release", domain)


def test_a_forest_is_had_of_it():
    car = load_dataset("car")
    counts = count_cells(car.codes, car.labels, car.domain.sizes, 4)
    forest = RandomTrees(8, 2).grow(car.domain, random_state=0)
    T = path_matrix(forest)
    A = strategies.select(T, method="identity")
    own = measure(A, counts, PureDP(1), noise="research", random_state=0)
    taken = claimed_release(A, own.values, PureDP(1), domain=car.domain, made_by="a study")
    model = from_release(taken, forest=forest, voting="hard")
    same = from_release(own, car.domain, forest=forest, voting="hard")
    assert (model.predict(car.X) == same.predict(car.X)).all()
    statement = model.privacy_report_.statement
    assert "a study" in statement
    assert "Private release" not in statement
    known = expected_error(A, T, epsilon=1).row_variances
    np.testing.assert_allclose(row_variances(taken, T), known, rtol=0.1)  # of integers: 8 % less


ENDINGS = ["A.npz", "A.npy", "A.mtx", "A.csv"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_of_other_tools_are_read_and_ours_are_written(tmp_path, ending):
    A, y = np.tri(4), np.array([[1.5, 0.0], [2.0, -1.0], [7.25, 3.0], [8.0, 3.5]])
    strategies.save(A, tmp_path / ending)
    strategies.save(y, tmp_path / ending.replace("A", "y"))
    taken = claimed_release(tmp_path / ending, str(tmp_path / ending.replace("A", "y")), PureDP(1))
    np.testing.assert_allclose(taken.values, y, atol=1e-7)
    np.testing.assert_array_equal(np.asarray(strategies.load(tmp_path / ending)), A)


def test_files_as_other_tools_write_them(tmp_path):
    y = [1.5, 2.0, 7.25]
    np.savetxt(tmp_path / "y.csv", [y], delimiter=",")  # in one line
    np.savez(tmp_path / "A.npz", A=np.eye(3))
    io.mmwrite(tmp_path / "y.mtx", np.array([y]).T)
    for name in ("y.csv", "y.mtx"):
        taken = claimed_release(tmp_path / "A.npz", tmp_path / name, PureDP(1))
        np.testing.assert_allclose(taken.values.ravel(), y, atol=1e-7)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"answers": [1.0, 2.0]}, ValueError, "row for each row"),
        ({"answers": [1.0, np.nan, 2.0]}, ValueError, "finite"),
        ({"answers": ["a", "b", "c"]}, TypeError, "real numbers"),
        ({"answers": np.zeros((3, 0))}, ValueError, "row for each row"),
        ({"matrix": np.zeros((3, 3))}, ValueError, "all zeros"),
        ({"budget": 1.0}, TypeError, "budget"),
        ({"neighboring": "next"}, ValueError, "neighboring"),
        ({"domain": Domain.from_sizes([2, 2])}, ValueError, "sizes"),
        ({"made_by": "two\nlines"}, ValueError, "one line"),
        ({"matrix": "nowhere.npz"}, FileNotFoundError, "no file"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, error, said):
    given = {"matrix": np.eye(3), "answers": [1.0, 2.0, 3.0], "budget": PureDP(1)} | changes
    with pytest.raises(error, match=said):
        claimed_release(given.pop("matrix"), given.pop("answers"), given.pop("budget"), **given)


def test_answers_of_any_size_fit_the_lattice():
    for largest in (0.0, 1e-9, 1.0, 1e9, 1e15):
        taken = claimed_release(Identity(2), [largest, -largest], PureDP(1))
        np.testing.assert_allclose(taken.values.ravel(), [largest, -largest], rtol=1e-9, atol=1e-8)
    with pytest.raises((OverflowError, ValueError)):
        claimed_release(Identity(2), [1e300, 0.0], PureDP(1))


def test_a_matrix_of_reals_is_not_called_one_of_integers():
    taken = claimed_release(0.5 * np.eye(3), np.ones(3), PureDP(1))
    assert "strategy               from elsewhere, 3 rows over 3 cells" in str(taken)
