"""Bounds × laws: below every strategy whatever the structure, met by the Gaussian optimum."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import MemoryCapError, evaluate, examples, select
from strategies.operators import (
    Dense,
    Gram,
    Identity,
    Kronecker,
    Marginals,
    PrefixSums,
    Product,
    RowKronecker,
    RowScaled,
    Scaled,
    Stack,
    memory_cap,
)
from tests.strategies.workloads import (
    NORMS,
    PREFIX,
    RANGES,
    WORKLOADS,
    Array,
    definition,
    gaussian_optimum,
    lower_bound,
    paths,
    prediction,
    total,
    trees,
)

OBJECTIVES = ("total", "max")


@cache
def optimum(kind: str, objective: str) -> float:
    return gaussian_optimum(WORKLOADS[kind]().to_dense(), objective)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", WORKLOADS)
def test_no_bound_is_above_the_gaussian_optimum(kind: str, norm: str, objective: str) -> None:
    bound, best = (
        lower_bound(WORKLOADS[kind](), norm, objective=objective),
        optimum(kind, objective),
    )
    assert bound <= best * (1 + 1e-6)  # as near as the oracle ends
    assert bound >= 0.98 * best


@st.composite
def small_workloads(draw: st.DrawFn) -> Array:
    """Small integer workloads, with zero rows and columns, repeats and low rank."""
    rows, cells = draw(st.integers(1, 7)), draw(st.integers(1, 6))
    flat = draw(st.lists(st.integers(-2, 3), min_size=rows * cells, max_size=rows * cells))
    workload = np.array(flat, dtype=float).reshape(rows, cells)
    if draw(st.booleans()):
        workload = np.concatenate([workload, workload[:1]])
    if draw(st.booleans()):
        workload[:, draw(st.integers(0, cells - 1))] = 0.0
    if not workload.any():
        workload[0, 0] = 1.0
    return workload


@given(workload=small_workloads(), seed=st.integers(0, 2**32 - 1))
def test_no_strategy_is_below_the_bound(workload: Array, seed: int) -> None:
    random = np.random.default_rng(seed)
    cells = workload.shape[1]
    stacked = np.concatenate([np.eye(cells), random.normal(size=(3, cells))])
    for norm in NORMS:
        for matrix in (np.eye(cells), stacked, random.normal(size=(cells + 2, cells))):
            for objective in OBJECTIVES:
                bound = lower_bound(workload, norm, objective=objective)
                assert 0 <= bound <= definition(workload, matrix, norm, objective) * (1 + 1e-9)


def test_a_bound_that_is_one_percent_higher_is_caught() -> None:
    """The control."""
    best = gaussian_optimum(np.tri(8))
    assert 1.01 * lower_bound(np.tri(8)) > best >= lower_bound(np.tri(8))


@given(workload=small_workloads(), objective=st.sampled_from(OBJECTIVES))
def test_the_gaussian_optimum_meets_the_bound(workload: Array, objective: str) -> None:
    found = select(workload, "l2", "gaussian_optimal", random_state=0, objective=objective)
    assert found.lower_bound <= found.loss <= found.lower_bound * (1 + 1e-3)
    assert found.sensitivity == pytest.approx(1.0)


def conic_optimum(workload: Array, groups: Array) -> float:
    """Least ``max_k Σ P_ii · max_j X_jj`` over ``[[P, W], [Wᵀ, X]] ⪰ 0``."""
    cp = pytest.importorskip("cvxpy")
    q, n = workload.shape
    block, level = cp.Variable((q + n, q + n), PSD=True), cp.Variable()
    diagonal = cp.diag(block)
    sums = [cp.sum(diagonal[:q][np.flatnonzero(groups == k)]) <= level for k in np.unique(groups)]
    constraints = [block[:q, q:] == workload, diagonal[q:] <= level, *sums]
    cp.Problem(cp.Minimize(level), constraints).solve(solver=cp.CLARABEL)
    return float(level.value) ** 2


@pytest.mark.parametrize("seed", range(9))
def test_the_conic_optimum_lies_between(seed: int) -> None:
    """For the total, one group, the worst row and the worst group; of deficient rank too."""
    rng = np.random.default_rng(seed)
    q, n = rng.integers(2, 6, 2)
    workload = rng.integers(-2, 3, (q, n)).astype(float)
    workload[0, 0] = 1.0
    if seed % 4 == 2:
        workload[-1] = workload[0] + workload[1]
    groups = (np.zeros(q, int), np.arange(q), rng.integers(0, 2, q))[seed % 3]
    exact = conic_optimum(workload, groups)
    asked = {"objective": "max", "groups": groups}
    found = select(workload, "l2", "gaussian_optimal", random_state=0, time_limit=2.0, **asked)
    assert exact * (1 - 1e-3) <= found.lower_bound <= exact * (1 + 1e-5)
    assert exact * (1 - 1e-5) <= found.loss <= exact * (1 + 1e-3)
    if seed % 3 == 0:
        assert lower_bound(workload) == pytest.approx(exact, rel=1e-3)


KNOWN: dict[str, tuple[Callable[[], object], str, float]] = {
    "64 prefix sums": (lambda: PREFIX(64), "total", 282),  # these three as published
    "ranges of 64": (lambda: RANGES(64), "total", 11_024),
    "nodes over 64": (lambda: examples.binary_tree(64), "total", 251),
    "cells": (lambda: np.eye(5), "total", 5.0),
    "one sum": (lambda: np.ones((3, 4)), "total", 3.0),
    "64 prefix sums, largest": (lambda: np.tri(64), "max", 4.458),
    "nodes over 64, largest": (lambda: examples.binary_tree(64), "max", 3.0),
    "leaves of a tree over 2^150 cells": (
        lambda: RowKronecker.from_masks([np.repeat(np.eye(2), 2, 0), np.tile(np.eye(2), (2, 1))]
                                        + [np.ones((4, 2))] * 148), "total", 4.0,
    ),
    "a table of two attributes": (
        lambda: RowKronecker.from_masks([np.eye(5), np.ones((5, 4))]), "total", 5.0,
    ),
    "four chained trees, equal eigenvalues": (lambda: chained_trees(), "total", 1460.64),
}  # fmt: skip


def chained_trees() -> RowKronecker:
    """Four trees of two attributes each: not every LAPACK driver ends on their Grams."""
    masks = [np.ones((400, 10), dtype=bool) for _ in range(8)]
    for tree in range(4):
        for attribute, code in zip((tree, tree + 1), np.divmod(np.arange(100), 10), strict=True):
            masks[attribute][100 * tree : 100 * tree + 100] = code[:, None] == np.arange(10)
    return RowKronecker.from_masks(masks)


@pytest.mark.parametrize("name", KNOWN)
def test_known_values(name: str) -> None:
    make, objective, known = KNOWN[name]
    assert lower_bound(make(), objective=objective) == pytest.approx(known, rel=2e-3)


@pytest.mark.parametrize(("d", "laplace", "gaussian"), [(64, 2679.6, 2592), (123, 17113, 8990.1)])
def test_many_binary_attributes_have_a_volume_bound(
    d: int, laplace: float, gaussian: float
) -> None:
    """Laplace noise costs the cube of the rank where the hull of the columns is round."""
    tables = Marginals((2,) * d, [(i,) for i in range(d)], [1.0] * d)
    assert lower_bound(tables, "l1") == pytest.approx(laplace, rel=1e-4)
    assert lower_bound(tables, "l2") == pytest.approx(gaussian, rel=1e-4)


@pytest.mark.parametrize("sizes", [(2,) * 90, (2, 3) * 40, (4,) * 60])
def test_no_volume_bound_is_above_a_strategy(sizes: tuple[int, ...]) -> None:
    d = len(sizes)
    weights = np.random.default_rng(d).uniform(0.5, 1.5, d)
    tables = Marginals(sizes, [(i,) for i in range(d)], weights)
    found = select(tables, "l1", method="residual_marginals", random_state=0, time_limit=1)
    assert lower_bound(tables, "l2") < found.lower_bound < found.loss


def test_products_multiply_bounds_for_gaussian_noise_alone() -> None:
    """Volumes bound one factor for Laplace noise: times another's bound they prove nothing."""
    singles = Marginals((2,) * 90, [(i,) for i in range(90)], [1.0] * 90)
    assert lower_bound(singles, "l1") > lower_bound(singles, "l2")
    product = Kronecker([singles, PrefixSums(4)])
    bounds = [lower_bound(product, norm) for norm in NORMS]
    assert bounds[0] == bounds[1]
    for norm, bound in zip(NORMS, bounds, strict=True):
        assert 0.0 < bound <= evaluate(product, Kronecker([singles, Identity(4)]), norm).loss


# Largest entries ------------------------------------------------------------------------------

ENTRIES = np.array([[3.0, 1.0, 0.0], [0.0, -2.0, 2.0]])


@pytest.mark.parametrize("norm", NORMS)
def test_no_row_costs_less_than_its_largest_entry(norm: str) -> None:
    """All of them together, and those of a group; of signed rows, votes of paths, and masks."""
    masks = [np.array([[1, 0], [1, 1], [0, 0]]), np.array([[1, 1, 0], [0, 1, 0], [1, 1, 1]])]
    votes = prediction((3, 2, 3), 40, 6, 2)
    for workload in (Dense(ENTRIES), votes, RowKronecker.from_masks(masks)):
        largest = np.abs(workload.to_dense()).max(axis=1) ** 2
        assert lower_bound(workload, norm) >= largest.sum() * (1 - 1e-9)
        assert lower_bound(workload, norm, objective="max") >= largest.max() * (1 - 1e-9)
    grouped = lower_bound(ENTRIES, norm, objective="max", groups=[5, 5])
    assert 13.0 * (1 - 1e-9) <= grouped <= gaussian_optimum(ENTRIES)
    cells = RowScaled(np.array([3.0, 2.0, 2.5]), RowKronecker.from_masks([np.eye(3, dtype=bool)]))
    bound = lower_bound(cells, norm, objective="max", groups=[0, 1, 1])
    assert bound == pytest.approx(4 + 6.25, rel=1e-3)


@pytest.mark.parametrize("weight", [0.01, 1.0, 30.0])
def test_beyond_enumeration_the_best_of_several_bounds_counts(weight: float) -> None:
    tables = Marginals((10,) * 12, [(0,), (1, 2)], [1.0, weight])
    bound = lower_bound(tables, "l1", objective="max")
    assert bound >= max(1.0, weight**2, lower_bound(tables, "l2") / tables.shape[0]) * (1 - 1e-9)
    assert bound <= select(tables, "l2", objective="max", random_state=0).loss


TABLES = {
    "one way": examples.marginals((4, 5, 2, 3), 1),
    "two way": examples.marginals((4, 5, 2, 3), 2),
    "weighted": Marginals((3, 2, 4), [(0, 1), (2,), ()], [1.0, 3.0, 0.0]),
    "large": examples.marginals((100, 50, 7, 4, 2), 2),
    "many": examples.marginals((2,) * 60, 2),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_largest_error_of_tables_is_certified(name: str) -> None:
    found = select(TABLES[name], "l2", objective="max", random_state=0)
    assert found.lower_bound <= found.loss <= (1 + 2e-4) * found.lower_bound
    if found.matrix.shape[1] < 200:
        dense = evaluate(TABLES[name].to_dense(), found.matrix.to_dense(), "l2", "max")
        assert dense.loss == pytest.approx(found.loss, rel=1e-8)
        assert dense.lower_bound == pytest.approx(found.lower_bound, rel=1e-3)


# What changes no bound ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["prefix sums", "paths", "marginals", "union", "signed"])
def test_forms_and_units_change_no_bound(kind: str) -> None:
    workload = WORKLOADS[kind]()
    rows = workload.to_dense()
    bound = lower_bound(workload)
    order = np.random.default_rng(0).permutation(len(rows))
    for form in (rows, rows[order], Gram(rows.T @ rows), np.repeat(rows, 2, axis=1)):
        assert lower_bound(form) == pytest.approx(bound, rel=1e-3)
    twice = np.repeat(rows, 2, axis=0)
    assert lower_bound(twice) == pytest.approx(2 * bound, rel=1e-3)
    assert lower_bound(rows, weights=np.full(len(rows), 2.0)) == pytest.approx(2 * bound, rel=1e-3)
    assert lower_bound(Scaled(1e-9, workload)) == pytest.approx(1e-18 * bound, rel=1e-3)


def test_ordered_cells_of_very_different_weight_keep_the_bound_of_the_rows() -> None:
    """There the bound for ordered cells is far below the optimum that its climb found."""
    weights = np.logspace(6, -2, 4)
    found = select(PREFIX(4), "l2", weights=weights, random_state=0)
    assert found.loss * 0.99 <= found.lower_bound <= found.loss * (1 + 1e-9)


# Routes for what is large, on small workloads --------------------------------------------------

MIXED = Product(
    Dense(np.random.default_rng(1).normal(size=(4, 6))), paths((3, 2, 4), 6, 0, free=0.4)
)
SPARSE = (np.random.default_rng(0).random((40, 60)) < 0.1).astype(float)
LARGE: dict[str, tuple[dict[str, float], Callable[[], object], float]] = {
    "even weights": ({"lower_bound.LARGEST": 8}, lambda: np.vstack([np.tri(9), np.ones(9)]), 0.5),
    "weights by length": ({"dual_ascent.LONGEST": 0.0}, lambda: SPARSE, 0.5),
    "rows too many to climb": (
        {"dual_ascent.LARGEST": 1, "lower_bound.LARGEST": 1}, lambda: np.tri(6), 0.3,
    ),
    "ordered cells": ({"ordered_dual.MOST_SPECTRUM": 0}, lambda: PREFIX(20), 0.9),
    "paths": ({"lower_bound.LARGEST": 0}, lambda: paths((4, 3, 2), 12, 5), 0.9),
    "combined paths": ({"lower_bound.LARGEST": 0}, lambda: MIXED, 0.9),
    "paths of many masks": (
        {"lower_bound.LARGEST": 0, "path_bounds.MOST_MASKS": 60},
        lambda: paths((3, 2, 4), 40, 5), 0.1,
    ),
    "many paths together": (
        {"lower_bound.LARGEST": 0, "path_bounds.MOST_WHOLE": 0},
        lambda: trees((4, 4), 8, 2, 1), 0.1,
    ),
    "few pinched rows": (
        {"lower_bound.LARGEST": 0, "path_bounds.MOST_WHOLE": 0, "path_bounds.MOST_ROWS": 5},
        lambda: trees((3, 4, 3), 6, 2, 0), 0.05,
    ),
}  # fmt: skip
"""Constants that send a workload to a route, the workload, and the least share of the optimum."""


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", LARGE)
def test_no_route_for_large_workloads_is_above_the_optimum(
    name: str, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants, make, least = LARGE[name]
    for constant, value in constants.items():
        monkeypatch.setattr(f"strategies.bounds.{constant}", value)
    workload = make()
    rows = workload if isinstance(workload, np.ndarray) else workload.to_dense()
    best, bound = gaussian_optimum(rows, objective), lower_bound(workload, objective=objective)
    assert 0 < bound <= best * (1 + 1e-6)
    assert objective == "max" or bound >= least * best


def test_rows_without_an_entry_at_hand_prove_nothing_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strategies.bounds.lower_bound.MOST_ENTRIES", 0)
    assert lower_bound(0.1 * np.eye(3)) == pytest.approx(0.03, rel=1e-3)  # by the cells


def test_row_grams_beyond_the_memory_cap_are_refused() -> None:
    rows = paths((10,) * 9, 40, 0)
    found = select(rows, "l1", method="identity")
    with pytest.raises(MemoryCapError, match="row Grams"), memory_cap(1000):
        found.lower_bound  # noqa: B018


@pytest.mark.parametrize("n", [3, 40])
def test_a_total_beside_the_cells(n: int) -> None:
    workload = np.vstack([np.eye(n), total(n).to_dense()])
    best = gaussian_optimum(workload)
    assert best * 0.999 <= lower_bound(workload) <= best * (1 + 1e-6)


def test_paths_one_below_another_are_bounded_by_their_rows() -> None:
    """Each row has an entry of 1, wherever it is; a row that no cell meets counts for nothing."""
    cells = np.eye(6, dtype=bool)
    paths = [RowKronecker.from_masks([one]) for one in (cells[:3], cells[3:], cells[:1] & False)]
    assert lower_bound(Stack(paths[:2]), "l1") == pytest.approx(6)
    assert lower_bound(Stack(paths), "l1") == pytest.approx(6)
