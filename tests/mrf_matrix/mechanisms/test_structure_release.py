"""Structures from selection to answers: exact integers, the counts, the noise that was promised."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import strategies
from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    PureDP,
    calibrate,
    count_cells,
    measure,
    reconstruct,
    round_strategy,
    row_variances,
)
from strategies import Strategy, examples, select
from strategies.operators import (
    AllRanges,
    Dense,
    Grouping,
    Identity,
    JointMarginals,
    Kronecker,
    Marginals,
    ObliqueResiduals,
    Operator,
    PIdentity,
    PrefixSums,
    ProductMarginals,
    Semiseparable,
    Sparse,
    Stack,
    TableStack,
    Toeplitz,
    error_trace,
)

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


def counts(sizes: tuple[int, ...]) -> CellCounts:
    codes = np.random.default_rng(0).integers(0, sizes, size=(400, len(sizes)))
    return count_cells(codes, np.zeros(400, dtype=int), sizes, 1)


def leading(matrix: Operator) -> Operator:
    return matrix.factors[0] if isinstance(matrix, Kronecker) else matrix


def truth(case: Case) -> np.ndarray:
    table = counts(case.sizes).answers(Identity(int(np.prod(case.sizes)), case.sizes))
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
    release = measure(mechanism, counts(case.sizes), noise="research", random_state=0)
    variances = row_variances(release, case.workload)
    assert variances.sum() == pytest.approx(UNIT[case.norm] * strategy.loss, rel=case.near)


@pytest.mark.parametrize("name", CASES)
def test_without_noise_the_answers_are_the_counts(name: str) -> None:
    case = CASES[name]
    budget = BUDGETS[case.norm](float("inf"))
    release = measure(selected(name), counts(case.sizes), budget, workload=case.workload)
    answers = reconstruct(release, case.workload).ravel()
    assert np.allclose(answers, truth(case), rtol=1e-7, atol=1e-6)


def squares(name: str, budget: float) -> np.ndarray:
    """Return the squared error of 300 releases: columns of classes have noise of their own."""
    case, own = CASES[name], counts(CASES[name].sizes)
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
    case, own = CASES[name], counts(CASES[name].sizes)
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
