"""Marginals: families that choose their weights, and the structure that answers by them."""

from itertools import combinations

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import strategies
from strategies import MemoryCapError, Problem, evaluate, examples, select
from strategies.operators import (
    AllRanges,
    Dense,
    Gram,
    Identity,
    Kronecker,
    Marginals,
    ObliqueResiduals,
    Operator,
    PIdentity,
    PrefixSums,
    Product,
    RowKronecker,
    RowScaled,
    RowSpaceError,
    Scaled,
    Sparse,
    Stack,
    error_trace,
    memory_cap,
    row_errors,
)
from tests.strategies.workloads import NORMS, definition, gaussian_optimum, lower_bound, trees

SIZES = (3, 2, 4)
TOTAL = [Dense(np.ones((1, n))) for n in SIZES]
UNIT = [Identity(n) for n in SIZES]
CELLS_AND_SUMS = PIdentity(np.ones(3), sparse.csr_array([[1.0, 1.0, 0.0]]))
CELLS = Marginals(SIZES, [(0, 2)], [1.0]).as_rows

IN_THE_ALGEBRA: dict[str, Operator] = {
    "marginals": Marginals(SIZES, [(0, 1), (2,), ()], [1.0, 2.0, 0.5]),
    "with one code": Marginals((3, 1, 2), [(0, 1), (1, 2)], [1.0, 2.0]),
    "identity": Identity(24, SIZES),
    "identity without sizes": Identity(7),
    "kronecker": Kronecker([UNIT[0], TOTAL[1], UNIT[2]]),
    "kronecker of explicit ones": Kronecker([Dense(np.eye(3)), Dense(np.tri(2)[1:]), UNIT[2]]),
    "stack": Stack([Kronecker([UNIT[0], TOTAL[1], UNIT[2]]), Scaled(0.5, Identity(24, SIZES))]),
    "rows of a table": CELLS,
    "weighted twice": Stack([CELLS, RowScaled(np.full(12, 2.0), CELLS)]),
    "residuals": ObliqueResiduals.of_codes(SIZES, [(), (0, 2)], [1.0, 2.0]),
    "ranges of two cells": AllRanges(2),
    "Gram": Gram(2 * np.eye(5) + 3),
    "Gram of a product": Kronecker([Gram(2 * np.eye(3) + 1), TOTAL[1], UNIT[2]]),
}
OUTSIDE: dict[str, Operator] = {
    "paths": RowKronecker.from_masks([np.eye(3)[:2], np.ones((2, 2)), np.ones((2, 4))]),
    "uneven cells": RowScaled(np.arange(1.0, 13.0), CELLS),
    "prefix sums": Kronecker([Dense(np.tri(3)), UNIT[1], UNIT[2]]),
    "prefix sums by structure": Kronecker([PrefixSums(3), UNIT[1], UNIT[2]]),
    "all ranges": Kronecker([AllRanges(3), UNIT[1], UNIT[2]]),
    "cells and sums": Kronecker([CELLS_AND_SUMS, UNIT[1], UNIT[2]]),
    "a cell apart": Gram(np.diag([1.0, 1.0, 2.0])),
}

EVERY = IN_THE_ALGEBRA | OUTSIDE


SETS = [c for k in range(4) for c in combinations(range(3), k)]


@pytest.mark.parametrize("name", [name for name, one in EVERY.items() if one.sizes == SIZES])
def test_rules_of_tables_are_those_of_the_dense_matrix(name: str) -> None:
    """Errors of tables by the workload's structure, whatever that is."""
    workload = EVERY[name]
    rows = workload.to_dense()
    for matrix in (
        Marginals(SIZES, [(), (0,), (0, 1, 2)], [1.0, 2.0, 0.5]),
        ObliqueResiduals.of_codes(SIZES, SETS, np.linspace(1.0, 2.0, 8).tolist()),
    ):
        errors = ((rows @ np.linalg.pinv(matrix.to_dense(), rcond=1e-10)) ** 2).sum(axis=1)
        assert error_trace(workload, matrix) == pytest.approx(errors.sum(), rel=1e-9)
        if "Gram" not in name:
            assert_allclose(row_errors(workload, matrix), errors, rtol=1e-8)


@pytest.mark.parametrize("name", EVERY)
def test_the_gaussian_optimum_with_gap_zero_inside_the_algebra(name: str) -> None:
    workload = EVERY[name]
    found = select(workload, "l2", random_state=0)
    optimum = gaussian_optimum(workload.to_dense())
    assert lower_bound(workload, "l1") <= optimum * (1 + 1e-6)
    assert found.lower_bound <= optimum * (1 + 1e-6)
    assert found.loss == pytest.approx(
        definition(workload.to_dense(), found.matrix.to_dense(), "l2")
    )
    if name in IN_THE_ALGEBRA:
        assert found.lower_bound <= found.loss <= found.lower_bound * (1 + 1e-9)
        assert found.loss == pytest.approx(optimum, rel=1e-4)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("method", ["residual_marginals", "marginals"])
@pytest.mark.parametrize("name", ["marginals", "stack", "residuals", "rows of a table"])
def test_weights_are_the_best(name: str, method: str, norm: str) -> None:
    """Small steps from them gain nothing."""
    workload = IN_THE_ALGEBRA[name]
    found = select(workload, norm, method=method, random_state=0, time_limit=0.1)
    best, random = np.array(found.matrix.weights), np.random.default_rng(0)
    assert found.sensitivity == pytest.approx(found.matrix.sensitivity(norm))
    for _ in range(8):
        near = found.matrix.with_weights((best * random.uniform(0.7, 1.4, len(best))).tolist())
        assert evaluate(workload, near, norm).loss >= found.loss * (1 - 1e-5)


def test_attributes_of_plain_rows_are_told_by_their_sizes() -> None:
    rows = np.random.default_rng(0).normal(size=(4, 24))
    told = Sparse(sparse.csr_array(rows), SIZES)
    found = select(told, method="marginals", random_state=0, time_limit=0.1)
    assert found.loss == pytest.approx(definition(rows, found.matrix.to_dense(), "l1"), rel=1e-6)
    wide = RowKronecker.from_masks([np.eye(2, dtype=bool)[[0]]] * 40)
    for other in (np.eye(4), wide):
        with pytest.raises(ValueError, match="cannot serve"):
            select(other, method="marginals")


@pytest.mark.parametrize("norm", NORMS)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    depth=st.integers(0, 2),
    seed=st.integers(0, 10**6),
    mixed=st.booleans(),
)
def test_forests_and_their_votes(
    norm: str, sizes: list[int], depth: int, seed: int, mixed: bool
) -> None:
    """By rules for masks, the loss of the dense matrix; never above the Identity."""
    workload: Operator = trees(sizes, 2, depth, seed)
    if mixed:
        mix = np.random.default_rng(seed).integers(0, 3, size=(4, workload.shape[0]))
        mix[0] = 1
        workload = Product(Sparse(sparse.csr_array(mix.astype(float))), workload)
    found = select(workload, norm, method="marginals", random_state=0, time_limit=0.02)
    rows = workload.to_dense()
    assert found.loss == pytest.approx(definition(rows, found.matrix.to_dense(), norm))
    assert found.loss <= np.sum(rows**2) * (1 + 1e-9)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    data=st.data(),
)
def test_closed_form_on_random_marginals(sizes: list[int], data: st.DataObject) -> None:
    """The loss is the definition's, the bound is met, and no other family is below it."""
    sets = data.draw(st.sets(st.sets(st.integers(0, len(sizes) - 1)).map(frozenset), min_size=1))
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(sets), max_size=len(sets)))
    workload = Marginals(sizes, [tuple(one) for one in sets], weights)
    found = select(workload, "l2", method="residual_marginals")
    exact = definition(workload.to_dense(), found.matrix.to_dense(), "l2")
    assert exact == pytest.approx(found.lower_bound, rel=1e-8)
    marginals = select(workload, "l2", method="marginals", time_limit=0.02)
    assert exact <= marginals.loss * (1 + 1e-9)


def test_sizes_of_the_literature() -> None:
    """All marginals on up to three of 20 attributes, and on two of 123: nothing has length n."""
    for sizes, orders in (((4,) * 20, (1, 2, 3)), ((2,) * 123, (2,))):
        workload = Stack([examples.marginals(sizes, order) for order in orders])
        strategy = select(workload, "l2")
        assert strategy.method == "residual_marginals"
        assert strategy.certified_ratio <= 1 + 1e-9
        rows, tables = workload.shape[0], sum(len(block.weights) for block in workload.blocks)
        assert strategy.loss < tables * rows


def test_weights_need_no_array_of_the_tables() -> None:
    """All tables of three of Adult's attributes: more counts than the memory cap has room for."""
    workload = examples.marginals((100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2), 3)
    strategy = select(workload, "l2", memory_limit=2**26)
    assert strategy.method == "residual_marginals"
    assert strategy.certified_ratio <= 1 + 1e-9


def test_rows_are_checked_one_by_one() -> None:
    faint = RowScaled(np.full(12, 1e-8), CELLS)  # nothing beside a row of 24 ones
    workload = Stack([Marginals(SIZES, [()], [1.0]).as_rows, faint])
    apart = ObliqueResiduals.of_codes(SIZES, [(), (0, 2)], [1.0, 1.0])  # without (0,) and (2,)
    whole = ObliqueResiduals.of_codes(SIZES, [(), (0,), (2,), (0, 2)], [1.0] * 4)
    for matrix in (apart, Marginals(SIZES, [(0, 1)], [1.0])):
        with pytest.raises(RowSpaceError, match=r"12 of the workload's 13 rows"):
            matrix.has_rule_for(workload)
        with pytest.raises(RowSpaceError, match=r"12 of the workload's 13 rows"):
            matrix.estimate(workload, np.zeros(matrix.shape[0]))
    assert whole.has_rule_for(workload)


@pytest.mark.parametrize("seed", range(3))
def test_no_marginals_are_below_for_gaussian_noise(seed: int) -> None:
    """So "auto" leaves them out, but for the largest error, which has no closed form."""
    rng = np.random.default_rng(seed)
    masks = [rng.random((20, n)) < 0.5 for n in (3, 4, 2)]
    workload = RowKronecker.from_masks([mask | ~mask.any(axis=1)[:, None] for mask in masks])
    asked = {"random_state": 0, "time_limit": 0.3}
    ours, theirs = (
        select(workload, "l2", name, **asked).loss for name in ("residual_marginals", "marginals")
    )
    assert ours <= theirs * (1 + 1e-9)
    family = strategies.marginals()
    assert not family.worthwhile(Problem.of(workload, "l2"))
    assert family.worthwhile(Problem.of(workload, "l2", "max"))


@pytest.mark.parametrize(("size", "d", "order", "below"), [(4, 8, 2, 0.0655)])
def test_a_second_is_enough(size: int, d: int, order: int, below: float) -> None:
    """Most of what long searches find, as a share of the Identity's loss."""
    workload = examples.marginals((size,) * d, order)
    found = select(workload, "l1", random_state=0, time_limit=1.0)
    assert found.loss < below * workload.shape[0] * (size**d / size**order)


def test_tables_stay_within_the_memory_cap() -> None:
    with memory_cap(2**16):
        found = select(examples.marginals((2,) * 16, 2), random_state=0, time_limit=0.1)
    assert max(map(len, found.matrix.attribute_sets)) <= 9


def hdmm_marginals(sizes: tuple[int, ...], sets: list[tuple[int, ...]], starts: int) -> float:
    """Return the best of local searches over weights of all 2^d marginals, each a dense descent.

    ``min (Σ θ)² Σ_U w_U / Σ_{S ⊇ U} θ_S²/n_S`` with ``w_U = Σ_{S ⊇ U} Π_U (n_i - 1) / n_S`` over
    the workload's tables S.
    """
    d = len(sizes)
    every = [set(c) for k in range(d + 1) for c in combinations(range(d), k)]
    cells = np.array([float(np.prod([sizes[i] for i in s])) for s in every])
    inside = np.array([[u <= s for s in every] for u in every])
    asked = np.array([tuple(sorted(s)) in sets for s in every])
    ranks = np.array([float(np.prod([sizes[i] - 1 for i in u])) for u in every])
    energies = ranks * (inside @ (asked / cells))
    used = energies > 0
    share, energies = (inside / cells)[used], energies[used]

    def log_loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        values = share @ weights**2
        error, cost = np.sum(energies / values), weights.sum()
        slope = -2 * weights * ((energies / values**2) @ share)
        return 2 * np.log(cost) + np.log(error), 2 / cost + slope / error

    rng = np.random.default_rng(0)
    found = [
        scipy.optimize.minimize(
            log_loss, start, jac=True, method="L-BFGS-B", bounds=[(1e-9, None)] * len(every)
        )
        for start in (np.ones(len(every)), *rng.random((starts - 1, len(every))))
    ]
    return float(np.exp(min(one.fun for one in found)))


@pytest.mark.parametrize(
    ("sizes", "order"),
    [
        ((3, 2, 3), 1),
        ((2, 4, 3), 2),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in [((2,) * 7, 3), ((5, 8, 3, 7, 6), 2), ((2, 9, 2, 9), 3)]
        ),
    ],
)
def test_never_above_the_marginals_of_hdmm(sizes: tuple[int, ...], order: int) -> None:
    workload = examples.marginals(sizes, order)
    assert isinstance(workload, Marginals)
    known = hdmm_marginals(sizes, list(workload.attribute_sets), 5)
    found = select(workload, "l1", random_state=0, time_limit=1.0)
    assert found.loss <= known * (1 + 1e-6)


def test_the_oracle_knows_the_loss_of_the_tables_alone() -> None:
    """One attribute: θ on the table and on the total, on a grid."""
    shares = np.linspace(0.001, 0.999, 999)
    losses = [
        evaluate(np.eye(3), np.vstack([s * np.eye(3), np.full((1, 3), 1 - s)])).loss for s in shares
    ]
    assert hdmm_marginals((3,), [(0,)], 3) == pytest.approx(min(losses), rel=1e-2)


# The structure ------------------------------------------------------------------------------------


OF_SETS = {
    "complete": [(0, 1, 2)],
    "complete and coarser": [(0,), (0, 1, 2), (1, 2)],
    "pairs": [(0, 1), (1, 2), (0, 2)],
    "total and one": [(), (2,)],
    "total": [()],
}


def dense_twin(matrix):
    """Build every row from its definition."""
    blocks = []
    for chosen, weight in zip(matrix.attribute_sets, matrix.weights, strict=True):
        blocks += [
            [
                weight * all(cell[i] == value for i, value in zip(chosen, row, strict=True))
                for cell in np.ndindex(*matrix.domain_sizes)
            ]
            for row in np.ndindex(*(matrix.domain_sizes[i] for i in chosen))
        ]
    return np.array(blocks, dtype=float)


def rows_of(matrix):
    """Sums of two neighbouring rows of every table: inside the row space, and no table."""
    dense = dense_twin(matrix)
    return Dense(dense + 2 * np.roll(dense, 1, axis=0))


@pytest.mark.parametrize("sets", OF_SETS.values(), ids=OF_SETS)
def test_coefficients_are_those_of_the_pseudo_inverse(sets):
    matrix = Marginals(SIZES, sets, np.arange(1.0, len(sets) + 1))
    workload = rows_of(matrix)
    expected = workload.to_dense() @ np.linalg.pinv(dense_twin(matrix))
    np.testing.assert_allclose(matrix.coefficients(workload), expected, atol=1e-12)
    wrong = Marginals(SIZES, sets, np.arange(2.0, len(sets) + 2))  # negative control
    assert np.abs(wrong.coefficients(workload) - expected).max() > 1e-3


def test_a_marginal_of_no_weight_has_no_coefficients():
    matrix = Marginals(SIZES, [(0, 1), (1, 2)], [1.0, 0.0])
    found = matrix.coefficients(Dense(dense_twin(matrix)[:6]))
    np.testing.assert_allclose(found, np.eye(6, matrix.shape[0]), atol=1e-12)


def rows_within(sets, sizes, count, rng):
    """Draw 0/1 product rows that restrict attributes of one set only."""
    masks = [np.ones((count, size), dtype=bool) for size in sizes]
    for r in range(count):
        for i in sets[rng.integers(len(sets))]:
            masks[i][r] = rng.uniform(size=sizes[i]) < 0.6
    return RowKronecker.from_masks(masks)


@pytest.fixture(params=OF_SETS)
def matrix(request):
    rng = np.random.default_rng(1)
    sets = OF_SETS[request.param]
    return Marginals(SIZES, sets, rng.uniform(0.5, 1.5, len(sets)))


@pytest.mark.parametrize("form", ["rows", "weighted", "mixed", "stacked"])
def test_workload_answers_and_errors(matrix, form):
    rng = np.random.default_rng(4)
    rows = rows_within(matrix.attribute_sets, SIZES, 7, rng)
    workload = {
        "rows": rows,
        "weighted": RowScaled(rng.uniform(1, 2, 7), rows),
        "mixed": Product(Dense(rng.normal(size=(4, 7))), rows),
        "stacked": Stack([rows, RowScaled(rng.uniform(1, 2, 7), rows)]),
    }[form]
    recovery = workload.to_dense() @ np.linalg.pinv(dense_twin(matrix), rcond=1e-10)
    answers = rng.normal(size=(matrix.shape[0], 2))
    np.testing.assert_allclose(matrix.row_errors(workload), (recovery**2).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(matrix.estimate(workload, answers), recovery @ answers, atol=1e-12)


def test_row_outside_the_row_space_is_refused():
    rows = RowKronecker.from_masks([np.eye(3)[[0]], np.ones((1, 2)), np.eye(4)[[1]]])
    matrix = Marginals(SIZES, [(0,), (2,)], [1.0, 1.0])
    for call in (lambda: matrix.row_errors(rows), lambda: matrix.estimate(rows, np.ones(7))):
        with pytest.raises(RowSpaceError, match="Add a marginal"):
            call()


def test_weights_are_rounded_before_they_are_summed():
    with pytest.raises(ValueError, match="Round the marginals first"):
        Marginals(SIZES, [(0,)], [0.5]).integer_sensitivity("l1")


def test_weight_zero_supports_nothing():
    matrix = Marginals(SIZES, [(0, 1), (2,)], [0.0, 1.0])
    only = Marginals(SIZES, [(2,)], [1.0])
    answers = np.random.default_rng(0).normal(size=10)
    np.testing.assert_allclose(
        matrix.least_squares(answers), only.least_squares(answers[6:]), atol=1e-14
    )


def test_astronomical_domain():
    """2**200 cells: exact shape, columns, rounding, errors and answers in no time."""
    d = 200
    matrix = Marginals([2] * d, [(0, 1), (5, 7, 9), ()], [0.25, 0.5, 0.25])
    assert matrix.shape == (13, 2**d)
    codes = np.random.default_rng(0).integers(0, 2, size=(50, d))
    counts = matrix.rounded(4).columns(codes).sum(axis=1)
    assert counts[-1] == 50
    assert counts[:4].sum() == 50
    masks = [np.ones((3, 2), dtype=bool) for _ in range(d)]
    masks[0][0, 1] = masks[1][0, 0] = masks[9][1, 1] = False
    workload = RowKronecker.from_masks(masks)
    truth = workload.columns(codes).sum(axis=1)
    answers = matrix.columns(codes).sum(axis=1)
    np.testing.assert_allclose(matrix.estimate(workload, answers), truth)
    assert matrix.row_errors(workload).shape == (3,)
    with pytest.raises(MemoryCapError), memory_cap(2**20):
        matrix.least_squares(answers)


def test_entries_are_counted_before_they_are_made():
    """Five sets over a domain whose cells fit the cap, and whose entries do not."""
    matrix = Marginals((2,) * 16, [(i,) for i in range(5)], [1.0] * 5)
    with memory_cap(2**22), pytest.raises(MemoryCapError, match="sparse marginals"):
        matrix.to_sparse()
    one = Marginals((2,) * 16, [()], [1.0])
    with memory_cap(2**22), pytest.raises(MemoryCapError, match="codes of every cell"):
        one.to_sparse()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), [()], [1]), "sizes"),
        (((2, 0), [()], [1]), "sizes"),
        (((2, 2), [], []), "attribute_sets"),
        (((2, 2), [(0,), (0,)], [1, 1]), "each once"),
        (((2, 2), [(0, 0)], [1]), "distinct"),
        (((2, 2), [(2,)], [1]), "from 0 to 1"),
        (((2, 2), [(0,)], [-1]), "none negative"),
        (((2, 2), [(0,)], [np.nan]), "finite"),
        (((2, 2), [(0,)], [1, 2]), "one for each"),
    ],
)
def test_nonsense_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        Marginals(*arguments)
