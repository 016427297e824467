"""Residual marginals: energies from subsets, the closed form against oracles, its bound."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import strategies
from strategies import Problem, Search, evaluate, examples, select
from strategies.bounds.dual_ascent import ascend, certified_bound
from strategies.bounds.lower_bound import algebra_bound, rows_bound
from strategies.methods.marginals.marginals import best_residuals
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
    RowKronecker,
    RowScaled,
    RowSpaceError,
    Scaled,
    Stack,
)
from strategies.operators.masks.energies import gram_energies, structure_energies

FAMILY = strategies.residual_marginals()

SIZES = (3, 2, 4)
TOTAL = [Dense(np.ones((1, n))) for n in SIZES]
UNIT = [Identity(n) for n in SIZES]
CELLS_AND_SUMS = PIdentity(np.ones(3), sparse.csr_array([[1.0, 1.0, 0.0]]))
CELLS = Marginals(SIZES, [(0, 2)], [1.0]).by_rows

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
OUTSIDE_BY_FACTORS = ("prefix sums", "prefix sums by structure", "all ranges", "cells and sums")


def gram(workload: Operator) -> np.ndarray:
    dense = workload.to_dense()
    return dense.T @ dense


@pytest.mark.parametrize("name", [*IN_THE_ALGEBRA, *OUTSIDE_BY_FACTORS])
def test_energies_by_structure_are_those_of_the_gram(name: str) -> None:
    workload = (IN_THE_ALGEBRA | OUTSIDE)[name]
    found = structure_energies(workload)
    assert found is not None
    assert found.is_invariant == (name in IN_THE_ALGEBRA)
    expected = gram_energies(gram(workload), found.sizes)
    table = {tuple(row): value for row, value in zip(expected.sets, expected.values, strict=True)}
    assert {tuple(row) for row in found.sets} == set(table)
    ours = [table[tuple(row)] for row in found.sets]
    assert_allclose(found.values, ours, rtol=1e-9)
    assert found.total == pytest.approx(np.trace(gram(workload)))


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_bound_outside_the_algebra(name: str) -> None:
    assert algebra_bound(Problem.of(OUTSIDE[name], "l2")) is None


@pytest.mark.parametrize("name", IN_THE_ALGEBRA)
def test_the_gaussian_optimum_with_gap_zero(name: str) -> None:
    workload = IN_THE_ALGEBRA[name]
    strategy = select(workload, "l2", random_state=0)
    assert strategy.certified_ratio <= 1 + 1e-9
    assert strategy.lower_bound <= strategy.loss
    problem = Problem.of(workload.to_dense(), "l2")
    assert problem.factor is not None
    dual = ascend(problem.factor, 1e-9, 500)
    assert strategy.loss == pytest.approx(dual.root**2, rel=1e-6)
    twin = evaluate(workload.to_dense(), strategy.matrix.to_dense(), "l2")
    assert twin.loss == pytest.approx(strategy.loss, rel=1e-9)


@pytest.mark.parametrize("name", IN_THE_ALGEBRA)
def test_the_bound_holds_for_laplace_noise(name: str) -> None:
    strategy = select(IN_THE_ALGEBRA[name], "l1", random_state=0, time_limit=0.3)
    assert strategy.lower_bound <= strategy.loss
    problem = Problem.of(IN_THE_ALGEBRA[name].to_dense())
    assert problem.factor is not None
    assert strategy.lower_bound >= rows_bound(problem) * (1 - 1e-9)
    assert certified_bound(problem.factor, np.full(problem.factor.shape[1], 1e-3)) >= 0


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", ["marginals", "stack", "residuals", "rows of a table"])
def test_weights_are_the_best(name: str, norm: str) -> None:
    energies = structure_energies(IN_THE_ALGEBRA[name])
    assert energies is not None
    found = best_residuals(energies, norm)

    def loss(weights: np.ndarray) -> float:
        return evaluate(IN_THE_ALGEBRA[name], found.with_weights(weights.tolist()), norm).loss

    best = np.array(found.weights)
    value, random = loss(best), np.random.default_rng(0)
    assert found.sensitivity(norm) == pytest.approx(1)
    for _ in range(20):
        assert loss(best * random.uniform(0.7, 1.4, len(best))) >= value * (1 - 1e-12)


@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    data=st.data(),
)
def test_closed_form_on_random_marginals(sizes: list[int], data: st.DataObject) -> None:
    """The loss is the definition's, the bound is met, and no other family is below it."""
    sets = data.draw(st.sets(st.sets(st.integers(0, len(sizes) - 1)).map(frozenset), min_size=1))
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(sets), max_size=len(sets)))
    workload = Marginals(sizes, [tuple(one) for one in sets], weights)
    problem = Problem.of(workload, "l2")
    matrix = FAMILY.search(problem, Search())
    dense, answered = matrix.to_dense(), workload.to_dense()
    norms = (dense**2).sum(axis=0)
    loss = norms.max() * np.sum((answered @ np.linalg.pinv(dense, rcond=1e-10)) ** 2)
    assert loss == pytest.approx(algebra_bound(problem), rel=1e-8)
    assert loss <= select(workload, "l2", method="marginals").loss * (1 + 1e-9)


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


def test_estimates_are_least_squares() -> None:
    random = np.random.default_rng(1)
    workload = IN_THE_ALGEBRA["stack"]
    matrix = select(workload, "l2").matrix
    answers = random.normal(size=(matrix.shape[0], 2))
    expected = workload.to_dense() @ np.linalg.pinv(matrix.to_dense(), rcond=1e-10) @ answers
    for asked in (workload, Marginals(SIZES, [(0, 2), (1,)], [1.0, 2.0])):
        expected = asked.to_dense() @ np.linalg.pinv(matrix.to_dense(), rcond=1e-10) @ answers
        estimate = matrix.estimate(asked, answers)
        if estimate is not None:
            assert_allclose(estimate, expected, atol=1e-9)
    tables = Stack([Marginals(SIZES, [(0,), (1, 2)], [1.0, 3.0]), Scaled(2.0, Identity(24, SIZES))])
    assert matrix.estimate(tables.blocks[0], answers) is not None


def test_kronecker_order_of_cells() -> None:
    matrix = ObliqueResiduals.of_codes(SIZES, [(0, 2)], [1])
    middle = np.ones((1, 2))
    last = 4 * np.eye(4) - 1
    first = np.array([[1, -1, 0], [1, 0, -1], [0, 1, -1]])
    assert np.array_equal(matrix.to_dense(), reduce(np.kron, [first, middle, last]))


def test_rows_are_checked_one_by_one() -> None:
    faint = RowScaled(np.full(12, 1e-8), CELLS)  # nothing beside a row of 24 ones
    workload = Stack([Marginals(SIZES, [()], [1.0]).by_rows, faint])
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
