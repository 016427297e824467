"""Weighted tables: of components by themselves in closed form, and of sets by search."""

from itertools import combinations

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import strategies
from strategies import Problem, evaluate, examples, select
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
